"""Notices as objects: for programs that take them one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa


class Notice:
    """One notice, with its columns as attributes; ``notice_id`` is text.

    A column whose name is no name of Python's is had as ``notice["the name"]``.

    Parameters
    ----------
    columns : dict from name to value
    identify : function, optional
        Returns ``notice_id``, when it is asked for, where the columns lack it.

    Examples
    --------
    >>> notice = Notice({"query_id": "band", "event": "enter", "reason": None})
    >>> notice.event, notice["event"], notice
    ('enter', 'enter', Notice(query_id='band', event='enter'))
    """

    __slots__ = ("_columns", "_identify")

    def __init__(self, columns: dict[str, Any], identify: Callable[[], str] | None = None) -> None:
        self._columns = columns
        self._identify = identify

    def _all(self) -> dict[str, Any]:
        if self._identify is not None:
            self._columns["notice_id"] = self._identify()
            self._identify = None
        return self._columns

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the column has it
        if name in self._columns:
            return self._columns[name]
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._all()[name]
        except KeyError:
            raise AttributeError(
                f"the notice has no column {name!r}; it has {', '.join(self._columns)}"
            ) from None

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - as above
        return self._all()[name]

    def as_dict(self) -> dict[str, Any]:
        """Return all columns by name."""
        return dict(self._all())

    def __repr__(self) -> str:
        filled = (f"{name}={value!r}" for name, value in self._all().items() if value is not None)
        return f"Notice({', '.join(filled)})"


def notices_of(table: pa.Table) -> list[Notice]:
    """Return the rows of a table of notices as objects."""
    return [Notice({**row, "notice_id": row["notice_id"].hex()}) for row in table.to_pylist()]
