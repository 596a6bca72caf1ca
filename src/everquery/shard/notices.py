"""From what the indexes found to notices in Arrow: one order, one id each, no strings copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s, Uint64s
from everquery.core.jit import kernel
from everquery.core.names import scramble
from everquery.index.rows import (
    ANSWER,
    CODE_MASK,
    PLACE_SHIFT,
    SLOT_MASK,
    SLOT_SHIFT,
    Crossings,
    Matches,
    Outcome,
)
from everquery.kinds import KINDS
from everquery.state.accepted import Events, join_events
from everquery.state.hygiene import ENTERS, LEAVES, OTHER
from everquery.stream import OWNER_COLUMNS, Stream

_SALT = np.uint64(0xD6E8FEB86659FD93)
ANSWER_TYPES = (pa.float64(), pa.int64(), pa.int64(), pa.int64(), pa.float64())
FIRST_ATTRIBUTE = 7  # columns of a notice stand before them


@kernel
def count_matches(position: Int64s, begin: int, ends: Int64s, counts: Int64s) -> None:
    """Add each grouped event's matches to the count of its event."""
    for i in range(ends.size):
        counts[(position[i] >> 1) + 1] += ends[i] - begin
        begin = ends[i]


@kernel
def count_crossings(keys: Int64s, counts: Int64s) -> None:
    """Add each crossing to the count of its event."""
    for i in range(keys.size):
        counts[(keys[i] >> PLACE_SHIFT + 1) + 1] += 1


@kernel
def place_matches(
    position: Int64s,
    slots: Array,
    begin: int,
    ends: Int64s,
    code: int,
    at: Int64s,
    keys: Int64s,
    codes: Bytes,
) -> None:
    """Write ``position << 32 | slot`` of each match to the next place of its event."""
    for i in range(ends.size):
        event = position[i] >> 1
        place = at[event]
        for match in range(begin, ends[i]):
            keys[place] = position[i] << 32 | slots[match]
            codes[place] = code
            place += 1
        at[event] = place
        begin = ends[i]


@kernel
def place_crossings(found: Int64s, first_code: int, at: Int64s, keys: Int64s, codes: Bytes) -> None:
    """Write each crossing to the next place of its event."""
    for i in range(found.size):
        position = found[i] >> PLACE_SHIFT
        event = position >> 1
        keys[at[event]] = position << 32 | (found[i] >> SLOT_SHIFT & SLOT_MASK)
        codes[at[event]] = first_code + (found[i] & CODE_MASK)
        at[event] += 1


@kernel
def sort_events(ends: Int64s, keys: Int64s, codes: Bytes) -> None:
    """Sort each event's notices by position and slot.

    By insertion, because most events have few; with wide gaps first (Shell) where there are many.
    """
    begin = 0
    for event in range(ends.size):
        gap = 1
        while 9 * gap < ends[event] - begin:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(begin + gap, ends[event]):
                key = keys[i]
                code = codes[i]
                j = i
                while j >= begin + gap and keys[j - gap] > key:
                    keys[j] = keys[j - gap]
                    codes[j] = codes[j - gap]
                    j -= gap
                keys[j] = key
                codes[j] = code
            gap //= 3
        begin = ends[event]


@kernel
def write_ids(
    slot: Int64s,
    row: Int64s,
    outcome: Uint64s,
    query: Uint64s,
    keys: Uint64s,
    key: Array,
    seq: Int64s,
    out: Uint64s,
) -> None:
    """Write each notice's 128-bit id: a pure function of query, key, event and what happened.

    For one query and event, an id is the key digest in other words, so that different digests
    never give one id: who looks for a key that has another key.s ids
    must find one that has its digest.
    """
    for i in range(slot.size):
        number = key[row[i]]
        event = scramble(np.uint64(seq[row[i]]) ^ _SALT) ^ outcome[i]
        low, high = event, scramble(event ^ _SALT)
        if number >= 0:
            low, high = scramble(low ^ keys[number, 0]), scramble(high ^ keys[number, 1])
        out[2 * i] = scramble(low ^ query[slot[i], 0])
        out[2 * i + 1] = scramble(high ^ query[slot[i], 1])


@dataclass(frozen=True, slots=True)
class Ordered:
    """Notices in their final order.

    Attributes
    ----------
    keys : int64
        ``position << 32 | slot``
    codes : uint8
        Places in the list of outcomes of all kinds.
    """

    keys: Int64s
    codes: Bytes


