"""Window queries: a statistic of the last rows, or of a span of time."""

from everquery.kinds.answer import Question
from everquery.kinds.kind import Kind, Listed
from everquery.kinds.window.index import WindowIndex
from everquery.kinds.window.questions import answer, shown_window
from everquery.kinds.window.sample import crowd, sample
from everquery.kinds.window.spec import Window
from everquery.kinds.window.sql import WindowClause

KIND = Kind(
    package="everquery.kinds.window",
    spec=Window,
    index=WindowIndex,
    clause=WindowClause(),
    colours={"change": "bold blue", "enter": "green", "leave": "red"},
    sample=sample,
    crowd=crowd,
    questions={"answer": Question(answer, "have answers")},
    listed=Listed("window", shown_window),
    once_a_batch=lambda query: query.epsilon is not None,
)
