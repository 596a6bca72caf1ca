"""Changes of the query set: what the registry's log is made of."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from everquery.queries.block import QueryBlock
from everquery.queries.spec import Query


@dataclass(frozen=True, slots=True)
class Register:
    """Queries begin, as a user wrote them."""

    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class RegisterBlocks:
    """Queries begin, as columns."""

    blocks: tuple[QueryBlock, ...]


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
