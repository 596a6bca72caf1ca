"""A shard: the queries and the state of one part of the work."""

from everquery.shard.shard import DueMerge, Shard

__all__ = ["DueMerge", "Shard"]
