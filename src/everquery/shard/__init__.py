"""A shard: the queries and the state of one part of the work."""

from everquery.shard.shard import Shard, Times
from everquery.shard.upkeep import DueMerge

__all__ = ["DueMerge", "Shard", "Times"]
