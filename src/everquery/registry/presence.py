"""Whether a registry is there: a typo in its URL is an error, and makes no empty registry."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from everquery.errors import RegistryError
from everquery.registry.addresses import file_of, shown_url

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

log = logging.getLogger("everquery.registry")

_TABLES = (
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 10) = 'everquery_'"
)


def no_registry(shown: str, reason: str) -> RegistryError:
    """Return the error for a registry that is not there."""
    return RegistryError(
        f"there is no registry {shown}: {reason}. If its address is right, make it with create=True"
        f" or: everquery init -r {shown}"
    )


def warn_of_no_queries(stream: str, shown: str) -> None:
    """Say that events of a stream come, and that the registry has no queries for them."""
    log.warning(
        "no queries are registered on stream %r in %s: nothing is told until one is", stream, shown
    )


def is_in_memory(address: URL) -> bool:
    """Tell whether a database is new whenever it is opened, and nobody else's."""
    return address.get_backend_name() == "sqlite" and file_of(address) is None


def expect_registry(address: URL) -> None:
    """Raise if a SQLite file is not there, or has no table of ours; the file is not changed.

    Whether a server's database has any is seen when it is opened.
    """
    path = file_of(address)
    if path is None:
        return
    if not path.exists():
        raise no_registry(shown_url(address), f"the file {path} does not exist")
    if _is_another(path):
        raise no_registry(shown_url(address), f"{path} has no tables of everquery's")


def _is_another(path: Path) -> bool:
    """Tell whether a file is a database without any table of ours; one that is damaged is not."""
    try:
        # Opened for reading only, so that somebody else's file stays as it is.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return int(file.execute(_TABLES).fetchone()[0]) == 0
    except sqlite3.Error:
        return False  # whoever opens it is told
