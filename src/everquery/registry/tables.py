"""The tables of a registry, and what is done when one is opened."""

from __future__ import annotations

import secrets

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    text,
)

from everquery.errors import RegistryDamagedError, RegistryError
from everquery.registry.presence import no_registry

VERSION = 2
SECRET_BYTES = 16
_REPAIR = "`everquery registry repair` makes it anew, and says what is lost"

tables = MetaData()
meta = Table(
    "everquery_meta", tables, Column("name", String(64), primary_key=True), Column("value", Text)
)
streams = Table(
    "everquery_streams",
    tables,
    Column("name", String(255), primary_key=True),
    Column("definition", Text, nullable=False),
    Column("head", BigInteger, nullable=False),
    Column("base", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
)
changes = Table(
    "everquery_changes",
    tables,
    Column("stream", String(255), primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("operation", String(32), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
# What the log held up to a stream's `base`, without what is gone: the result of a compaction. The
# last row, `END`, says that none is missing.
bases = Table(
    "everquery_bases",
    tables,
    Column("stream", String(255), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("operation", String(32), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
)
# Bases that have been replaced by newer ones, but that a reader began with.
kept_bases = Table(
    "everquery_kept_bases",
    tables,
    Column("stream", String(255), primary_key=True),
    Column("base", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("operation", String(32), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
)
# How many live queries owners may have; the empty name stands for all without a quota of their own.
quotas = Table(
    "everquery_quotas",
    tables,
    Column("stream", String(255), primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("most", BigInteger, nullable=False),
)
readers = Table(
    "everquery_readers",
    tables,
    Column("stream", String(255), primary_key=True),
    Column("reader", String(64), primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("base", BigInteger, nullable=False),
    Column("seen", Float(53), nullable=False),
)

_SELECT_SECRET = text("SELECT value FROM everquery_meta WHERE name = 'shard secret'")
_SELECT_VERSION = text("SELECT value FROM everquery_meta WHERE name = 'version'")


def open_tables(connection: Connection, shown: str, *, create: bool) -> None:
    """Make the tables of a new registry; raise if one that is there can't be used.

    Parameters
    ----------
    connection : Connection
        In a transaction that may write.
    shown : str
        The registry's name in messages.
    create : bool
        Whether a new one is to be made; else it is an error that none is there.
    """
    missing = missing_tables(connection)
    if len(missing) == len(tables.tables):
        if not create:
            raise no_registry(shown, "the database has no tables of everquery's")
        make_tables(connection)
        return
    if meta.name in missing:
        _check_columns(connection, missing, shown)
    else:
        bad = check_version(connection, shown)
        if bad:
            raise RegistryDamagedError(f"{shown}: {bad}; {_REPAIR}")
    if missing:
        raise RegistryDamagedError(f"{shown}: its table {missing[0]} is missing; {_REPAIR}")


def shard_secret(connection: Connection) -> bytes:
    """Return the secret by which keys are divided into shards; make one where there is none."""
    found = connection.execute(_SELECT_SECRET).scalar()
    if found is None:
        found = secrets.token_hex(SECRET_BYTES)
        connection.execute(insert(meta).values(name="shard secret", value=found))
    try:
        secret = bytes.fromhex(found)
    except (TypeError, ValueError):
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise RegistryDamagedError(
            "the secret by which the registry divides keys into shards is damaged; without it no"
            " checkpoint of it can go on. Delete the row 'shard secret' of everquery_meta, and"
            " start jobs with new checkpoints"
        )
    return secret


def version_of(connection: Connection) -> object:
    """Return the version that a registry has noted, or whatever is there in its place."""
    return connection.execute(_SELECT_VERSION).scalar()


def check_version(connection: Connection, shown: str) -> str:
    """Raise if the version is one that we do not know; return what is wrong if it is none."""
    noted = version_of(connection)
    if not isinstance(noted, str) or not noted.isascii() or not noted.isdigit() or len(noted) > 9:
        return f"its version is {noted!r}, which is no number"
    if int(noted) > VERSION:
        raise RegistryError(
            f"{shown} has version {noted}, and this everquery knows up to {VERSION};"
            " upgrade everquery"
        )
    if int(noted) < VERSION:
        raise RegistryError(
            f"{shown} has version {noted}; `everquery init` on it upgrades it to {VERSION}"
        )
    return ""


def missing_tables(connection: Connection) -> list[str]:
    """Return the names of the tables that are not there."""
    inspector = inspect(connection)
    return [name for name in tables.tables if not inspector.has_table(name)]


def make_tables(connection: Connection) -> None:
    """Make the tables that are not there, and note the version if that is not noted."""
    tables.create_all(connection)
    if connection.execute(_SELECT_VERSION).scalar() is None:
        connection.execute(insert(meta).values(name="version", value=str(VERSION)))


def _check_columns(connection: Connection, missing: list[str], shown: str) -> None:
    """Raise if a table that is there is none of ours."""
    inspector = inspect(connection)
    for name in tables.tables.keys() - set(missing):
        there = {column["name"] for column in inspector.get_columns(name)}
        lacking = [each.name for each in tables.tables[name].columns if each.name not in there]
        if lacking:
            raise RegistryError(
                f"{shown}: the table {name} has no such column as {lacking[0]!r}, so it is"
                " somebody else's, or of an older everquery; choose another database"
            )
