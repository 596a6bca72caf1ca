"""All that kinds can tell, numbered: what the codes of notices stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Int64s
from everquery.index.flags import Flags, option_flags
from everquery.index.rows import NoticeColumn, Outcome
from everquery.index.sort_keys import MOST_CODES
from everquery.kinds import Kind
from everquery.shard.constant_columns import Constant, Nothing
from everquery.state.rule_walk import ENTERS, LEAVES, OTHER

WORD = pa.dictionary(pa.int8(), pa.string())


class OutcomeTable:
    """The outcomes and the notice columns of all kinds.

    Attributes
    ----------
    first : dict from kind to the code of its index's first outcome
    throttled : uint8, by code
        The code of the notice that sums up others, the last of which has this one.
    end : uint8, by number of the kind
        The code of a query's end.
    direction : uint8, by code
        See `everquery.state.rule_walk`.
    skip : uint16, by code
        The flags of queries with which it is not told.
    at_once : bool, by code
        Whether it is told at once, whatever rules of time the query has.
    columns : dict from name to NoticeColumn
        Those of all kinds.
    nothing : dict from name to Nothing
        What writes such a column where no notice has it.
    said : tuple of (kind, event, reason), by code
    words : int8, shape (3, codes)
        Where kind, event and reason stand among the words of their columns.
    """

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        rows: list[tuple[str, Outcome]] = []
        self.first: dict[str, int] = {}
        for name, kind in kinds.items():
            self.first[name] = len(rows)
            rows.extend((name, outcome) for outcome in kind.index.outcomes)
        told = list(rows)
        for name, outcome in told:
            summary = name, Outcome(outcome.event, "throttled")
            if summary not in rows:
                rows.append(summary)
        self.end = np.arange(len(rows), len(rows) + len(kinds), dtype=np.uint8)
        rows.extend((name, Outcome("end", "ttl")) for name in kinds)
        if len(rows) > MOST_CODES:
            raise ValueError(
                f"all kinds together can tell {len(rows)} things, and not {MOST_CODES}"
            )
        self.throttled = np.array(
            [rows.index((name, Outcome(outcome.event, "throttled"))) for name, outcome in told],
            np.uint8,
        )
        directions = {"enter": ENTERS, "leave": LEAVES}
        self.direction = np.array(
            [directions.get(outcome.event, OTHER) for _, outcome in rows], np.uint8
        )
        self.skip = _skips(rows, kinds)
        self.at_once = np.array([outcome.at_once for _, outcome in rows])
        # Part of the notice id; from the words, because numbers may change with a new kind.
        self.hashes = np.array(
            [
                int.from_bytes(blake2b(repr((kind, outcome)).encode(), digest_size=8).digest())
                for kind, outcome in rows
            ],
            np.uint64,
        )
        self._words = (
            _Words([kind for kind, _ in rows]),
            _Words([outcome.event for _, outcome in rows]),
            _Words([outcome.reason for _, outcome in rows]),
        )
        self.words: Array = np.stack([words.index for words in self._words])
        self._writers: dict[bytes, list[Constant | Mixed]] = {}
        self.said = tuple((kind, outcome.event, outcome.reason) for kind, outcome in rows)
        self.columns = columns_of(kinds)
        self.nothing = {name: Nothing(column.type) for name, column in self.columns.items()}
        bare = {(kind, outcome.event) for kind, outcome in told if outcome.bare}
        self._tells = {
            name: np.array(
                [
                    name in {column.name for column in kinds[kind].index.columns}
                    and code < self.end[0]
                    and (kind, outcome.event) not in bare
                    for code, (kind, outcome) in enumerate(rows)
                ]
            )
            for name in self.columns
        }

    def writers(self, seen: Bytes) -> list[Constant | Mixed]:
        """Return what makes the columns kind, event and reason.

        Parameters
        ----------
        seen : uint8
            Not 0 at the codes that occur.
        """
        known = seen[: self.hashes.size].tobytes()
        if known not in self._writers:  # there are few that occur together
            among = np.flatnonzero(seen[: self.hashes.size])
            self._writers[known] = [words.among(among) for words in self._words]
        return self._writers[known]

    def lacks(self, column: str, codes: Bytes) -> Bools | None:
        """Return which notices have nothing in a column; None if all have something."""
        tells = self._tells[column]
        if tells.all():
            return None
        absent: Bools = ~tells[codes]
        return absent if absent.any() else None


class _Words:
    """Words by code, of which some may be None."""

    def __init__(self, words: Sequence[str | None]) -> None:
        distinct = list(dict.fromkeys(word for word in words if word is not None))
        self.index: Array = np.array(
            [0 if word is None else distinct.index(word) for word in words], np.int8
        )
        self._absent: Bools = np.array([word is None for word in words], np.bool_)
        self._distinct = pa.array(distinct, pa.string())
        self._constants: dict[int | None, Constant] = {}

    def among(self, codes: Int64s) -> Constant | Mixed:
        """Return what makes the column of words, where these codes occur."""
        absent, places = self._absent[codes], self.index[codes]
        if absent.all() or (not absent.any() and (places == places[0]).all()):
            place = None if absent[0] else int(places[0])
            if place not in self._constants:
                self._constants[place] = Constant(self._distinct, place)
            return self._constants[place]
        return Mixed(self._absent if absent.any() else None, self._distinct)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Makes a column of different words."""

    absent: Bools | None
    distinct: pa.Array

    def column(self, codes: Bytes, places: pa.Buffer) -> pa.Array:
        """Return the word of each code, given by its place among all words."""
        valid = None
        if self.absent is not None:
            valid = pa.array(~self.absent[codes]).buffers()[1]
        return pa.DictionaryArray.from_buffers(WORD, codes.size, [valid, places], self.distinct)


def columns_of(kinds: Mapping[str, Kind]) -> dict[str, NoticeColumn]:
    """Return the notice columns of all kinds by name; kinds may share some."""
    columns: dict[str, NoticeColumn] = {}
    for kind in kinds.values():
        for column in kind.index.columns:
            assert columns.setdefault(column.name, column).type == column.type
    return columns


def _skips(rows: Sequence[tuple[str, Outcome]], kinds: Mapping[str, Kind]) -> Flags:
    """Return the flags with which queries do not tell an outcome, by code.

    A notice that sums up others is never skipped: none of them was.
    """
    flags = {name: option_flags(kind.spec.options) for name, kind in kinds.items()}
    return np.array(
        [
            0 if outcome.skipped_by is None else flags[kind][outcome.skipped_by]
            for kind, outcome in rows
        ],
        np.uint16,
    )
