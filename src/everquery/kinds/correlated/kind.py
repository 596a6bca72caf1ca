"""Correlated queries: aggregates where x relates to the MIN, MAX or AVG of x."""

from everquery.kinds.answer import Question
from everquery.kinds.correlated.index import CorrelatedIndex
from everquery.kinds.correlated.questions import answer, shown_correlated
from everquery.kinds.correlated.sample import crowd, sample
from everquery.kinds.correlated.spec import Correlated
from everquery.kinds.correlated.sql import CorrelatedClause
from everquery.kinds.kind import Kind, Listed

KIND = Kind(
    package="everquery.kinds.correlated",
    spec=Correlated,
    index=CorrelatedIndex,
    clause=CorrelatedClause(),
    colours={"change": "bold blue", "enter": "green", "leave": "red"},
    sample=sample,
    crowd=crowd,
    questions={"answer": Question(answer, "have answers")},
    listed=Listed("correlated", shown_correlated),
)
