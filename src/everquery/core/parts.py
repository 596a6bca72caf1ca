"""State in named parts, which both runtimes save and load in the same way.

A part has a name and a version. It gives its whole state, or what has changed since the last
commit, and loads both. A snapshot is all parts, whole; a journal has one part, whole now and then
and changes in between. Changes are loaded in the order in which they were saved, each after the
changes of the same commit of the parts before it. So a part may name queries by their rank among
those that are live, in order of registration, and keys by their number: after each commit, both
are the same wherever state was loaded from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from everquery.core.framing import Array, Content, DamagedError, NewerError, pack, unpack

_PARTS = "parts"


@dataclass
class Saved:
    """What a part gives, and loads.

    Attributes
    ----------
    values : dict
        Plain values that JSON can hold.
    arrays : dict of arrays
    strings : dict of byte strings
    whole : bool
        Whether this is all of the part's state, and not what has changed.
    outdated : int
        How much of what was saved before is of no use any more, as the part counts it.
    """

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    strings: dict[str, bytes] = field(default_factory=dict)
    whole: bool = True
    outdated: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """How much a journal of a part holds.

    Attributes
    ----------
    base_bytes : int
        Of the last whole state.
    entries, entry_bytes : int
        How many changes came after it, and their bytes.
    outdated : int
        The sum of `Saved.outdated` since then.
    """

    base_bytes: int
    entries: int
    entry_bytes: int
    outdated: int


class Part(ABC):
    """One part of a shard's state.

    Attributes
    ----------
    name : str
        Has no dot.
    version : int
        Of what is saved; larger when its meaning changes.
    """

    name: str
    version: ClassVar[int] = 1
    most_entries: ClassVar[int] = 64

    # Changes may be so much larger than the whole state: a worker that is up to date reads only the
    # last ones, but a new base is written by one worker and read by all others.
    most_growth: ClassVar[int] = 4
    least_bytes: ClassVar[int] = 1 << 20

    @abstractmethod
    def whole(self) -> Saved:
        """Return all state."""

    def changes(self) -> Saved | None:
        """Return what has changed since the last commit, or all if that is less; None if nothing.

        Whoever asks has called `mark_committed` before. What is returned counts as committed.
        """
        return self.whole()

    def mark_committed(self) -> None:  # noqa: B027 - most parts need not
        """Take what is there as committed, and note from now on what changes."""

    def leave_unnoted(self) -> None:  # noqa: B027 - few parts note more with every event
        """Note no changes: all state is asked for next, and then `mark_committed` is called."""

    @abstractmethod
    def load(self, saved: Saved) -> None:
        """Check and take over what was saved; the parts before this one are as they were then.

        Raises
        ------
        DamagedError, NewerError
            If it can't be; the shard is of no use any more.
        """

    def move_keys(self, saved: Saved, numbers: Array) -> None:  # noqa: B027 - most know no keys
        """Give keys other numbers, by their present ones, in what `whole` gave."""

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over what further queries knew in another shard, where they were alone.

        They are registered here already, as if they had just begun. Keys have the same numbers in
        both shards.

        Parameters
        ----------
        saved : Saved
            What `whole` of the other shard's part gave.
        queries : int32
            Their slots here, by the ranks that they have in `saved`.
        """
        raise NotImplementedError(f"part {self.name!r} takes nothing over")

    def may_be_missing(self) -> bool:
        """Tell whether a snapshot needs no such part, the parts before it being as they are."""
        return False

    def should_rebase(self, size: Size) -> bool:
        """Tell whether it is time to save all state again, and not only changes."""
        limit = max(self.most_growth * size.base_bytes, self.least_bytes)
        return size.entries >= self.most_entries or size.entry_bytes > limit


def pack_parts(header: Mapping[str, Any], parts: Iterable[tuple[Part, Saved]]) -> bytes:
    """Return what parts gave as one frame."""
    listed: dict[str, Any] = {}
    contents: dict[str, Content] = {}
    for part, saved in parts:
        listed[part.name] = {"version": part.version, "whole": saved.whole, "values": saved.values}
        given: dict[str, Content] = {**saved.arrays, **saved.strings}
        contents.update({f"{part.name}.{name}": content for name, content in given.items()})
    return pack({**header, _PARTS: listed}, contents)


def unpack_parts(
    frame: bytes | memoryview, known: Iterable[Part]
) -> tuple[dict[str, Any], dict[str, Saved]]:
    """Return the header of a frame, and what it has of each part.

    Raises
    ------
    DamagedError, NewerError
    """
    header, arrays, strings = unpack(frame)
    listed = header.pop(_PARTS, None)
    if not isinstance(listed, dict):
        raise DamagedError("it has no parts")
    by_name = {part.name: part for part in known}
    found = {name: _read_part(name, entry, by_name) for name, entry in listed.items()}
    for kind, contents in (("arrays", arrays), ("strings", strings)):
        for label, content in contents.items():
            name, _, rest = label.partition(".")
            if name not in found:
                raise DamagedError(f"array {label!r} belongs to no part")
            getattr(found[name], kind)[rest] = content
    return header, found


def _read_part(name: str, entry: object, known: Mapping[str, Part]) -> Saved:
    if name not in known:
        raise NewerError(f"has a part {name[:80]!r}, which this everquery does not know")
    if not isinstance(entry, dict) or not isinstance(entry.get("values"), dict):
        raise DamagedError(f"part {name!r} has no values")
    version, whole = entry.get("version"), entry.get("whole")
    if type(version) is not int or version < 1 or type(whole) is not bool:
        raise DamagedError(f"part {name!r} has version {str(version)[:80]!r}")
    if version > known[name].version:
        raise NewerError(
            f"has part {name!r} in version {version}, and this everquery reads up to"
            f" {known[name].version}"
        )
    return Saved(entry["values"], whole=whole)