class OutcomeTable:
    """All outcomes of all kinds, numbered: what the codes of notices stand for.

    Attributes
    ----------
    first : dict from kind to the code of its index's first outcome
    throttled : uint8, by code
        The code of the notice that sums up others, the last of which has this one.
    end : uint8, by number of the kind
        The code of a query's end.
    direction : uint8, by code
        See `everquery.state.hygiene`.
    """

    def __init__(self) -> None:
        rows: list[tuple[str, Outcome]] = []
        self.first: dict[str, int] = {}
        for name, kind in KINDS.items():
            self.first[name] = len(rows)
            rows.extend((name, outcome) for outcome in kind.index.outcomes)
        told = list(rows)
        for name, outcome in told:
            summary = name, Outcome(outcome.event, "throttled")
            if summary not in rows:
                rows.append(summary)
        self.end = np.arange(len(rows), len(rows) + len(KINDS), dtype=np.uint8)
        rows.extend((name, Outcome("end", "ttl")) for name in KINDS)
        self.throttled = np.array(
            [rows.index((name, Outcome(outcome.event, "throttled"))) for name, outcome in told],
            np.uint8,
        )
        directions = {"enter": ENTERS, "leave": LEAVES}
        self.direction = np.array(
            [directions.get(outcome.event, OTHER) for _, outcome in rows], np.uint8
        )
        # Part of the notice id; from the words, because numbers may change with a new kind.
        self.hashes = np.array(
            [
                int.from_bytes(blake2b(repr((kind, outcome)).encode(), digest_size=8).digest())
                for kind, outcome in rows
            ],
            np.uint64,
        )
        self._kinds = self._column([kind for kind, _ in rows])
        self._events = self._column([outcome.event for _, outcome in rows])
        self._reasons = self._column([outcome.reason for _, outcome in rows])

    @staticmethod
    def _column(words: Sequence[str | None]) -> tuple[Array, Array, pa.Array]:
        """Return index and absence of each word, and the distinct words."""
        distinct = list(dict.fromkeys(word for word in words if word is not None))
        index = np.array([0 if word is None else distinct.index(word) for word in words], np.int8)
        absent = np.array([word is None for word in words], np.bool_)
        return index, absent, pa.array(distinct, pa.string())

    def columns(self, codes: Bytes) -> dict[str, pa.Array]:
        """Return the columns kind, event and reason."""
        columns = {}
        for name in ("kinds", "events", "reasons"):
            index, absent, words = getattr(self, f"_{name}")
            mask = absent[codes] if absent.any() else None
            indices = pa.array(index[codes], mask=mask)
            columns[name[:-1]] = pa.DictionaryArray.from_arrays(indices, words, safe=False)
        return columns


def in_order(
    events: int, position: Int64s, found: Sequence[tuple[int, Matches | Crossings]]
) -> Ordered:
    """Put what the indexes found into one order: by event, then by slot.

    Parameters
    ----------
    events : int
        How many events there are; positions are below twice as many.
    position : int64
        The positions of the grouped events.
    found : pairs of the first code of the kind and its findings
    """
    counts = np.zeros(events + 1, np.int64)
    for _, part in found:
        if isinstance(part, Matches):
            count_matches(position, part.begin, part.ends, counts)
        else:
            count_crossings(part.keys, counts)
    at = np.cumsum(counts)
    keys = np.empty(at[-1], np.int64)
    codes = np.empty(at[-1], np.uint8)
    for first_code, part in found:
        if isinstance(part, Matches):
            place_matches(position, part.slots, part.begin, part.ends, first_code, at, keys, codes)
        else:
            place_crossings(part.keys, first_code, at, keys, codes)
    sort_events(at[:-1], keys, codes)
    return Ordered(keys, codes)


def totals_in_order(
    ordered: Ordered, found: Sequence[tuple[int, Matches | Crossings]]
) -> Int64s | None:
    """Return the totals that notices tell, 0 where they tell none; None if no notice does."""
    parts = [part for _, part in found if isinstance(part, Crossings) and part.totals is not None]
    if not parts:
        return None
    totals = np.zeros(ordered.keys.size, np.int64)
    totals[_places(ordered, [part.keys for part in parts])] = np.concatenate(
        [part.totals for part in parts if part.totals is not None]
    )
    return totals


def answers_in_order(
    ordered: Ordered, found: Sequence[tuple[int, Matches | Crossings]]
) -> Floats | None:
    """Return the figures of answers that notices tell, NaN where they tell none."""
    parts = [part for _, part in found if isinstance(part, Crossings) and part.answers is not None]
    if not parts:
        return None
    places = _places(ordered, [part.keys for part in parts])
    if len(parts) == 1 and np.array_equal(places, np.arange(ordered.keys.size)):
        return parts[0].answers
    answers = np.full((len(ANSWER), ordered.keys.size), np.nan)
    answers[:, places] = np.concatenate(
        [part.answers for part in parts if part.answers is not None], axis=1
    )
    return answers


