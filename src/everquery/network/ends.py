"""The ends of a network: streams where rows come in, outputs where they go out, points between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from everquery.core.spans import BadSpanError, read_span
from everquery.errors import InvalidNetworkError, InvalidStreamError
from everquery.network.expressions.types import NAMES, NUMBER, UNKNOWN
from everquery.network.quality import SHED, Quality
from everquery.network.rows import RowType
from everquery.stream import Stream

ALL = "all"


@dataclass(frozen=True)
class Source:
    """A stream, and the types of columns where they are known before the first batch.

    Attributes
    ----------
    stream : Stream
    columns : mapping of str to str
        Types by column. Columns that the stream has no role for are passed on as they are.
        Attributes are numbers; keys and times take their type from the first batch without this.
    """

    stream: Stream
    columns: Mapping[str, str] | None = None

    @staticmethod
    def read(name: str, form: Any) -> Source:  # noqa: ANN401 - whatever a file has
        """Return a stream from its form in YAML."""
        if isinstance(form, Source):
            return form
        if isinstance(form, Stream):
            return Source(form)
        if not isinstance(form, Mapping):
            raise InvalidNetworkError(
                f"it is {form!r}; write {{key: ..., time: ..., attributes: []}}"
            )
        known = {field.name for field in fields(Stream)} - {"name"}
        given = dict(form)
        columns = given.pop("columns", None)
        unknown = [key for key in given if key not in known]
        if unknown:
            raise InvalidNetworkError(
                f"a stream has no {unknown[0]!r}; it has {', '.join(sorted(known))} and columns"
            )
        given.setdefault("attributes", [])
        if columns is not None and not isinstance(columns, Mapping):
            raise InvalidNetworkError(f"`columns` is {columns!r}; write {{column: type}}")
        for column, kind in (columns or {}).items():
            if kind not in NAMES:
                raise InvalidNetworkError(
                    f"column {column!r} has type {kind!r}; there are {', '.join(NAMES)}"
                )
        try:
            return Source(Stream(name, **given), columns)
        except (InvalidStreamError, TypeError) as error:
            raise InvalidNetworkError(str(error)) from None

    def form(self) -> dict[str, Any]:
        """Return it as YAML has it."""
        found: dict[str, Any] = {}
        for field in fields(Stream):
            value = getattr(self.stream, field.name)
            if field.name != "name" and value is not None:
                found[field.name] = list(value) if isinstance(value, tuple) else _span(value)
        if self.columns is not None:
            found["columns"] = dict(self.columns)
        return found

    def row_type(self) -> RowType:
        """Return the type of its rows, as far as it is known."""
        stream = self.stream
        kinds = {}
        for name in stream.columns():
            unknown = name in (stream.key, stream.time)
            kinds[name] = UNKNOWN if unknown else NUMBER
        for name, kind in (self.columns or {}).items():
            kinds[name] = NAMES[kind]
        return RowType(kinds, key=stream.key, time=stream.time, stream=stream)


def _span(value: Any) -> Any:  # noqa: ANN401 - of a stream's field
    if hasattr(value, "total_seconds"):
        return f"{value.total_seconds():g}s"
    return value


@dataclass(frozen=True)
class Output:
    """Where an application reads.

    Attributes
    ----------
    source : str
        The box or stream whose rows these are.
    qos : Quality, optional
    shed : str, optional
        ``never``: no row on the way to this output may be shed.
    """

    source: str
    qos: Quality | None = None
    shed: str | None = None

    @staticmethod
    def read(form: Any) -> Output:  # noqa: ANN401 - whatever a file has
        """Return an output from its form in YAML; the name that it reads from is enough."""
        if isinstance(form, Output):
            return form
        if isinstance(form, str):
            return Output(form)
        if not isinstance(form, Mapping) or not isinstance(form.get("from"), str):
            raise InvalidNetworkError(f"it is {form!r}; write {{from: box}}")
        unknown = [key for key in form if key not in ("from", "qos", "shed")]
        if unknown:
            raise InvalidNetworkError(f"an output has no {unknown[0]!r}; it has from, qos and shed")
        shed = form.get("shed")
        if shed is not None and shed not in SHED:
            raise InvalidNetworkError(f"shed is {shed!r}; it is {' or '.join(SHED)}")
        qos = form.get("qos")
        return Output(form["from"], None if qos is None else Quality.read(qos), shed)

    def form(self) -> dict[str, Any]:
        """Return it as YAML has it."""
        found: dict[str, Any] = {"from": self.source}
        if self.qos is not None:
            found["qos"] = self.qos.form()
        if self.shed is not None:
            found["shed"] = self.shed
        return found


@dataclass(frozen=True)
class Point:
    """A connection point: a named arc where boxes attach while the network runs.

    Attributes
    ----------
    source : str
    keep : mapping or str, optional
        What it keeps for those who begin in the past: ``{rows: 1000}``, ``{time: 2h}``, ``all``.
    """

    source: str
    keep: Any = None

    @staticmethod
    def read(form: Any) -> Point:  # noqa: ANN401 - whatever a file has
        """Return a point from its form in YAML."""
        if isinstance(form, Point):
            return form
        if isinstance(form, str):
            return Point(form)
        if not isinstance(form, Mapping) or not isinstance(form.get("from"), str):
            raise InvalidNetworkError(f"it is {form!r}; write {{from: box, keep: {{rows: 1000}}}}")
        unknown = [key for key in form if key not in ("from", "keep")]
        if unknown:
            raise InvalidNetworkError(f"a point has no {unknown[0]!r}; it has from and keep")
        keep = form.get("keep")
        _check_keep(keep)
        return Point(form["from"], dict(keep) if isinstance(keep, Mapping) else keep)

    def form(self) -> dict[str, Any]:
        """Return it as YAML has it."""
        return {"from": self.source, **({} if self.keep is None else {"keep": self.keep})}


def _check_keep(keep: Any) -> None:  # noqa: ANN401 - whatever a file has
    how = "write {rows: 1000}, {time: 2h} or all"
    if keep is None or keep == ALL:
        return
    if not isinstance(keep, Mapping) or len(keep) != 1 or not set(keep) <= {"rows", "time"}:
        raise InvalidNetworkError(f"keep is {keep!r}; {how}")
    rows = keep.get("rows", 1)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise InvalidNetworkError(f"keep has {rows!r} rows; {how}")
    if "time" in keep:
        try:
            read_span(keep["time"])
        except BadSpanError as error:
            raise InvalidNetworkError(f"keep has time {keep['time']!r}: {error}") from None
