"""The part of queries: what each says, and whether it is paused or still to be announced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s
from everquery.core.framing import DamagedError, NewerError
from everquery.core.invariants import Column, Contents, check_none, of_type, refuse, short
from everquery.core.parts import Part, Saved
from everquery.index.flags import (
    DIVERTED,
    LIVE,
    NEW,
    PAUSED,
    REPLACED,
    RESUMED,
    SPANNED,
    Flags,
    option_flags,
)
from everquery.index.rows import NO_KEY, Rows, Shape
from everquery.kinds import KINDS
from everquery.shard.parts.query_checks import (
    check_ended,
    check_ids,
    check_quotas,
    check_shape,
    check_texts,
)
from everquery.shard.shard import Shard

STATES = {
    "live": LIVE,
    "paused": PAUSED,
    "new": NEW,
    "resumed": RESUMED,
    "diverted": DIVERTED,
    "spanned": SPANNED,
    "replaced": REPLACED,
}
"""What a query's flags say of it, apart from its options."""
ROW_PARTS = ("slot", "key", "low", "high")

COLUMNS = {
    "states": Column("uint8", ("queries",), least=1),
    "kinds": Column("uint8", ("queries",), below="kinds"),
    "prints": Column("uint64", ("queries",)),
}
ROWS = {
    "slot": Column("int32", ("rows",), least=0, below="queries"),
    "key": Column("int32", ("rows",), least=-1, below="keys"),
    "low": Column("float64", ("restricted", "rows")),
    "high": Column("float64", ("restricted", "rows"), with_nan=True),
}


