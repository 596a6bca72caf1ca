"""Threshold queries: the event at which a total is reached."""

from everquery.kinds.answer import Question
from everquery.kinds.kind import Kind, Listed
from everquery.kinds.threshold.index import ThresholdIndex
from everquery.kinds.threshold.questions import progress, shown_total
from everquery.kinds.threshold.sample import crowd, sample
from everquery.kinds.threshold.spec import Threshold
from everquery.kinds.threshold.sql import ThresholdClause

KIND = Kind(
    package="everquery.kinds.threshold",
    spec=Threshold,
    index=ThresholdIndex,
    clause=ThresholdClause(),
    colours={"fire": "bold yellow"},
    sample=sample,
    crowd=crowd,
    questions={"progress": Question(progress, "make progress")},
    listed=Listed("total", shown_total),
)
