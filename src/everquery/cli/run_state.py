"""``run --state FILE``: an engine, how far its inputs are read, and how long its outputs are.

All three are in one file, which is replaced as a whole. A run that goes on from it reads its inputs
behind the last event that the engine has seen, and cuts off what an output got after that: so no
notice in a file is lost or there twice, wherever the run before it was killed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from everquery.core.framing import pack, unpack
from everquery.errors import SnapshotError, UnreadableFileError, UnwritableFileError

HOLDS = "run"
LOOKED_AT = 4_096  # bytes at the beginning of an input, by which it is known again


@dataclass
class RunState:
    """What a run goes on from.

    Attributes
    ----------
    snapshot : bytes or None
        The engine; None before the first save.
    places : dict from input to place
        Where each input goes on: what `everquery.sources.files.Piece` has, with the number of its
        rows, and how the input begins.
    rows : list
        Which rows came from which input; see `everquery.cli.refusals.InputRows`.
    outputs : dict from option to file and length
    arrived : int
        How many events have been read in all runs.
    ended : bool
        Whether the run has come to its end, and was not killed.
    """

    snapshot: bytes | None = None
    places: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: list[list[Any]] = field(default_factory=list)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    arrived: int = 0
    ended: bool = True

    def place(self, path: Path) -> dict[str, Any] | None:
        """Return where an input goes on; None for one that has not been read yet."""
        return self.places.get(absolute(path))

    def as_bytes(self) -> bytes:
        """Return it as one frame."""
        assert self.snapshot is not None
        header = {
            "holds": HOLDS,
            "places": self.places,
            "rows": self.rows,
            "outputs": self.outputs,
            "arrived": self.arrived,
            "ended": self.ended,
        }
        return pack(header, {"snapshot": self.snapshot})

    @classmethod
    def from_bytes(cls, frame: bytes) -> RunState:
        """Return what `as_bytes` returned.

        Raises
        ------
        SnapshotError
            If the bytes are something else, or damaged.
        """
        header, _, strings = unpack(frame)
        if header.get("holds") != HOLDS or "snapshot" not in strings:
            raise SnapshotError("it holds something else")
        fields = ("places", "rows", "outputs", "arrived", "ended")
        return cls(strings["snapshot"], **{name: header[name] for name in fields})


class StateFile:
    """The file of a run's state; one run at a time has it.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(f"{path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UnwritableFileError(
                f"another run has the state {path}; wait for its end, or give this one a --state of"
                " its own"
            ) from None
        except OSError as error:
            raise UnwritableFileError(f"{path} can't be written: {error.strerror}") from error

    def close(self) -> None:
        """Let another run have it."""
        self._lock.release()

    def load(self) -> RunState:
        """Return the state; an empty one if there is no file yet."""
        try:
            return RunState.from_bytes(self._path.read_bytes())
        except FileNotFoundError:
            return RunState()
        except OSError as error:
            raise UnreadableFileError(f"{self._path} can't be read: {error.strerror}") from error
        except SnapshotError as error:
            raise UnreadableFileError(
                f"{self._path} is no state of a run, or a damaged one: {error}. Without it, a run"
                " begins anew"
            ) from None

    def save(self, state: RunState) -> None:
        """Replace the file: whatever happens, the old or the new state is there whole."""
        fresh = self._path.with_name(f"{self._path.name}.tmp")
        try:
            with fresh.open("wb") as file:
                file.write(state.as_bytes())
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
            folder = os.open(self._path.absolute().parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise UnwritableFileError(
                f"{self._path} can't be written: {error.strerror}. A new run goes on from the state"
                " before"
            ) from error


def absolute(path: Path) -> str:
    """Return by which name a state knows a file."""
    return str(path.absolute())


def beginning(path: Path, size: int = LOOKED_AT) -> dict[str, Any]:
    """Return how a file begins, by which it is known again, though it may have grown."""
    with path.open("rb") as file:
        head = file.read(size)
    return {"size": len(head), "digest": blake2b(head, digest_size=16).hexdigest()}


def check_input(path: Path, place: Mapping[str, Any]) -> None:
    """Raise if a file is not the one that a state has read."""
    if path.stat().st_size < place["size"]:
        raise UnreadableFileError(
            f"{path} is shorter than when the state read it; put it back as it was, or begin anew"
            " without the state"
        )
    known = place["beginning"]
    if beginning(path, known["size"]) != known:
        raise UnreadableFileError(
            f"{path} is not the file that the state has read: it begins otherwise. Give it another"
            " name, or begin anew without the state"
        )


def kept_length(state: RunState, option: str, path: Path) -> int:
    """Return how much of an output is to stay: what the state knows of.

    Raises
    ------
    UnwritableFileError
        If the output is another than before, and the run before was killed: what it wrote last
        would be there twice.
    """
    known = state.outputs.get(option)
    if known is None:
        return 0
    same = known["file"] == absolute(path)
    length = path.stat().st_size if path.exists() else 0
    if same and length >= known["bytes"]:
        return int(known["bytes"])
    if state.ended and (not same or not length):
        return 0
    raise UnwritableFileError(
        f"the state goes with {option} {known['file']}, of which it knows {known['bytes']:,} bytes,"
        f" and {path} has {length:,}; put the file back, or begin anew without the state"
    )