class QueriesPart(Part):
    """All live queries, by rank; boxes by shape."""

    name = "queries"

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._contents = shard.contents

    # -- saving -------------------------------------------------------------------------------

    def whole(self) -> Saved:
        """Return all queries."""
        shard, catalog = self._shard, self._contents.catalog
        shard.queries.settle()
        kept = catalog.kept()
        flags, kinds = catalog.flags[kept], catalog.kind[kept]
        used = np.flatnonzero(np.bincount(kinds))
        names = [tuple(self._contents.indexes)[number] for number in used]
        saved = Saved(
            {
                "kinds": names,
                "states": STATES,
                "shapes": [],
                "quotas": list(shard.quotas.items()),
                "ended": sorted(shard.queries.ended),
            }
        )
        catalog.save(saved.arrays)
        saved.arrays["states"] = (flags & sum(STATES.values())).astype(np.uint8)
        saved.arrays["kinds"] = places_of(used, 256).astype(np.uint8)[kinds]
        for kind, number in zip(names, used, strict=True):
            self._save_kind(kind, kept, np.flatnonzero(kinds == number), saved)
        return saved

    def _save_kind(self, kind: str, kept: Int64s, ranks: Int64s, saved: Saved) -> None:
        catalog, index = self._contents.catalog, self._contents.indexes[kind]
        rank = None if kept.size == len(catalog) else places_of(kept, len(catalog))
        for rows in index.rows(catalog.flags):
            prefix = f"rows{len(saved.values['shapes'])}."
            saved.values["shapes"].append([kind, list(rows.shape.attributes), rows.shape.keyed])
            slot = rows.slot if rank is None else rank[rows.slot]
            columns = (slot, *rows.arrays()[1:])
            saved.arrays.update(
                {prefix + name: array for name, array in zip(ROW_PARTS, columns, strict=True)}
            )
        slots = kept[ranks].astype(np.int32)
        added = {each.name for each in KINDS[kind].spec.numbers if each.added}
        for name, array in index.numbers(slots).items():
            if name not in added or array.any():
                saved.arrays[f"{kind} {name}"] = array
        flags = catalog.flags[slots]
        for option, flag in option_flags(KINDS[kind].spec.options).items():
            chosen = flags & flag != 0
            if chosen.any():
                saved.arrays[f"{kind} is {option}"] = np.packbits(chosen)

    # -- loading ------------------------------------------------------------------------------

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over nothing: what queries say is here already."""

    def load(self, saved: Saved) -> None:
        """Check and take over queries; there are none yet."""
        values = saved.values
        if len(self._contents.catalog) or not saved.whole or saved.strings:
            raise DamagedError("queries come where others are already")
        check_quotas(of_type(values, "quotas", list))
        check_ended(of_type(values, "ended", list))
        contents = Contents(saved.arrays, {"keys": len(self._contents.keys)})
        check_ids(contents)
        names = self._known_kinds(of_type(values, "kinds", list))
        contents.sizes["kinds"] = len(names)
        contents.check(COLUMNS)
        check_texts(contents)
        places = saved.arrays["kinds"]
        queries = _Loaded(
            contents,
            np.array([self._contents.number_of(name) for name in names], np.uint8)[places]
            if names
            else places,
            _read_states(of_type(values, "states", dict), contents),
        )
        for place, kind in enumerate(names):
            self._read_kind(kind, np.flatnonzero(places == place), queries)
        rows = self._read_rows(of_type(values, "shapes", list), queries)
        contents.check_all_seen()
        self._take(saved, queries, rows)

    def _known_kinds(self, names: list[Any]) -> list[str]:
        for name in names:
            if not isinstance(name, str) or names.count(name) > 1:
                refuse(f"queries are of kind {short(name)}, which can't be")
            if name not in self._contents.indexes:
                raise NewerError(
                    f"has queries of a kind {name[:80]!r} that this everquery does not know"
                )
        return names

    def _read_kind(self, kind: str, ranks: Int64s, queries: _Loaded) -> None:
        """Note the numbers and options of the queries of a kind."""
        contents, index = queries.contents, self._contents.indexes[kind]
        known = index.numbers(np.empty(0, np.int32))
        added = {each.name for each in KINDS[kind].spec.numbers if each.added}
        schema = {
            f"{kind} {name}": Column(
                str(array.dtype), ("rows",), with_nan=True, needed=name not in added
            )
            for name, array in known.items()
        }
        contents.check(schema, rows=ranks.size)
        queries.ranks[kind] = ranks
        queries.numbers[kind] = {
            name: contents[label] if contents.has(label) else np.zeros(ranks.size, array.dtype)
            for label, (name, array) in zip(schema, known.items(), strict=True)
        }
        options = queries.options[kind] = {}
        nobody: Bools = np.broadcast_to(np.bool_(False), ranks.size)
        for option, flag in option_flags(KINDS[kind].spec.options).items():
            name = f"{kind} is {option}"
            options[option] = nobody
            if contents.has(name):
                contents.check({name: Column("uint8", ("bytes",))}, bytes=-(-ranks.size // 8))
                chosen = np.unpackbits(contents[name], count=ranks.size).astype(np.bool_)
                options[option] = chosen
                queries.flags[ranks[chosen]] |= flag

    def _read_rows(self, shapes: list[Any], queries: _Loaded) -> list[tuple[str, Rows]]:
        """Return the boxes of queries; raise if they are not one for each query."""
        contents = queries.contents
        rows_of = np.zeros(contents.sizes["queries"], np.int64)
        found = []
        for number, shape in enumerate(shapes):
            kind, attributes, keyed = check_shape(shape, self._shard.stream)
            prefix = f"rows{number}."
            here = {"rows": contents[f"{prefix}slot"].size} if contents.has(f"{prefix}slot") else {}
            contents.check(ROWS, prefix, restricted=len(attributes), **here)
            slot, key, low, high = (contents[prefix + part] for part in ROW_PARTS)
            if not slot.size:
                refuse(f"array {prefix + 'slot'!r} is empty")
            wrong = queries.kind[slot] != self._contents.number_of(kind)
            check_none(wrong, f"{prefix}slot", slot, f"no {kind} query")
            check_none((key != NO_KEY) != keyed, f"{prefix}key", key, "a key, or none, where not")
            check_none(high <= low, f"{prefix}high", high, "not above the lower end")
            rows = Rows(Shape(attributes, keyed), slot, key, low, high)
            place = slot
            if queries.ranks[kind].size < queries.kind.size:
                place = places_of(queries.ranks[kind], queries.kind.size)[slot]
            self._contents.indexes[kind].check_loaded(
                rows,
                _ByRow(queries.numbers[kind], place),
                _ByRow(queries.options[kind], place),
                self._shard.stream,
            )
            rows_of += np.bincount(slot, minlength=rows_of.size)
            found.append((kind, rows))
        if (rows_of != 1).any():
            refuse("queries do not have one row each")
        return found

    def _take(self, saved: Saved, queries: _Loaded, rows: list[tuple[str, Rows]]) -> None:
        shard, catalog, indexes = self._shard, self._contents.catalog, self._contents.indexes
        shard.quotas = dict(saved.values["quotas"])
        shard.queries.ended = set(saved.values["ended"])
        catalog.load(saved.arrays, queries.flags, queries.kind)
        for kind, numbers in queries.numbers.items():
            indexes[kind].describe(queries.ranks[kind].astype(np.int32), numbers)
        for kind, part in rows:
            indexes[kind].add(part, catalog.flags, announce=False)


class _ByRow(Mapping[str, Array]):
    """Columns by query as columns by row; each is made when somebody looks at it: few kinds do."""

    def __init__(self, columns: Mapping[str, Array], place: Int32s) -> None:
        self._columns = columns
        self._place = place

    def __getitem__(self, name: str) -> Array:
        return self._columns[name][self._place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def places_of(chosen: Int64s, size: int) -> Int32s:
    """Return the place of each number among those that are chosen, in ascending order."""
    places = np.zeros(size, np.int32)
    places[chosen] = np.arange(chosen.size, dtype=np.int32)
    return places


class _Loaded:
    """What queries say, by rank, while they are loaded.

    Attributes
    ----------
    contents : Contents
    kind : uint8
        Numbers of this everquery's kinds.
    flags : as the catalog has them
    ranks, numbers, options : by kind
    """

    def __init__(self, contents: Contents, kind: Bytes, flags: Flags) -> None:
        self.contents = contents
        self.kind = kind
        self.flags = flags
        self.ranks: dict[str, Int64s] = {}
        self.numbers: dict[str, dict[str, Array]] = {}
        self.options: dict[str, dict[str, Bools]] = {}


def _read_states(said: dict[str, Any], contents: Contents) -> Flags:
    """Return the flags of queries, from bits that the header gives names to."""
    saved = contents["states"]
    for name, bit in said.items():
        if type(bit) is not int or bit not in (1 << place for place in range(8)):
            refuse(f"the state {name[:80]!r} is {short(bit)}, and no bit")
        if name not in STATES:
            raise NewerError(f"has a state {name[:80]!r}, which this everquery does not know")
    unnamed = ~np.uint8(sum(set(said.values()))) if said else np.uint8(255)
    check_none(saved & unnamed != 0, "states", saved, "a state without name")
    meanings = np.zeros(256, np.uint16)
    for name, bit in said.items():
        meanings[np.arange(256) & bit != 0] |= STATES[name]
    flags = meanings[saved]
    check_none(flags & LIVE == 0, "states", saved, "no live query's")
    return flags
