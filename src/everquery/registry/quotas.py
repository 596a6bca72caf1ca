"""How many live queries owners may have, within a transaction of the registry."""

from __future__ import annotations

from sqlalchemy import Connection, insert, text

from everquery.registry import tables
from everquery.registry.rows import whole_number

_QUOTAS = text("SELECT owner, most FROM everquery_quotas WHERE stream = :name")
_DELETE = text("DELETE FROM everquery_quotas WHERE stream = :stream AND owner = :owner")


def read_quotas(connection: Connection, stream: str) -> dict[str | None, int]:
    """Return how many live queries each owner may have on a stream; None is the default."""
    rows = connection.execute(_QUOTAS, {"name": stream})
    return {
        row.owner or None: whole_number(row.most, stream, f"quota of {row.owner!r}") for row in rows
    }


def set_quota(connection: Connection, stream: str, owner: str | None, limit: int | None) -> None:
    """Set or, without a limit, remove an owner's quota."""
    row = {"stream": stream, "owner": owner or ""}
    connection.execute(_DELETE, row)
    if limit is not None:
        connection.execute(insert(tables.quotas).values(**row, most=limit))
