"""Changes of the query set: what the registry's log is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from everquery.queries.begin import Begin
from everquery.queries.block import QueryBlock
from everquery.queries.spec import Query

Mode = Literal["register", "replace", "move", "leave"]
"""How queries begin.

- ``register``: no live query has their ids.
- ``replace``: each takes the place of the live query with its id. If it says the same in all that
  answers depend on, that one goes on, with the new owner and labels.
- ``move``: the same; but the new query may belong to other shards than the old one.
- ``leave``: what a shard gets of a move to other shards. The old query ends here, and what that
  means is told in the name of the new one.
"""
MODES: tuple[Mode, ...] = ("register", "replace", "move", "leave")


@dataclass(frozen=True, slots=True)
class Register:
    """Queries begin, as a user wrote them."""

    queries: tuple[Query, ...]
    mode: Mode = "register"
    begin: Begin | None = None  # in the past; queries that replace others have none


@dataclass(frozen=True, slots=True)
class RegisterBlocks:
    """Queries begin, as columns."""

    blocks: tuple[QueryBlock, ...]
    mode: Mode = "register"
    begin: Begin | None = None  # as above


@dataclass(frozen=True, slots=True)
class Deregister:
    """Queries end."""

    ids: pa.Array


@dataclass(frozen=True, slots=True)
class Pause:
    """Queries emit nothing until they are resumed."""

    ids: pa.Array


@dataclass(frozen=True, slots=True)
class Resume:
    """Paused queries emit again, beginning with the keys that are inside now."""

    ids: pa.Array


Change = Register | RegisterBlocks | Deregister | Pause | Resume
