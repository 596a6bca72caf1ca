"""Border queries: only what enters or leaves a box."""

from everquery.kinds.border.index import BorderIndex
from everquery.kinds.border.sample import sample
from everquery.kinds.border.spec import Border
from everquery.kinds.border.sql import BorderClause
from everquery.kinds.kind import Kind

KIND = Kind(
    package="everquery.kinds.border",
    spec=Border,
    index=BorderIndex,
    clause=BorderClause(),
    colours={"enter": "green", "leave": "red"},
    sample=sample,
)
