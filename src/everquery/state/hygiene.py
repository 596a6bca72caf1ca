"""The rules of a shard's queries, and what waits because of them: crossings and held notices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Bytes, Int32s
from everquery.index.flags import Flags
from everquery.state.pairs import CANCELLED, HELD_BACK, TOLD, USED, PairTable
from everquery.state.rule_walk import Diverted, Ranks, Spans, tidy
from everquery.state.rules import Rules
from everquery.state.timeline import Timeline


class Hygiene:
    """The rules of a shard's queries, and what waits because of them."""

    def __init__(self, attributes: int, figures: int) -> None:
        self.rules = Rules()
        self.pairs = PairTable(attributes, figures)
        self.steps_before = 0  # events of all steps

    @property
    def active(self) -> bool:
        """Whether any live query has rules at all."""
        return self.rules.users > 0

    @property
    def throttled(self) -> int:
        """How many notices were held back so far."""
        return int(self.pairs.counts[HELD_BACK])

    @property
    def undone(self) -> int:
        """How many crossings were undone before they counted, so far."""
        return int(self.pairs.counts[CANCELLED])

    def set_time_type(self, kind: pa.DataType, dtype: type[np.int64] | type[np.float64]) -> None:
        """Fix the type of times, with the first batch."""
        self.rules.set_time_type(kind, dtype)
        self.pairs.set_time_type(dtype)

    def reset_time(self, kind: pa.DataType, time: int | float) -> None:
        """Let nothing wait longer than its own span from a time that was set back."""
        self.rules.reset_time(kind, time)
        if len(self.pairs):
            self.pairs.reset_time(time, self.rules.dwell, self.rules.throttle)

    def drop(self, slots: Int32s) -> None:
        """Forget queries that end."""
        if self.rules.spanned:
            with_rules = slots[self.rules.drop(slots)]
            if len(self.pairs) and with_rules.size:
                self.pairs.forget(with_rules, windows=True)

    def pause(self, slots: Int32s) -> None:
        """Forget what waits of queries; windows stay open, so that none is told too early."""
        if len(self.pairs):
            self.pairs.forget(slots, windows=False)

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones."""
        self.rules.renumber(slots)
        if len(self.pairs):
            self.pairs.renumber(slots)

    def renumber_keys(self, keys: Int32s) -> None:
        """Give all keys other numbers, by their present ones."""
        home = self.rules.home
        self.rules.home = np.where(home >= 0, keys[home], home)
        if len(self.pairs):
            self.pairs.renumber_keys(keys)

    def run(
        self,
        line: Timeline,
        notices: Diverted,
        flags: Flags,
        outcomes: tuple[Bytes, Bytes, Flags],
        top: float,
    ) -> tuple[Diverted, Ranks]:
        """Take a step's notices through the rules; return what is told, in no order."""
        pairs, rules = self.pairs, self.rules
        pairs.make_room(notices.slot.size)
        dtype = line.time.dtype
        due = np.count_nonzero(pairs.entries.soonest[: pairs.counts[USED]] <= top)
        room = notices.slot.size + 2 * int(due) + 1
        out, told = _room_for(room, len(notices.values), len(notices.figures), dtype)
        if notices.slot.size or due:
            spans = Spans(flags, rules.dwell, rules.throttle, rules.end, *outcomes)
            highest = np.full(1, top, dtype)
            tidy(
                line, spans, notices, highest, pairs.entries, pairs.table, pairs.free,
                pairs.counts, out, told,
            )  # fmt: skip
        else:
            pairs.counts[TOLD] = 0
        n = int(pairs.counts[TOLD])
        self.steps_before += line.time.size
        return out.first(n), Ranks(*(column[:n] for column in told))

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return self.rules.nbytes() + self.pairs.nbytes()


def _room_for(n: int, attributes: int, figures: int, dtype: Any) -> tuple[Diverted, Ranks]:  # noqa: ANN401
    return (
        Diverted(
            np.empty(n, np.int64),
            np.empty(n, np.int32),
            np.empty(n, np.uint8),
            np.empty(n, dtype),
            np.empty(n, np.int64),
            np.empty((attributes, n)),
            np.empty(n, np.int64),
            np.empty(n, np.uint8),
            np.empty((figures, n), np.int64),
        ),
        Ranks(np.empty(n, np.int64), np.empty(n, dtype), np.empty(n, np.int64)),
    )
