"""Load shedding on Spark: a gate behind each stream, whose rate a table of controls sets.

The controls are a stream of the job, so that its checkpoint knows which came before which batch:
a batch that is done again sheds the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.ends import Source
from everquery.network.model import Network
from everquery.network.operator import Operator, Saved
from everquery.network.rows import Flow, RowType
from everquery.network.spec import Box
from everquery.stream import Stream

CONTROL = "everquery control"
RAW = " as it comes"  # behind the name of a stream that has a gate
NEVER = "never"


@dataclass(frozen=True)
class Gate(Box):
    """Let through all rows of a stream but a share, which the rows of a control stream set.

    Rows are taken out evenly and by position. A control takes effect with the next batch.

    Parameters
    ----------
    stream : str
        The name by which controls call the stream.
    others : tuple of str
        Streams that have gates of their own; of them this one says nothing.
    first : bool
        Whether controls that no gate knows are this one's dead letters.
    """

    stream: str = field(kw_only=True)
    others: tuple[str, ...] = field(kw_only=True)
    first: bool = field(kw_only=True)
    kind = "gate"
    arity = (2, 2)

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type of the stream."""
        return inputs[0]

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return GateOperator(self, inputs, output)


class GateOperator(Operator):
    """A running gate."""

    def __init__(self, spec: Gate, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self._rate, self._count = 0.0, 0

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the rows that stay, and take the rate for the next batch."""
        flow, controls = flows
        rows = flow.rows
        if self._rate:
            places = np.arange(self._count, self._count + rows.num_rows)
            stays = np.floor((places + 1) * self._rate) == np.floor(places * self._rate)
            rows = rows.filter(pa.array(stays))
        self._count += flow.rows.num_rows
        if controls.rows.num_rows:
            self._control(controls.rows)
        return Flow(rows, flow.clock)

    def _control(self, rows: pa.Table) -> None:
        streams, rates = rows.column("stream"), rows.column("rate")
        own = pc.equal(streams, self._spec.stream)
        good = pc.fill_null(pc.and_(pc.greater_equal(rates, 0), pc.less_equal(rates, 1)), False)
        self.letters.add(rows.filter(pc.and_(own, pc.invert(good))), "rate is not from 0 to 1")
        if self._spec.first:
            known = pa.array([self._spec.stream, *self._spec.others])
            strange = pc.invert(pc.is_in(streams, value_set=known))
            self.letters.add(rows.filter(strange), "no stream that may be shed")
        taken = rates.filter(pc.and_(own, good)).to_pylist()
        if taken:
            self._rate = taken[-1]

    def save(self) -> Saved:
        """Return the rate, and how many rows came."""
        return Saved({"rate": self._rate, "count": self._count})

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        self._rate, self._count = saved.values["rate"], saved.values["count"]


def control_source() -> Source:
    """Return the stream of controls: ``stream``, and the share ``rate`` of it that is shed."""
    return Source(Stream(CONTROL, key="stream", attributes=["rate"]), {"stream": "string"})


def gated(network: Network, whole: Network) -> Network:
    """Return a part of a network with a gate behind each stream that may be shed.

    Parameters
    ----------
    whole : Network
        All of it: streams that lead to an output with ``shed: never`` have no gate.
    """
    kept = _never(whole)
    names = [name for name in network.streams if name not in kept]
    streams = {
        name + RAW if name in names else name: source for name, source in network.streams.items()
    }
    gates = {
        name: Gate(
            (name + RAW, CONTROL),
            stream=name,
            others=tuple(other for other in names if other != name),
            first=name == names[0],
        )
        for name in names
    }
    return Network(
        network.name,
        {**streams, CONTROL: control_source()} if names else streams,
        {**gates, **network.boxes},
        network.outputs,
        network.points,
    )


def _never(network: Network) -> set[str]:
    """Return the streams and boxes that lead to outputs of which nothing may be shed."""
    boxes = network.readable
    found: set[str] = set()
    rest = [one.source for one in network.outputs.values() if one.shed == NEVER]
    while rest:
        name = rest.pop()
        if name not in found:
            found.add(name)
            rest += boxes[name].sources if name in boxes else ()
    return found
