"""Events through an engine, one input after the other; ``run`` and ``replay`` share it."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from everquery.cli.numbers import rate
from everquery.cli.options import has_integer_keys, has_text_keys
from everquery.cli.output import counted
from everquery.cli.refusals import InputRows, as_records, refusal_lines
from everquery.cli.run_state import RunState, check_input
from everquery.cli.this_process import Clock
from everquery.core.ahead import ahead
from everquery.engine import Engine
from everquery.errors import InvalidBatchError, UnreadableFileError
from everquery.sources.files import EventFile, EventPipe, Piece
from everquery.sources.folder_journal import in_folder
from everquery.sources.formats import KNOWN_NAMES, Format, is_known
from everquery.state.said_times import span_in_units
from everquery.stream import SPANS, Stream

STDIN = "-"

Input = EventFile | EventPipe


@dataclass(slots=True)
class Tally:
    """What has happened so far.

    Attributes
    ----------
    events : rows read
    notices : by event
    unreadable : lines that were no events
    seconds : since the first batch
    """

    events: int = 0
    notices: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0
    seconds: float = 0.0

    def count(self, notices: pa.Table) -> None:
        """Count notices."""
        if notices.num_rows:
            for pair in pc.value_counts(notices["event"]).to_pylist():
                self.notices[pair["values"]] += pair["counts"]


def open_inputs(
    names: list[str],
    engine: Engine,
    *,
    form: Format | None,
    integer_keys: bool,
    stop: Callable[[], bool],
) -> list[Input]:
    """Return the inputs, each of which has been looked at; ``-`` is standard input."""
    if names.count(STDIN) > 1:
        raise typer.BadParameter("standard input can be read only once", param_hint="FILES")
    integers = integer_keys or has_integer_keys(engine)
    texts = not integers and has_text_keys(engine)
    inputs: list[Input] = []
    for name in _files(names):
        if name == STDIN:
            pipe = EventPipe(
                sys.stdin.buffer,
                engine.stream,
                form=form or "jsonl",
                integer_keys=integers,
                text_keys=texts,
                stop=stop,
            )
            inputs.append(pipe)
        else:
            file = EventFile(Path(name), engine.stream, integer_keys=integers, text_keys=texts)
            inputs.append(file)
    return inputs


def check_inputs(inputs: list[Input], state: RunState) -> None:
    """Raise if an input is not the one that a state knows by its name."""
    for source in inputs:
        if isinstance(source, EventFile) and (place := state.place(source.path)) is not None:
            check_input(source.path, place)


def _files(names: list[str]) -> Iterator[str]:
    """Yield the inputs, with the files of a folder in its place; say which are left out there."""
    for name in names:
        if name == STDIN or not Path(name).is_dir():
            yield name
            continue
        there = in_folder(Path(name))
        known = [path for path in there if is_known(path)]
        if not known:
            raise UnreadableFileError(
                f"there is no file of events in the folder {name}; known are {KNOWN_NAMES}"
            )
        if len(known) < len(there):
            first = min(set(there) - set(known))
            left = counted(len(there) - len(known), "file")
            typer.echo(
                f"{name}: {left} left out; the first is {first.name}. Known are {KNOWN_NAMES}",
                err=True,
            )
        yield from map(str, known)


def check_spans(stream: Stream, schema: pa.Schema) -> None:
    """Raise if times have no unit for the stream's spans, and name the command that mends it."""
    if stream.time is None or schema.get_field_index(stream.time) < 0:
        return
    kind, column = schema.field(stream.time).type, repr(stream.time)
    if pa.types.is_floating(kind):
        kind = pa.float64()
    elif not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return  # they are no times at all, or none is known yet
    for name in SPANS:
        try:
            span_in_units(getattr(stream, name), kind, stream.time)
        except InvalidBatchError as error:
            command = f"everquery stream alter {shlex.quote(stream.name)}"
            option = f"--{name.replace('_', '-')}"
            number = (
                "5s, or so" if pa.types.is_temporal(kind) else f"NUMBER, in the unit of {column}"
            )
            raise InvalidBatchError(
                f"{name} of stream {stream.name!r} does not fit: {error}. Mend it with:"
                f" {command} {option} {number} (or {option} none)"
            ) from None


def _pieces(source: Input, place: Mapping[str, Any] | None) -> Generator[Piece, None, None]:
    """Return what a source yields; a file is read ahead, a pipe gives what is there."""
    return ahead(source.pieces(place)) if isinstance(source, EventFile) else source.pieces()


