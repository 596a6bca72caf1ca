"""Streams are created, altered and dropped, within a transaction of the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from sqlalchemy import Connection, delete, insert, select, text, update

from everquery.core.spans import SpanLike
from everquery.errors import InvalidStreamError, RegistryBehindError, UnknownStreamError
from everquery.registry import tables
from everquery.registry.bases import write_base
from everquery.registry.definitions import stored_stream, stream_as_json
from everquery.registry.digests import digest_of_stream
from everquery.registry.orphans import left_log
from everquery.registry.quarantined import forget_stream
from everquery.registry.rows import whole_number
from everquery.stream import Stream

_STREAMS = text("SELECT name, definition, digest FROM everquery_streams ORDER BY name")
_STREAM = text("SELECT definition, digest FROM everquery_streams WHERE name = :name")


def no_stream(name: str) -> UnknownStreamError:
    """Return the error for a stream that is not there."""
    return UnknownStreamError(f"the registry has no stream {name!r}; create it first")


def read_streams(connection: Connection) -> dict[str, Stream]:
    """Return all streams by name."""
    rows = connection.execute(_STREAMS)
    return {name: stored_stream(name, *row) for name, *row in rows}


def create_stream(connection: Connection, stream: Stream, shown: str) -> None:
    """Add a stream; one that is there already must be the same."""
    definition = stream_as_json(stream)
    row = connection.execute(_STREAM, {"name": stream.name}).one_or_none()
    if row is not None:
        known = stored_stream(stream.name, *row)
        if known != stream:
            raise InvalidStreamError(
                f"{shown} has another stream {stream.name!r}: {known};"
                f" here it is {stream}. Give the stream by its name alone, or choose another name"
            )
        return
    first = _first_position(connection, stream.name)
    head, base = left_log(connection, stream.name) or (first, first)
    digest = digest_of_stream(stream.name, definition)
    connection.execute(insert(tables.streams).values((stream.name, definition, head, base, digest)))
    if base == first and first:
        write_base(connection, stream.name, base, ())


def alter_stream(
    connection: Connection,
    name: str,
    attributes: Sequence[str],
    spans: Mapping[str, SpanLike | None],
) -> Stream:
    """Give a stream further attributes and other spans, and return it as it is then."""
    streams = tables.streams
    row = connection.execute(
        select(streams.c.definition, streams.c.digest)
        .where(streams.c.name == name)
        .with_for_update()
    ).one_or_none()
    if row is None:
        raise no_stream(name)
    stream = stored_stream(name, *row)
    altered = stream.altered(attributes=attributes, **spans)
    definition = stream_as_json(altered)
    changed = {"definition": definition, "digest": digest_of_stream(name, definition)}
    connection.execute(update(streams).where(streams.c.name == name).values(**changed))
    return altered


def drop_stream(connection: Connection, name: str, head: int | None) -> None:
    """Forget a stream, its queries and quotas, and whoever reads its log."""
    chosen = tables.streams.c.name == name
    found = connection.execute(
        select(tables.streams.c.head).where(chosen).with_for_update()
    ).scalar()
    if found is None:
        raise no_stream(name)
    last = whole_number(found, name, "head")
    if head is not None and last != head:
        raise RegistryBehindError(
            f"the queries of stream {name!r} have changed meanwhile; it is not dropped."
            " Look at them and try again"
        )
    meta = tables.meta
    connection.execute(delete(meta).where(meta.c.name == _dropped(name)))
    connection.execute(insert(meta).values(name=_dropped(name), value=str(last)))
    connection.execute(delete(tables.streams).where(chosen))
    for table in tables.tables.sorted_tables:
        if "stream" in table.c:
            connection.execute(delete(table).where(table.c.stream == name))
    forget_stream(connection, name)


def _first_position(connection: Connection, name: str) -> int:
    """Return where the log of a new stream begins: behind all that one of its name has had."""
    meta = tables.meta
    noted = connection.execute(select(meta.c.value).where(meta.c.name == _dropped(name))).scalar()
    return 0 if noted is None else int(noted) + 1


def _dropped(name: str) -> str:
    """Return under which name it is noted where the log of a dropped stream ended."""
    return f"dropped {blake2b(name.encode(), digest_size=16).hexdigest()}"
