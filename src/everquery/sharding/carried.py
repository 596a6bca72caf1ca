"""Columns of events that are carried into their notices, whatever they hold.

A notice names its event by key and seq. The event is one of this batch; or one that the grace held
back from an earlier one; or the last one of its key that the query saw, which an announcement or an
expiry names. So the carried columns of held events, of each key's last one and of earlier ones that
know more (`everquery.state.sights`) are kept, and nothing else. A notice that a rule tells later
(dwell, throttle) finds its event only if it is still one of these.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Int32s, Int64s
from everquery.core.arrow_bytes import checked_table, table_bytes
from everquery.core.invariants import refuse
from everquery.core.parts import Part, Saved
from everquery.state.accepted import Events

_ARRIVED, _KEY, _SEQ = "everquery arrived", "everquery key", "everquery seq"


class Carried(Part):
    """The carried columns of all events that a notice may still name.

    Attributes
    ----------
    schema : the carried columns
    """

    name = "carried"

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._held = pa.schema([(_ARRIVED, pa.int64()), *schema]).empty_table()
        self._last: pa.Table | None = None

    def arrive(self, first: int, parts: list[pa.Table]) -> None:
        """Take in the columns of arrivals that are numbered from `first` on."""
        rows = pa.concat_tables(
            [self.schema.empty_table(), *(part.cast(self.schema) for part in parts)]
        )
        numbers = pa.array(np.arange(first, first + rows.num_rows))
        self._held = pa.concat_tables([self._held, rows.add_column(0, _ARRIVED, numbers)])

    def of_arrivals(self, numbers: Int64s) -> pa.Table:
        """Return the carried columns of arrivals, by their numbers."""
        arrived = np.asarray(self._held[_ARRIVED])
        order = np.argsort(arrived, kind="stable")
        place = order[np.searchsorted(arrived[order], numbers)]
        return self._held.select(self.schema.names).take(pa.array(place))

    def step(
        self,
        notices: pa.Table,
        accepted: Events,
        held: Int64s,
        keys: pa.Array,
        earlier: tuple[Int32s, Int64s],
    ) -> pa.Table:
        """Return the carried columns of notices, and keep what later ones may need.

        Parameters
        ----------
        held : int64
            The numbers of the arrivals that are held back.
        keys : Arrow array
            All keys, by their numbers.
        earlier : key number and seq of events that are kept besides each key's last one
        """
        names = keys.take(pa.array(accepted.key))
        now = self.of_arrivals(accepted.arrived)
        now = now.add_column(0, _SEQ, pa.array(accepted.seq)).add_column(0, _KEY, names)
        known = now if self._last is None else pa.concat_tables([self._last, now])
        known = known.combine_chunks()
        found = _find(notices, known)
        carried = known.select(self.schema.names).take(found)
        self._last = known.take(_last_of_each_key(known, keys, earlier))
        arrived = np.asarray(self._held[_ARRIVED])
        order = np.argsort(arrived, kind="stable")
        self._held = self._held.take(pa.array(order[np.searchsorted(arrived[order], held)]))
        return carried

    def whole(self) -> Saved:
        """Return what is kept."""
        strings = {"held": table_bytes(self._held)}
        if self._last is not None:
            strings["last"] = table_bytes(self._last)
        return Saved(strings=strings)

    def changes(self) -> Saved | None:
        """Return what is kept, if columns are carried at all."""
        return self.whole() if self.schema.names else None

    def load(self, saved: Saved) -> None:
        """Check and take over what was kept."""
        if not saved.strings.keys() <= {"held", "last"} or "held" not in saved.strings:
            refuse("carried columns are something else")
        tables = {
            name: checked_table(data, "carried columns") for name, data in saved.strings.items()
        }
        last = tables.get("last")
        self._check(tables["held"].schema, [_ARRIVED])
        if last is not None:
            self._check(last.schema, [_KEY, _SEQ])
        self._held, self._last = tables["held"], last

    def _check(self, schema: pa.Schema, first: list[str]) -> None:
        """Raise if columns are not these, and the carried ones behind them."""
        types = [field.type for field in schema][len(first) :]
        if schema.names != [*first, *self.schema.names] or types != self.schema.types:
            refuse("carried columns are others than those that are carried now")


def _find(notices: pa.Table, known: pa.Table) -> pa.Array:
    """Return the row of each notice's event; null where it is not known."""
    keys = known[_KEY].combine_chunks()
    wanted = notices["key"].cast(keys.type)
    codes = keys.dictionary_encode()
    numbers = pc.index_in(wanted, codes.dictionary, skip_nulls=False).fill_null(-1)
    ours = _codes(np.asarray(codes.indices.fill_null(-1)), np.asarray(known[_SEQ]))
    theirs = _codes(np.asarray(numbers), np.asarray(notices["seq"]))
    order = np.argsort(ours, kind="stable")
    at = np.minimum(np.searchsorted(ours[order], theirs), max(0, ours.size - 1))
    if not ours.size:
        return pa.nulls(theirs.size, pa.int64())
    rows = order[at]
    return pa.array(rows, mask=ours[rows] != theirs)


def _codes(key: Int64s, seq: Int64s) -> Int64s:
    """Return one number for each pair; seqs are below 2^40."""
    codes: Int64s = (key.astype(np.int64) << 40) + seq
    return codes


def _last_of_each_key(known: pa.Table, keys: pa.Array, earlier: tuple[Int32s, Int64s]) -> pa.Array:
    """Return the rows of each key's last event, and of the earlier ones that are kept, in order."""
    codes = known[_KEY].combine_chunks().dictionary_encode()
    numbers = np.asarray(codes.indices.fill_null(len(codes.dictionary)))
    last = np.full(len(codes.dictionary) + 1, -1, np.int64)
    last[numbers] = np.arange(numbers.size)  # rows are in order, so the last one stays
    last = last[last >= 0]
    key, seq = earlier
    if key.size:
        wanted = pa.table({"key": keys.take(pa.array(key)), "seq": pa.array(seq)})
        rows = _find(wanted, known)
        last = np.union1d(last, np.asarray(rows.drop_null()))
    return pa.array(last)
