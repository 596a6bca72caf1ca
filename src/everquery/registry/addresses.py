"""The address of a registry, shown without what only its owner should know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from everquery.errors import RegistryError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

HIDDEN = "***"
_SECRET = re.compile("passw|pwd|secret|token", re.IGNORECASE)


class Address:
    """A registry's URL.

    Examples
    --------
    >>> from sqlalchemy.engine import make_url
    >>> Address(make_url("postgresql://ann@db/queries?password=s3cret&sslmode=require")).shown
    'postgresql://ann@db/queries?password=***&sslmode=require'
    """

    def __init__(self, url: URL) -> None:
        hidden = [name for name in url.query if _SECRET.search(name)]
        given = [url.query[name] for name in hidden]
        values = [value for each in given for value in ([each] if isinstance(each, str) else each)]
        password = url.password
        self._secrets = [each for each in ([password] if password else []) + values if each]
        mark = "HIDDEN"  # stars would be written %2A
        shown = url.update_query_dict(dict.fromkeys(hidden, mark)).render_as_string()
        for name in hidden:
            shown = shown.replace(f"{name}={mark}", f"{name}={HIDDEN}")
        self.shown = shown

    def without_secrets(self, message: str) -> RegistryError:
        """Return an error with this message, in which no secret is left."""
        for secret in self._secrets:
            message = message.replace(secret, HIDDEN)
        return RegistryError(message)

    def shown_cause(self, error: BaseException) -> BaseException | None:
        """Return the cause that an error may be shown with; None if it tells a secret."""
        seen: BaseException | None = error
        while seen is not None:
            if any(secret in f"{seen} {seen.args}" for secret in self._secrets):
                return None
            seen = seen.__cause__ or seen.__context__
        return error


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for one in memory, or of a server.

    Examples
    --------
    >>> from sqlalchemy.engine import make_url
    >>> file_of(make_url("sqlite:///queries.db")), file_of(make_url("sqlite://"))
    (PosixPath('queries.db'), None)
    """
    name = url.database or ""
    if url.get_backend_name() != "sqlite" or not name or name.startswith(":"):
        return None
    if name.startswith("file:"):
        name = name.removeprefix("file:")
        if url.query.get("mode") == "memory" or name.startswith(":"):
            return None
    return Path(name)


def shown_url(url: URL) -> str:
    """Return a URL without passwords."""
    return Address(url).shown
