"""State as a base and later changes, in a store of bytes that a runtime keeps.

A runtime's state store takes small values fast and large ones slowly, so values are cut into
pieces, and a batch writes only what it changed. Everything here is in the runtime's own store, so
it is as exact after a crash as the runtime makes its store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from everquery.core.framing import DamagedError
from everquery.core.invariants import check_count, of_type, refuse, short
from everquery.core.parts import Size

PIECE = 1 << 20  # bytes; a state store takes ten times as long for eight times as much
LARGE = 1 << 16


class Store(Protocol):
    """Named values that last: what the state store of a runtime is to a shard."""

    def get(self, name: str) -> bytes | None:
        """Return a value, or None."""

    def put(self, name: str, value: bytes) -> None:
        """Set a value."""

    def remove(self, name: str) -> None:
        """Remove a value that is there."""


class MemoryStore(dict[str, bytes]):
    """Store in this process's memory."""

    def put(self, name: str, value: bytes) -> None:
        """Set a value."""
        self[name] = value

    def remove(self, name: str) -> None:
        """Remove a value that is there."""
        del self[name]


@dataclass
class Contents:
    """What a journal holds.

    Attributes
    ----------
    base : int
        The version that the base leads to; -1 if there is none.
    base_bytes : int
    entries : list of (version, place, bytes), oldest first
    outdated : int
        How much of it is of no use any more, as its part counts it.
    """

    base: int = -1
    base_bytes: int = 0
    entries: list[tuple[int, int, int]] = field(default_factory=list)
    outdated: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dict(vars(self))

    @classmethod
    def of_json(cls, values: object) -> Contents:
        """Return what `as_json` gave; raise if it can't be."""
        names = {"base", "base_bytes", "entries", "outdated"}
        if not isinstance(values, dict) or values.keys() != names:
            refuse(f"{short(values)} is no journal")
        entries = of_type(values, "entries", list)
        numbers = [values["base_bytes"], values["outdated"]]
        for entry in entries:
            if not isinstance(entry, list) or len(entry) != 3:
                refuse(f"{short(entry)} is no entry of a journal")
            numbers += entry
        if values["base"] != -1:
            numbers.append(values["base"])
        for number in numbers:
            check_count("a number of a journal", number)
        return cls(**{**values, "entries": [tuple(entry) for entry in entries]})

    def size(self) -> Size:
        """Return how much there is."""
        taken = sum(size for _, _, size in self.entries)
        return Size(self.base_bytes, len(self.entries), taken, self.outdated)


class Journal:
    """One part of a shard's state: a base, and an entry for each version that changed it.

    Values of the store that are not needed any more are overwritten later, not removed: removing
    takes longer than writing. Only large ones are removed at once.
    """

    def __init__(self, name: str, store: Store, contents: Contents) -> None:
        self._name = name
        self.store = store
        self.contents = contents

    def append(self, version: int, entry: bytes) -> None:
        """Add what a version changed."""
        place = len(self.contents.entries)
        self._write(f"{self._name}.{place}", entry, 0)
        self.contents.entries.append((version, place, len(entry)))

    def rebase(self, version: int, base: bytes) -> None:
        """Replace base and entries by a new base, which leads to `version`."""
        before = self.contents.base_bytes
        self.clear()
        self._write(f"{self._name}.base", base, before)
        self.contents = Contents(version, len(base))

    def clear(self) -> None:
        """Let there be no entries."""
        for _, place, size in self.contents.entries:
            if size > LARGE:
                self._remove(f"{self._name}.{place}", 0, size)
        self.contents = Contents()

    def base(self) -> bytes:
        """Return the base."""
        return self._read(f"{self._name}.base", self.contents.base_bytes)

    def after(self, version: int) -> Iterator[tuple[int, bytes]]:
        """Yield what leads on from a version: versions, and the base or an entry of each."""
        contents = self.contents
        if version < contents.base:
            yield contents.base, self.base()
        for each, place, size in contents.entries:
            if each > max(version, contents.base):
                yield each, self._read(f"{self._name}.{place}", size)

    def of_version(self, version: int) -> bytes | None:
        """Return the entry of a version; None if it has none."""
        for each, place, size in reversed(self.contents.entries):
            if each == version:
                return self._read(f"{self._name}.{place}", size)
        return None

    def _write(self, name: str, value: bytes, before: int) -> None:
        """Write a value over one that took `before` bytes."""
        for piece in range(_pieces(len(value))):
            self.store.put(f"{name}.{piece}", value[piece * PIECE : (piece + 1) * PIECE])
        self._remove(name, max(1, len(value)), before)  # an empty value has a piece too

    def _read(self, name: str, size: int) -> bytes:
        pieces = []
        for piece in range(_pieces(size)):
            value = self.store.get(f"{name}.{piece}")
            if value is None:
                raise DamagedError(f"it lacks {name}.{piece}")
            pieces.append(value)
        return b"".join(pieces)

    def _remove(self, name: str, kept: int, size: int) -> None:
        """Remove the pieces of a value of `size` bytes beyond those of one of `kept`."""
        for piece in range(_pieces(kept) if kept else 0, _pieces(size)):
            self.store.remove(f"{name}.{piece}")


def _pieces(size: int) -> int:
    return max(1, -(-size // PIECE))
