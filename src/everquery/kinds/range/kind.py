"""Range queries: every event inside a box."""

from everquery.kinds.kind import Kind
from everquery.kinds.range.index import RangeIndex
from everquery.kinds.range.sample import crowd, sample
from everquery.kinds.range.spec import Range
from everquery.kinds.range.sql import RangeClause

KIND = Kind(
    package="everquery.kinds.range",
    spec=Range,
    index=RangeIndex,
    clause=RangeClause(),
    colours={"match": "cyan"},
    sample=sample,
    crowd=crowd,
)
