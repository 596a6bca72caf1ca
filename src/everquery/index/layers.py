"""Log-structured query sets: an immutable main segment, small overlays, and merges.

New rows become a small segment of their own. Segments of one shape are merged by the rules of
`everquery.index.merge_rules`: to keep proportions, and in the end to one. Small merges are done at
once, large ones are handed out as a `Merge` that may run in another thread: it reads immutable
arrays only. Notices are ordered by the shard, so no answer depends on how rows are spread over
segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from everquery.core.arrays import Int32s
from everquery.index import merge_rules
from everquery.index.flags import Flags
from everquery.index.rows import Rows, Shape, joined


class Segment(Protocol):
    """What the layers need of an immutable set of rows."""

    def __len__(self) -> int: ...

    def all_rows(self) -> Rows:
        """Return the rows, for a merge."""

    def renumbered(self, slots: Int32s) -> Self:
        """Return the same with other slots, given by the present ones."""

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""


SegmentType = TypeVar("SegmentType", bound=Segment)


@dataclass(frozen=True, slots=True)
class Merge(Generic[SegmentType]):
    """A merge to be done off the hot path: `run` it anywhere, then hand the result to `install`."""

    shape: Shape
    parts: tuple[SegmentType, ...]
    flags: Flags
    build: Callable[[Rows], SegmentType]

    def run(self) -> SegmentType | None:
        """Return one segment with the rows of all parts that are not dropped; None if none is."""
        rows = joined([part.all_rows() for part in self.parts]).without_dropped(self.flags)
        return self.build(rows) if len(rows) else None


def _leave_alone(_segment: object) -> None:
    """Do nothing: segments of most kinds hold no state."""


class Layers(Generic[SegmentType]):
    """The segments of one kind of query, by shape, largest first.

    Parameters
    ----------
    build : function
        Returns a segment of rows; may be called in any thread.
    adopt, retire : functions, optional
        Called with a segment that is to be used from now on, or no more.

    Attributes
    ----------
    used : bool
        Whether rows were ever added.
    """

    def __init__(
        self,
        build: Callable[[Rows], SegmentType],
        *,
        adopt: Callable[[SegmentType], None] = _leave_alone,
        retire: Callable[[SegmentType], None] = _leave_alone,
    ) -> None:
        self._build = build
        self._adopt = adopt
        self._retire = retire
        self.used = False
        self._segments: dict[Shape, list[SegmentType]] = {}
        self._outstanding: Merge[SegmentType] | None = None
        self._paid: dict[Shape, float] = {}  # what events have paid for segments being apart

    def __len__(self) -> int:
        """Return how many segments there are."""
        return sum(map(len, self._segments.values()))

    def __iter__(self) -> Iterator[SegmentType]:
        for segments in self._segments.values():
            yield from segments

    def add(self, rows: Rows, flags: Flags) -> SegmentType:
        """Add rows as a segment of their own, merge small neighbours, and return the segment.

        It holds just the new rows, even if it has been merged since.
        """
        self.used = True
        fresh = self._build(rows)
        self._adopt(fresh)
        self._segments.setdefault(rows.shape, []).append(fresh)
        free = self._free(rows.shape)
        first = merge_rules.worth_at_once(_sizes(free))
        if first is not None:
            merge = Merge(rows.shape, tuple(free[first:]), flags, self._build)
            self._replace(merge, merge.run())
        return fresh

    def walked(self, events: int) -> None:
        """Note that so many events have looked at all segments since the last call."""
        for shape, segments in self._segments.items():
            if len(segments) > 1:
                paid = events * merge_rules.rent(_sizes(segments))
                self._paid[shape] = self._paid.get(shape, 0.0) + paid

    def due_merge(self, flags: Flags, *, loading: bool = False) -> Merge[SegmentType] | None:
        """Return a merge to be done off the hot path, or None; None while one is under way.

        Parameters
        ----------
        loading : bool
            Whether queries have come, and no events: then only many are merged at a time.
        """
        if self._outstanding is not None:
            return None
        for shape, segments in self._segments.items():
            if len(segments) < 2:
                continue
            sizes = _sizes(segments)
            if loading:
                first = merge_rules.doubling(sizes)
            else:
                first = merge_rules.out_of_proportion(sizes, smallest=merge_rules.MERGED_AT_ONCE)
                if first is None:
                    first = merge_rules.paid_for(sizes, self._paid.get(shape, 0.0))
            if first is not None:
                self._paid.pop(shape, None)
                self._outstanding = self._merge(shape, segments[first:], flags)
                return self._outstanding
        return None

    def due_sweep(self, flags: Flags) -> Merge[SegmentType] | None:
        """Return the rebuilding of a segment most of whose rows are dropped, or None."""
        if self._outstanding is None:
            for shape, segments in self._segments.items():
                for part in segments:
                    dropped = np.count_nonzero(flags[part.all_rows().slot] == 0)
                    if 2 * dropped > len(part):
                        self._outstanding = self._merge(shape, (part,), flags)
                        return self._outstanding
        return None

    def renumber(self, slots: Int32s) -> None:
        """Give all rows other slots; the result of a merge under way is not wanted any more."""
        self._outstanding = None
        for shape, segments in self._segments.items():
            self._segments[shape] = [part.renumbered(slots) for part in segments]

    def install(self, merge: Merge[SegmentType], merged: SegmentType | None) -> None:
        """Put the result of a merge that `due_merge` handed out in the place of its parts."""
        if merge is self._outstanding:  # not one from before slots changed
            self._outstanding = None
            self._replace(merge, merged)

    def abandon(self, merge: Merge[SegmentType]) -> None:
        """Give up a merge that `due_merge` handed out; it may come again."""
        if merge is self._outstanding:
            self._outstanding = None

    def rows(self, flags: Flags) -> Iterator[Rows]:
        """Yield the rows that are not dropped, shape by shape."""
        for segments in self._segments.values():
            if segments:
                rows = joined([part.all_rows() for part in segments]).without_dropped(flags)
                if len(rows):
                    yield rows

    def find(self, slots: Int32s) -> Iterator[Rows]:
        """Yield the rows with these slots, segment by segment."""
        if slots.size:
            for part in self:
                rows = part.all_rows()
                picked = np.flatnonzero(np.isin(rows.slot, slots))
                if picked.size:
                    yield rows.take(picked)

    def nbytes(self) -> int:
        """Return the bytes of all segments."""
        return sum(part.nbytes() for part in self)

    def _replace(self, merge: Merge[SegmentType], merged: SegmentType | None) -> None:
        segments = self._segments[merge.shape]
        kept = [part for part in segments if not _is_among(part, merge.parts)]
        for part in merge.parts:
            self._retire(part)
        if merged is not None:
            self._adopt(merged)
            kept.append(merged)
        self._segments[merge.shape] = sorted(kept, key=len, reverse=True)

    def _free(self, shape: Shape) -> list[SegmentType]:
        """Return the segments that no merge is under way for: it would bring their rows back."""
        segments = self._segments[shape]
        if self._outstanding is None:
            return segments
        return [part for part in segments if not _is_among(part, self._outstanding.parts)]

    def _merge(
        self, shape: Shape, parts: Sequence[SegmentType], flags: Flags
    ) -> Merge[SegmentType]:
        # A copy: the merge must not see flags change while it runs in another thread.
        return Merge(shape, tuple(parts), flags.copy(), self._build)


def _sizes(segments: Sequence[Segment]) -> list[int]:
    return [len(part) for part in segments]


def _is_among(part: SegmentType, parts: tuple[SegmentType, ...]) -> bool:
    return any(part is other for other in parts)
