"""What must hold of a snapshot's header and arrays before anything of it is used."""

from everquery.shard.checks.snapshots import check_snapshot

__all__ = ["check_snapshot"]
