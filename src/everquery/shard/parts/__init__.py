"""The parts of a shard's state that no kind of query brings."""

from everquery.shard.parts.known import load_parts, parts_of

__all__ = ["load_parts", "parts_of"]
