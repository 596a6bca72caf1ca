"""One frozen, validated spec a kind of query."""

from everquery.queries.border import Border
from everquery.queries.box import Box
from everquery.queries.interval import Interval
from everquery.queries.quantile import Quantile
from everquery.queries.range import Range
from everquery.queries.spec import Query
from everquery.queries.threshold import Threshold

__all__ = ["Border", "Box", "Interval", "Quantile", "Query", "Range", "Threshold"]
