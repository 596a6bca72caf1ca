"""The kinds of query, one package each."""

from everquery.kinds.kind import Kind, kind_in
from everquery.kinds.known import KINDS, USUAL, register

__all__ = ["KINDS", "USUAL", "Kind", "kind_in", "register"]
