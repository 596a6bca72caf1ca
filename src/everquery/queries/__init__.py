"""What all specs of queries share: boxes, intervals, fields, tables, SQL."""

from everquery.queries.box import Box
from everquery.queries.interval import Interval
from everquery.queries.spec import Query

__all__ = ["Box", "Interval", "Query"]
