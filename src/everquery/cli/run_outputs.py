"""Where ``run`` writes, and the state that says how much of it is written for good."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from everquery.cli.event_job import STDIN, EventJob, Input
from everquery.cli.run_state import RunState, StateFile, absolute, beginning, kept_length
from everquery.cli.this_process import Clock
from everquery.engine import Engine
from everquery.sinks import (
    BackgroundWriter,
    JsonLinesWriter,
    NoticeWriter,
    TextWriter,
    open_letters,
    open_writer,
)
from everquery.sources.files import EventFile, Piece

OUT, LETTERS = "--out", "--dead-letters"


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files of a run.

    Attributes
    ----------
    out : Path or None
        Of notices; ``-`` is JSON lines on standard output, None what `as_json` says.
    letters : Path or None
        Of dead letters.
    as_json : bool
    """

    out: Path | None
    letters: Path | None
    as_json: bool

    @property
    def to_stdout(self) -> bool:
        """Whether notices go to standard output."""
        return self.out in (None, Path(STDIN))

    def files(self) -> dict[str, Path]:
        """Return the files by the option that names them."""
        named = {OUT: None if self.to_stdout else self.out, LETTERS: self.letters}
        return {option: path for option, path in named.items() if path is not None}

    def open(self, state: RunState) -> dict[str, NoticeWriter]:
        """Return the writers, which go on where the state says."""
        files = self.files()
        keep = {option: kept_length(state, option, path) for option, path in files.items()}
        writers: dict[str, NoticeWriter] = {}
        if OUT in files:
            writers[OUT] = BackgroundWriter(open_writer(files[OUT], keep=keep[OUT]))
        elif self.out is None and not self.as_json:
            writers[OUT] = TextWriter(sys.stdout.buffer, colour=sys.stdout.isatty())
        else:
            writers[OUT] = JsonLinesWriter(sys.stdout.buffer)
        if LETTERS in files:
            writers[LETTERS] = open_letters(files[LETTERS], keep=keep[LETTERS])
        return writers


class Keeper:
    """Writes what a run tells, and saves its state now and then.

    Parameters
    ----------
    engine : Engine
    outputs : Outputs
    writers : dict from option to NoticeWriter
    state : RunState
    file : StateFile or None
        Where the state is saved.
    every : float
        Seconds between two saves.
    clock : function
        Returns seconds.
    """

    def __init__(
        self,
        engine: Engine,
        outputs: Outputs,
        writers: dict[str, NoticeWriter],
        *,
        state: RunState,
        file: StateFile | None,
        every: float,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._outputs = outputs
        self._writers = writers
        self._state = state
        self._file = file
        self._every = every
        self._clock = clock
        self._saved = clock()
        if LETTERS in writers:
            engine.drain_dead_letters()  # those of earlier runs
        if file is not None:
            engine.hold_ends()

    def take(self, job: EventJob, source: Input, piece: Piece, notices: pa.Table) -> None:
        """Write what a batch told; save the state if it is time."""
        self._writers[OUT].write(notices)
        self._write_letters(job)
        if self._file is None:
            return
        self._note(job, source, piece)
        if self._clock() - self._saved >= self._every:
            self.save(job, ended=False)

    def _write_letters(self, job: EventJob) -> None:
        if LETTERS in self._writers:
            letters = self._engine.drain_dead_letters()
            if letters.num_rows:
                self._writers[LETTERS].write(job.rows.letters(letters))

    def _note(self, job: EventJob, source: Input, piece: Piece) -> None:
        assert isinstance(source, EventFile)
        known: Mapping[str, Any] = self._state.place(source.path) or {"rows": 0}
        self._state.places[absolute(source.path)] = {
            **piece.place,
            "rows": known["rows"] + piece.batch.num_rows,
            "size": source.size,
            "beginning": known.get("beginning") or beginning(source.path),
        }

    def save(self, job: EventJob, *, ended: bool) -> None:
        """Save the state; then the registry may hear which queries have ended."""
        if self._file is None:
            return
        lengths = {option: writer.sync() for option, writer in self._writers.items()}
        files = self._outputs.files().items()
        self._state.outputs = {
            option: {"file": absolute(path), "bytes": lengths[option]} for option, path in files
        }
        self._state.snapshot = self._engine.snapshot()
        self._state.rows = job.rows.as_list()
        self._state.arrived = job.arrived
        self._state.ended = ended
        self._file.save(self._state)
        self._engine.report_ends()
        self._saved = self._clock()


@contextmanager
def all_closed(writers: dict[str, NoticeWriter]) -> Iterator[None]:
    """Finish all files at the end."""
    with writers[OUT]:
        if LETTERS not in writers:
            yield
            return
        with writers[LETTERS]:
            yield
