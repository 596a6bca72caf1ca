"""The rows of a stream, and which live queries each satisfies."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Bools, Int32s, Int64s, resized
from everquery.errors import RowsGoneError
from everquery.index.flags import LIVE, LIVE_MASK, PAUSED, Flags, option_flags
from everquery.index.rows import Findings, Matches, Rows, Said, Step
from everquery.index.sort_keys import pack_findings
from everquery.kinds.range.index import RangeIndex
from everquery.kinds.select.factors import FactorTable
from everquery.kinds.select.joins import Pairs, ToldPairs
from everquery.kinds.select.plan import Plan
from everquery.kinds.select.reader import plan_of
from everquery.kinds.select.results import Results
from everquery.kinds.select.spec import Select
from everquery.kinds.select.store import RowStore
from everquery.kinds.select.windows import Moment, misfit_of_times, rows_needed, window_of
from everquery.stream import Stream

log = logging.getLogger("everquery.select")

OPTIONS = option_flags(Select.options)
TELLS_MATCHES, TELLS_CHANGES = OPTIONS["tell_matches"], OPTIONS["tell_changes"]
EAGER, LAZY = OPTIONS["upkeep_eager"], OPTIONS["upkeep_lazy"]

UNREAD = -1  # the plan of a query that has not been read yet
SLACK = 1 << 14  # rows that may be kept beyond what windows need


class MatchedRows(RangeIndex):
    """Boxes in layers, the rows that came, and the matches of both.

    Attributes
    ----------
    answering : bool
        Whether queries are read here, so that rows are kept.
    store : RowStore or None
        None before the first row is to be kept.
    results : Results
    pairs : dict from slot to Pairs
        Of joins that were read.
    plans : list of Plan
        Each that some query has or had; queries have its place.
    others_need : list of Plan
        Joins of other streams that need rows of this one.
    told : dict from slot to Moment
        As of when answers were last told, of queries that tell how they change.
    told_joins : dict from slot to ToldPairs
        The same of joins.
    fresh : int
        How many rows came since the present call on the stream began.
    tells_joins : bool
        Whether joins are told here: there is another stream beside this one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answering = False
        self.store: RowStore | None = None
        self.results = Results()
        self.pairs: dict[int, Pairs] = {}
        self.plans: list[Plan] = []
        self.others_need: list[Plan] = []
        self.told: dict[int, Moment] = {}
        self.told_joins: dict[int, ToldPairs] = {}
        self.fresh = 0
        self.tells_joins = False
        self.plan: Int32s = np.full(16, UNREAD, np.int32)
        self.since: Int64s = np.zeros(16, np.int64)
        self._codes: dict[str, int] = {}
        self._fitting = 0  # of how many plans it is known whether they fit the times
        self._looked = 0  # and of how many, whether they are told here
        self._unfit: dict[int, str] = {}  # why plans do not, by place
        self._joins: Bools = np.zeros(0, np.bool_)  # which plans are over two streams
        self._mute: set[int] = set()  # queries of which it was said why they tell nothing
        self._factors: FactorTable | None = None
        self._stream: Stream | None = None
        self._new: list[Int32s] = []  # queries whose plans have not been read
        self._marks: dict[int, int] = {}  # prints of queries that were read
        self._unmet: list[Int32s] = []  # queries that no step has met
        self._trim_at = SLACK
        self._trimmed = False  # whether rows are not here that the stream may keep
        self._pausing = False  # whether some query may be paused, and is not matched with rows
        self._changing = False  # whether some query may tell how its answer changes

    # -- queries ------------------------------------------------------------------------------

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries; rows are matched with them from now on, older ones when they are read."""
        super().add(rows, flags, announce=announce)
        most = int(rows.slot.max()) + 1
        if most > self.plan.size:
            self.plan = resized(self.plan, 2 * most, UNREAD)
            self.since = resized(self.since, 2 * most)
        self.plan[rows.slot] = UNREAD
        self.since[rows.slot] = self.end
        self.results.forget(rows.slot)
        self._marks.clear()
        self._new.append(rows.slot)
        self._unmet.append(rows.slot)
        here = flags[rows.slot]
        self._changing |= bool((here & TELLS_CHANGES).any())
        self._pausing |= bool((here & PAUSED).any())

    def pause(self, slots: Int32s) -> None:
        """Match rows with these queries only when they are read, until they go on."""
        self._pausing = True

    def drop(self, slots: Int32s) -> None:
        """Forget the answers of queries that have ended."""
        self.results.forget(slots)
        if self.pairs or self.told or self.told_joins or self._mute:
            for slot in slots.tolist():
                self.pairs.pop(slot, None)
                self.told.pop(slot, None)
                self.told_joins.pop(slot, None)
                self._mute.discard(slot)

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots; their matches are found anew when they are read."""
        super().renumber(slots)
        self.results.clear()
        self.pairs.clear()
        self.told = {int(slots[slot]): moment for slot, moment in self.told.items()}
        self.told_joins = {int(slots[slot]): told for slot, told in self.told_joins.items()}
        self._mute = {int(slots[slot]) for slot in self._mute}
        self.plan[:] = UNREAD
        self._marks.clear()
        self.since[:] = self.end
        self._new = [part.all_rows().slot for part in self.layers]
        self._unmet = [slots[each] for each in self._unmet]

    @property
    def end(self) -> int:
        """The number of the next row."""
        return 0 if self.store is None else self.store.end

    def read_plans(self, said: Said) -> None:
        """Take note of what new queries ask for; each distinct text is read once."""
        new, self._new = self._new, []
        if self._factors is None:
            self._factors = FactorTable(said.stream)
            self._stream = said.stream
        for slots in new:
            texts = said.text("plan", slots)
            if texts is None:
                continue
            distinct = texts.dictionary_encode()
            numbers = [UNREAD if text is None else self._number(text)
                       for text in distinct.dictionary.to_pylist()]  # fmt: skip
            which = np.asarray(distinct.indices.fill_null(len(numbers)))
            self.plan[slots] = np.array([*numbers, UNREAD], np.int32)[which]

    def _number(self, text: str) -> int:
        if text not in self._codes:
            plan = plan_of(text)[0]
            self._codes[text] = len(self.plans)
            self.plans.append(plan)
            assert self._factors is not None
            self._factors.add(plan)
            self._joins = np.append(self._joins, plan.joins)
        return self._codes[text]

    def live_plans(self, flags: Flags) -> list[Plan]:
        """Return what live queries ask for whose windows fit the times, each plan once."""
        n = min(self.plan.size, flags.size)
        live = self.plan[:n][flags[:n] != 0]
        codes = np.unique(live[live >= 0]).tolist()
        return [self.plans[code] for code in codes if code not in self._unfit]

    def is_fit(self, slot: int) -> bool:
        """Tell whether a query's window is one of the stream's times, as far as that is known."""
        return int(self.plan[slot]) not in self._unfit

    def joins_among(self, slots: Int32s | Int64s) -> Bools:
        """Tell which queries, whose plans have been read, are over two streams."""
        if not self._joins.any():
            return np.zeros(slots.size, np.bool_)
        found: Bools = self._joins[self.plan[slots]] & (self.plan[slots] != UNREAD)
        return found

    def report(self, slot: int, name: str, reason: str) -> None:
        """Say why a query tells nothing, once."""
        if slot not in self._mute:
            self._mute.add(slot)
            log.warning("query %r tells nothing: %s", name, reason)

    def _check_times(self, step: Step) -> None:
        """Say which queries have windows that are none of the stream's times, once each.

        They came before the first event did, or from a registry.
        """
        column = None if self._stream is None else self._stream.time
        if column is None or step.time_type is None or self._fitting == len(self.plans):
            return
        for code in range(self._fitting, len(self.plans)):
            reason = misfit_of_times(self.plans[code], step.time_type, column)
            if reason is not None:
                self._unfit[code] = reason
                for name in self._live_ids(step, code):
                    log.warning("query %r has no answer and tells nothing: %s", name, reason)
        self._fitting = len(self.plans)

    def _check_joins(self, step: Step) -> None:
        """Say which queries would tell of a stream that is not here, once each."""
        for code in range(self._looked, len(self.plans)):
            if self._joins[code] and not self.tells_joins:
                for name in self._live_ids(step, code, TELLS_MATCHES | TELLS_CHANGES):
                    both = " and ".join(repr(each.stream) for each in self.plans[code].sources)
                    log.warning("query %r tells nothing here: it joins %s; open an Engine of both"
                                " streams", name, both)  # fmt: skip
        self._looked = len(self.plans)

    def _live_ids(self, step: Step, code: int, wanted: int | None = None) -> list[str]:
        """Return the ids of live queries with a plan, perhaps only those with some of the flags."""
        flags = step.flags[: self.plan.size]
        here = (self.plan[: flags.size] == code) & (flags != 0)
        if wanted is not None:
            here &= flags & wanted != 0
        assert step.said is not None
        return step.said.ids(np.flatnonzero(here).astype(np.int32))

    # -- rows ---------------------------------------------------------------------------------

    def is_at_work(self) -> bool:
        """Tell whether it has had a query, or another stream's queries need rows of this one."""
        return self.layers.used or bool(self.others_need) or self.store is not None

    def keeps_rows(self, step: Step) -> bool:
        """Tell whether the rows of a step are to be kept."""
        if self.answering:
            return bool(len(self.layers) or self.others_need or self.store is not None)
        return bool((step.flags[: self.plan.size] & TELLS_CHANGES).any() and len(self.layers))

    def process(self, step: Step) -> list[Matches | Findings]:
        """Keep the rows, note which queries they satisfy, and return what is told of them."""
        if not step.grouped.position.size:
            return []
        if not len(self.layers) and not self.others_need and self.store is None:
            return []
        assert step.said is not None
        if self._new:
            self.read_plans(step.said)
        self._check_times(step)
        self._check_joins(step)
        number = None
        if self.keeps_rows(step):
            if self.store is None:
                self.store = RowStore(len(step.grouped.values) - 1)
                self.read_past()
            self._meet(step.flags, self.store.reach, step.time_type)
            self._trim(step)
            number = self.store.append(step)
            self.fresh += number.size
        found: list[Matches | Findings] = []
        told: list[Int64s] = []
        for part in super().process(step):
            assert isinstance(part, Matches)
            self._note(step, part, number, told)
        if self._pausing and self.store is not None:
            flags = step.flags[: self.plan.size]
            paused = np.flatnonzero(flags & PAUSED)
            self.since[paused] = self.store.end
            self._pausing = bool(paused.size)
        if told:
            packed = np.concatenate(told)
            found.append(Findings(packed))
        return found

    def _meet(self, flags: Flags, now: Any, time_type: pa.DataType | None) -> None:  # noqa: ANN401 - a number
        """Have the rows for what new queries will tell, before a step brings others."""
        unmet, self._unmet = self._unmet, []
        if not self._trimmed or not unmet or self._stream is None:
            return
        slots = np.concatenate(unmet)
        column = self._stream.time
        kind = None if column is None else time_type
        for slot in slots[flags[slots] & TELLS_CHANGES != 0].tolist():
            if self.is_fit(slot):
                self.have_window(self.plans[self.plan[slot]], Moment(self.end, now), kind, column)

    def _note(self, step: Step, part: Matches, number: Int64s | None, told: list[Int64s]) -> None:
        """Note the matches of a step, and which of them are told."""
        slot = part.slots[part.begin : part.ends[-1]].copy()
        count = np.diff(part.ends, prepend=part.begin)
        event = np.repeat(np.arange(count.size), count)
        assert self._factors is not None
        if self._factors.some:
            kept = self._factors.satisfied(self.plan[slot], event, step.grouped.values)
            slot, event = slot[kept], event[kept]
        flags = step.flags[slot]
        if (flags & TELLS_MATCHES).any():
            picked = (flags & LIVE_MASK == LIVE) & (flags & TELLS_MATCHES != 0)
            picked &= ~self.joins_among(slot)  # their notices are about pairs
            told.append(pack_findings(step.grouped.position[event[picked]], slot[picked]))
        if number is None:
            return
        wanted = (flags != 0) & (flags & LAZY == 0)
        if not wanted.all():
            slot, event = slot[wanted], event[wanted]
        self.results.add(slot, number[event])

    def _trim(self, step: Step) -> None:
        """Forget rows that no window needs, now and then."""
        store = self.store
        assert store is not None
        if len(store) < self._trim_at:
            return
        kinds = step.time_type
        plans = [*self.live_plans(step.flags), *self._fitting_needs(kinds)]
        first = min((rows_needed(plan, store, kinds) for plan in plans), default=store.end)
        self._trimmed |= first > store.first
        store.forget(first)
        self.results.forget_rows(store.first)
        self._trim_at = 2 * len(store) + SLACK

    def _fitting_needs(self, kind: pa.DataType | None) -> list[Plan]:
        """Return the joins of other streams whose windows are ones of this stream's times."""
        column = None if self._stream is None else self._stream.time
        if kind is None or column is None:
            return self.others_need
        return [plan for plan in self.others_need if misfit_of_times(plan, kind, column) is None]

    def read_past(self) -> bool:
        """Have all rows that the stream keeps; tell whether there are older ones than before."""
        old = self.store
        if self.past is None or old is None:
            return False
        self._trimmed = False
        pieces = list(self.past.pieces())
        rows = sum(piece["key"].size for piece, _ in pieces)
        if rows <= len(old) and old.end:
            return False
        store = RowStore(old.attributes)
        store.begin_at(max(0, old.end - rows))
        for piece, set_back in pieces:
            store.extend(piece)
            if set_back is not None:
                store.set_back(set_back)
        if old.reach is not None and old.reach < store.reach:
            store.set_back(old.reach)
        store.lost = self.past.lost()
        whole = self.past.whole_rows()
        if whole is not None:
            store.whole = store.end - whole
        self.since = np.maximum(self.since, old.first) if old.end else self.since + store.end
        self.store = store
        self.results.forget_held()
        self.pairs.clear()
        return True

    def have_rows(self) -> None:
        """Have the rows that the stream keeps, where no event came since a query did."""
        if self.store is None and self.past is not None:
            self.store = RowStore(len(self.past.stream.attributes))
            self.read_past()

    def have_window(
        self, plan: Plan, moment: Moment, kind: pa.DataType | None, column: str | None
    ) -> None:
        """Have the rows of a window that the stream keeps, and that no query needed so far."""
        if not self._trimmed or self.store is None:
            return
        try:
            window_of(plan, self.store, moment, kind, column)
        except RowsGoneError:
            self.read_past()
        else:
            if plan.begin.kind == "oldest":
                self.read_past()

    def take_over(self, store: RowStore) -> None:
        """Have the rows that were kept; matches are found anew."""
        self.store = store
        self._trimmed = True
        self.since[:] = store.end
        self.results.clear()
        self.pairs.clear()

    def set_back(self, time: int | float, time_type: pa.DataType, said: Said) -> None:
        """Forget that time has come further than this."""
        if self.store is not None:
            self.store.set_back(time)
