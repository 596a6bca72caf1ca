"""The kinds of query, one package each."""

from everquery.kinds.known import KINDS, Kind

__all__ = ["KINDS", "Kind"]
