"""The past of an engine's stream: what is kept of it, and where."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from everquery.core.times import as_time
from everquery.engine.questions import Questions
from everquery.history import History, Place
from everquery.shard import Shard

COMPACT = 64  # small files that are joined


class Remembering(Questions):
    """An engine's methods that tell of the kept past."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard)
        self._history: History | None = None

    def _keep_history(self, folder: str | os.PathLike[str] | None) -> None:
        """Keep the past from now on, as the stream says, and what a folder has of it."""
        if self.stream.keep is not None:
            self._history = History(self._shard, None if folder is None else Path(folder))
            self._history.open()
            self._remember(self._shard)

    def _remember(self, shard: Shard) -> None:
        """Let the kinds of a shard read what is kept of the past."""
        if self._history is not None:
            for index in shard.contents.indexes.values():
                index.past = self._history

    def _upkeep(self) -> None:
        """Forget dropped queries for good where they are many; keys may get other numbers."""
        numbers = self._shard.upkeep.compact(keys=True)
        if numbers is not None and self._history is not None:
            self._history.renumber(numbers)

    @property
    def place(self) -> Place:
        """Where the next event will stand: its batch, and its position there.

        Every call of `process`, `push`, `advance`, `flush`, `expire` and `reset_time` is a batch.
        """
        with self._lock:
            return Place(self._shard.passage.steps, 0)

    def history(self, *, check: bool = False) -> dict[str, Any]:
        """Return what is kept of the past: events, from where to where, bytes, and what is lost.

        ``oldest`` and ``newest`` are places, ``since`` and ``until`` the least and the largest
        time; ``lost`` has the spans that files do not have any more, as texts. Empty where the
        stream keeps nothing.

        Parameters
        ----------
        check : bool
            Read all files, so that `lost` has those that are damaged and were not read yet.
        """
        with self._lock:
            if self._history is None:
                return {}
            if check:
                self._history.check()
            held, kind = self._history.held(), self._shard.time_type
            found = held._asdict() | {"lost": [str(gap) for gap in held.lost]}
            for name in ("since", "until"):
                if found[name] is not None and kind is not None:
                    found[name] = as_time(np.array([found[name]]), kind)[0].as_py()
            return {"keep": self.stream.keep, **found}

    def compact_history(self) -> None:
        """Join small files of the past into larger ones."""
        with self._lock:
            if self._history is not None:
                self._history.compact()