def _places(ordered: Ordered, keys: Sequence[Int64s]) -> Int64s:
    """Return where crossings are among all notices.

    One query tells one thing of an event, so that position and slot name the notice.
    """
    wanted = np.concatenate(keys)
    wanted = wanted >> PLACE_SHIFT << 32 | (wanted >> SLOT_SHIFT & SLOT_MASK)
    if np.array_equal(wanted, ordered.keys):  # nothing else is told, and all is in order already
        return np.arange(wanted.size)
    order = np.argsort(ordered.keys, kind="stable")
    places: Int64s = order[np.searchsorted(ordered.keys, wanted, sorter=order)]
    return places


def notice_schema(
    stream: Stream,
    time_type: pa.DataType,
    key_type: pa.DataType,
    *,
    labelled: bool = False,
    carried: Sequence[str] = (),
) -> pa.Schema:
    """Return the schema of a stream's notices.

    Parameters
    ----------
    labelled : bool
        Whether they tell owner and labels too.
    carried : names of columns of events that are added to them
    """
    text = pa.dictionary(pa.int32(), pa.string())
    word = pa.dictionary(pa.int8(), pa.string())
    return pa.schema(
        [
            ("query_id", text),
            ("kind", word),
            ("event", word),
            ("key", pa.dictionary(pa.int32(), key_type)),
            ("time", time_type),
            ("seq", pa.int64()),
            ("reason", word),
            *((name, pa.float64()) for name in stream.attributes),
            ("total", pa.int64()),
            ("rounds", pa.int64()),
            ("held_back", pa.int64()),
            *zip(answer_columns(stream, carried), ANSWER_TYPES, strict=True),
            *((name, text) for name in OWNER_COLUMNS if labelled),
            ("notice_id", pa.binary(16)),
        ]
    )