class EventJob:
    """Reads inputs, processes their events, and counts.

    Parameters
    ----------
    engine : Engine
    inputs : list
    clock : function
        Returns seconds.
    stop : function
        Tells whether to end before the next batch.
    state : RunState, optional
        What to go on from. Then events that the grace holds back are not let out at the end: the
        next run goes on with them.

    Attributes
    ----------
    rows : InputRows
        Which rows have come from which input.
    arrived : int
        How many events have been read, also before this run.
    """

    def __init__(
        self,
        engine: Engine,
        inputs: list[Input],
        *,
        clock: Clock,
        stop: Callable[[], bool],
        state: RunState | None = None,
    ) -> None:
        self.engine = engine
        self.inputs = inputs
        self.tally = Tally()
        self.interrupted = False
        self.place = "before the first event"
        self._clock = clock
        self._stop = stop
        self._state = state
        self.rows = InputRows(state.rows if state is not None else ())
        self.arrived = state.arrived if state is not None else 0
        self._refused_before = Counter(engine.stats()["dead_letters_by_reason"])

    def run(self) -> Iterator[tuple[Input, Piece, pa.Table]]:
        """Yield each batch with its notices; at the end of the input, let out what is held back."""
        began = self._clock()
        for source in self.inputs:
            place = None
            if self._state is not None and isinstance(source, EventFile):
                place = self._state.place(source.path)
            rows = 0 if place is None else place["rows"]
            self.rows.begin(source.name, self.arrived, rows)
            with closing(_pieces(source, place)) as pieces:
                for piece in pieces:
                    check_spans(self.engine.stream, piece.batch.schema)
                    now = self._now(piece.batch.schema)
                    notices = self.engine.process(piece.batch, now=now)
                    rows += piece.batch.num_rows
                    self._note(source, piece, notices, rows, began)
                    yield source, piece, notices
                    if self._stop():
                        break
            self.tally.unreadable = sum(each.unreadable.count for each in self.inputs)
            if self._stop():
                self.interrupted = True
                return
        if self._state is not None:
            return
        notices = self.engine.flush()
        self.tally.count(notices)
        self.tally.seconds = self._clock() - began
        if self.inputs:
            yield self.inputs[-1], Piece(notices.slice(0, 0), self.inputs[-1].total or 0), notices

    def _now(self, schema: pa.Schema) -> date | None:
        """Return what the machine's clock says, as the times of the stream are; None for numbers.

        Times without a zone are taken as UTC.
        """
        stream = self.engine.stream
        at = -1 if stream.time is None else schema.get_field_index(stream.time)
        if stream.max_ahead is None or at < 0 or not pa.types.is_temporal(schema.field(at).type):
            return None
        now = datetime.now(UTC)
        kind = schema.field(at).type
        if pa.types.is_date(kind):
            return now.date()
        return now if kind.tz is not None else now.replace(tzinfo=None)

    def _note(
        self, source: Input, piece: Piece, notices: pa.Table, rows: int, began: float
    ) -> None:
        self.tally.events += piece.batch.num_rows
        self.arrived += piece.batch.num_rows
        self.tally.count(notices)
        self.tally.seconds = self._clock() - began
        self.place = f"{source.name}, behind {counted(rows, 'event')}"
        if source.total is not None:
            share = piece.done / max(source.total, 1)
            self.place += f" ({share:.1%} of {source.total:,} {source.unit})"

    def summary(self) -> dict[str, Any]:
        """Return what happened."""
        stats = self.engine.stats()
        tally = self.tally
        refused = Counter(stats["dead_letters_by_reason"]) - self._refused_before
        return {
            "stream": self.engine.stream.name,
            "position": self.engine.position,
            "events": tally.events,
            "partial": stats["partial"],
            "partial_by_column": stats["partial_by_column"],
            "notices": sum(tally.notices.values()),
            "notices_by_event": dict(sorted(tally.notices.items())),
            "refused": refused.total(),
            "refused_by_reason": dict(refused),
            "refused_examples": as_records(self.engine.refused_examples(), self.rows),
            "unreadable_lines": tally.unreadable,
            "held_back": stats["held"],
            "ahead": stats["ahead"],
            "ended": stats["ended"],
            "read_only": self.engine.read_only,
            "seconds": round(tally.seconds, 3),
            "interrupted": self.interrupted,
            "place": self.place,
        }

    def summary_lines(self) -> Iterator[str]:
        """Yield the summary as lines."""
        summary = self.summary()
        if self.interrupted:
            yield f"interrupted: {self.place}"
        by_event = ", ".join(f"{n:,} {event}" for event, n in summary["notices_by_event"].items())
        notices = counted(summary["notices"], "notice") + (f" ({by_event})" if by_event else "")
        speed = rate(summary["events"] / max(self.tally.seconds, 1e-9))
        yield (
            f"{counted(summary['events'], 'event')}, {notices} in {self.tally.seconds:.1f} s"
            f" ({speed})"
        )
        if summary["partial"]:
            yield partial_line(summary["partial"], summary["partial_by_column"])
        if summary["refused"]:
            yield f"{counted(summary['refused'], 'event')} refused:"
            yield from refusal_lines(summary["refused_by_reason"], summary["refused_examples"])
        for source in self.inputs:
            if source.unreadable.count:
                lines = counted(source.unreadable.count, "line")
                yield f"{source.name}: {lines} left out; the first is {source.unreadable.first}"
        if summary["held_back"]:
            kept = "in the state" if self._state is not None else "not evaluated"
            yield f"{counted(summary['held_back'], 'event')} held back by the grace, {kept}"
        if summary["ahead"]:
            yield f"{counted(summary['ahead'], 'event')} far ahead of all others, not evaluated"
        if summary["ended"]:
            yield _said_of_ended(summary["ended"], read_only=summary["read_only"])


def partial_line(events: int, by_column: Mapping[str, int]) -> str:
    """Return what to say of events that lack values."""
    columns = ", ".join(f"{name} {count:,}" for name, count in sorted(by_column.items()))
    return (
        f"{counted(events, 'event')} with unknown values ({columns}): not seen by queries that"
        " need them"
    )


def _said_of_ended(count: int, *, read_only: bool) -> str:
    """Return what to say of queries that ended by themselves."""
    ended = f"{counted(count, 'query', 'queries')} ended by firing once or by ttl"
    if read_only:
        return f"{ended}; the registry, which is only read, still has {_them(count)}"
    return (
        f"{ended}, and {'is' if count == 1 else 'are'} gone from the registry: run --read-only"
        f" leaves {_them(count)} there"
    )


def _them(count: int) -> str:
    return "it" if count == 1 else "them"
