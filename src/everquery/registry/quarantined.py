"""Queries that a Spark job has taken out because they made its work fail: what operators see.

The truth is in the checkpoint of the job: a shard knows which queries it runs without, and tells
all of them with every batch. The registry has a copy, by job and shard, that is replaced as a
whole. So what is lost on the way is told again, and nothing has to agree at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    inspect,
    select,
)

# Made with the first query that is taken out: most registries never need it.
table = Table(
    "everquery_quarantined",
    MetaData(),
    Column("stream", String(255), primary_key=True),
    Column("job", String(64), primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("failed", Boolean, nullable=False),
)


class Quarantined(NamedTuple):
    """A query that a shard runs without.

    Attributes
    ----------
    id, kind : str
    reason : str
        The error that it caused.
    position : int
        The version of the query set in the batch in which it did.
    failed : bool
        Whether it made work fail; else it was refused from the start, such as one with a key of
        another type than the stream's.
    """

    id: str
    kind: str
    reason: str
    position: int
    failed: bool = True


def as_json(queries: Iterable[Quarantined]) -> str:
    """Return queries as text."""
    return json.dumps([tuple(query) for query in queries])


def from_json(text: str | bytes) -> list[Quarantined]:
    """Return the queries that `as_json` made a text of."""
    return [Quarantined(*fields) for fields in json.loads(text)]


Opened = Callable[[], AbstractContextManager[Connection]]


class QuarantineList:
    """The quarantined queries of a stream.

    Parameters
    ----------
    stream : str
    reading, writing : function
        Give a connection in a transaction.
    """

    def __init__(self, stream: str, *, reading: Opened, writing: Opened) -> None:
        self._stream = stream
        self._reading, self._writing = reading, writing

    def read(self, job: str | None = None) -> dict[tuple[str, int], list[Quarantined]]:
        """Return the queries that are out, by job and shard; of one job, or of all."""
        found: dict[tuple[str, int], list[Quarantined]] = {}
        with self._reading() as connection:
            if not inspect(connection).has_table(table.name):
                return {}
            wanted = select(table).where(table.c.stream == self._stream)
            if job is not None:
                wanted = wanted.where(table.c.job == job)
            for row in connection.execute(wanted.order_by(table.c.position, table.c.id)):
                query = Quarantined(row.id, row.kind, row.reason, row.position, bool(row.failed))
                found.setdefault((row.job, row.shard), []).append(query)
        return found

    def replace(self, job: str, shards: Mapping[int, Sequence[Quarantined]]) -> None:
        """Note which queries some shards of a job run without."""
        mine = (table.c.stream == self._stream) & (table.c.job == job)
        with self._writing() as connection:
            table.create(connection, checkfirst=True)
            connection.execute(delete(table).where(mine & table.c.shard.in_(list(shards))))
            for shard, queries in shards.items():
                place = {"stream": self._stream, "job": job, "shard": shard}
                for query in queries:
                    connection.execute(insert(table).values(**place, **query._asdict()))

    def forget(self, ids: Sequence[str]) -> None:
        """Forget queries, whoever took them out."""
        with self._writing() as connection:
            if inspect(connection).has_table(table.name):
                mine = (table.c.stream == self._stream) & table.c.id.in_(list(ids))
                connection.execute(delete(table).where(mine))


def forget_stream(connection: Connection, stream: str) -> None:
    """Forget what was noted of a stream that is dropped."""
    if inspect(connection).has_table(table.name):
        connection.execute(delete(table).where(table.c.stream == stream))