def answer_columns(stream: Stream, carried: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of the columns of an answer; some may be taken by columns of events."""
    taken = {*stream.attributes, *carried}
    return tuple(in_full(name) if name in taken else name for name in ANSWER)


def in_full(name: str) -> str:
    """Return what a column of an answer is called where its name is taken."""
    return f"quantile_{name}"


def as_time(times: Array, kind: pa.DataType) -> pa.Array:
    """Return times as an Arrow array of the stream's type."""
    if pa.types.is_null(kind):
        return pa.nulls(times.size)
    if pa.types.is_date32(kind):
        return pa.array(times.astype(np.int32)).view(kind)
    return pa.array(times).view(kind)


@dataclass(frozen=True, slots=True)
class Names:
    """The names and hashes that notices are written with.

    Attributes
    ----------
    queries, keys : Arrow arrays, by slot and by key number
    query_digests, key_digests : uint64, shape (n, 2), likewise
    texts : Arrow array
        Owners and labels, each once.
    owner, labels : int32, by slot
        Places in `texts`, or -1; perhaps shorter than there are slots.
    """

    queries: pa.Array
    keys: pa.Array
    query_digests: Uint64s
    key_digests: Uint64s
    texts: pa.Array
    owner: Int32s
    labels: Int32s


@dataclass(frozen=True, slots=True)
class Told:
    """Notices in their final order, and the events that they are about.

    Attributes
    ----------
    ordered : Ordered
    row : int64
        Which of `events` each notice is about; it has no key (-1), `seq` or values (NaN) where a
        query ended.
    events : Events
    held : int64, or None if it is 0 for all
        How many notices each sums up.
    salt : uint64, or None if it is 0 for all
        What the id has besides: the moment, where that is not the event's own.
    totals : int64, or None if it is 0 for all
        The weight that a query has seen; 0 for kinds that count none.
    answers : float64, shape (figures, n), or None if all are NaN
        See `everquery.index.rows.ANSWER`.
    """

    ordered: Ordered
    row: Int64s
    events: Events
    held: Int64s | None = None
    salt: Uint64s | None = None
    totals: Int64s | None = None
    answers: Floats | None = None


def join_told(parts: Sequence[Told]) -> Told:
    """Return the notices of all parts, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    ordered = Ordered(
        np.concatenate([part.ordered.keys for part in parts]),
        np.concatenate([part.ordered.codes for part in parts]),
    )
    events = join_events([part.events.take(part.row) for part in parts])
    totals = None
    if any(part.totals is not None for part in parts):
        totals = np.concatenate([totals_of(part) for part in parts])
    answers = None
    if any(part.answers is not None for part in parts):
        answers = np.concatenate([answers_of(part) for part in parts], axis=1)
    return Told(ordered, np.arange(len(events)), events, totals=totals, answers=answers)


def totals_of(told: Told) -> Int64s:
    """Return the totals of notices, 0 for those without."""
    return np.zeros(told.row.size, np.int64) if told.totals is None else told.totals


def answers_of(told: Told) -> Floats:
    """Return the figures of notices' answers, NaN for those without."""
    if told.answers is None:
        return np.full((len(ANSWER), told.row.size), np.nan)
    return told.answers


def write_notices(
    told: Told, names: Names, outcomes: OutcomeTable, schema: pa.Schema, rounds: Int64s | None
) -> pa.Table:
    """Return the notices as a table; `rounds` is None where there are no totals."""
    ordered, row, events = told.ordered, told.row, told.events
    slot = ordered.keys & 0xFFFFFFFF
    ids = np.empty(2 * slot.size, np.uint64)
    hashes = outcomes.hashes[ordered.codes]
    write_ids(
        slot,
        row,
        hashes if told.salt is None else hashes ^ told.salt,
        names.query_digests,
        names.key_digests,
        events.key,
        events.seq,
        ids,
    )
    key = events.key[row]
    mask = np.ones(key.size, np.bool_) if names.keys.null_count else None
    ended = None
    if told.salt is not None:  # so the notices went through the rules, and queries may have ended
        ended = events.seq[row] < 0
        mask = key < 0 if mask is None else mask
    columns = outcomes.columns(ordered.codes)
    columns["query_id"] = pa.DictionaryArray.from_arrays(
        pa.array(slot.astype(np.int32)), names.queries, safe=False
    )
    columns["key"] = pa.DictionaryArray.from_arrays(
        pa.array(key, mask=mask), names.keys, safe=False
    )
    columns["time"] = as_time(events.time[row], schema.field("time").type)
    columns["seq"] = pa.array(events.seq[row])
    for a, values in enumerate(events.values):
        columns[schema.names[FIRST_ATTRIBUTE + a]] = pa.array(values[row], mask=ended)
    for name, numbers in (("total", told.totals), ("rounds", rounds), ("held_back", told.held)):
        columns[name] = _known(numbers, columns["seq"])
    names_of_answers = schema.names[schema.names.index("held_back") + 1 :]
    for i, (name, kind) in enumerate(zip(names_of_answers, ANSWER_TYPES, strict=False)):
        columns[name] = _figures(told.answers, i, kind, columns["seq"])
    if OWNER_COLUMNS[0] in schema.names:
        for name, codes in zip(OWNER_COLUMNS, (names.owner, names.labels), strict=True):
            columns[name] = _texts(codes, slot, names.texts)
    columns["notice_id"] = pa.Array.from_buffers(
        pa.binary(16), slot.size, [None, pa.py_buffer(ids)]
    )
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _known(numbers: Int64s | None, seq: pa.Array) -> pa.Array:
    """Return a column of the numbers that are not 0, and null for the others."""
    if numbers is not None:
        return pa.array(numbers, mask=numbers == 0)
    return _nothing(seq, pa.int64())


def _nothing(seq: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of nulls, the usual case: bits alone, over memory that is there already."""
    nothing = pa.py_buffer(bytes((len(seq) + 7) // 8))
    return pa.Array.from_buffers(kind, len(seq), [nothing, seq.buffers()[1]], len(seq))


def _figures(answers: Floats | None, which: int, kind: pa.DataType, seq: pa.Array) -> pa.Array:
    """Return a column of answers, null for notices without one."""
    if answers is None:
        return _nothing(seq, kind)
    absent = np.isnan(answers[ANSWER.index("n")])
    figures = answers[which]
    if pa.types.is_integer(kind):
        figures = np.where(absent, 0.0, figures).astype(np.int64)
    return pa.array(figures, mask=absent)


def _texts(codes: Int32s, slot: Int64s, texts: pa.Array) -> pa.Array:
    """Return the owners or labels of queries, by their places among all texts."""
    picked = np.full(slot.size, -1, np.int32)
    known = slot < codes.size
    picked[known] = codes[slot[known]]
    indices = pa.array(picked, mask=picked < 0)
    return pa.DictionaryArray.from_arrays(indices, texts, safe=False)
