"""The state of a run as bytes: one frame with the parts of streams, boxes and arcs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everquery.core.arrow_bytes import checked_table, table_bytes
from everquery.core.framing import Content, pack, unpack
from everquery.errors import EverqueryError, SnapshotError
from everquery.network.operator import Letters, Saved
from everquery.network.rows import joined
from everquery.network.runtime.arcs import Kept
from everquery.network.runtime.intake import Intake
from everquery.network.runtime.plan import Plan
from everquery.network.runtime.points import History
from everquery.network.spec import Box

if TYPE_CHECKING:
    from everquery.network.model import Network

KIND = "network"
_LETTERS = "dead_letters"


def save(
    network: Network,
    boxes: Mapping[str, Box],
    plan: Plan,
    intakes: Mapping[str, Intake],
    histories: Mapping[str, History],
    kept: Mapping[str, Kept],
) -> bytes:
    """Return the state of a run."""
    header: dict[str, Any] = {
        "kind": KIND,
        "network": network.name,
        "digest": _digest(network, boxes),
    }
    contents: dict[str, Content] = {}
    parts: dict[str, Any] = {}
    for name, intake in intakes.items():
        saved = _with_letters(intake.save(), intake.letters)
        parts[f"stream/{name}"] = _put(saved, f"stream/{name}", contents)
    for name, one in kept.items():
        row_type = plan.types[network.outputs[name].source]
        parts[f"output/{name}"] = _put(one.save(row_type), f"output/{name}", contents)
    for name, history in histories.items():
        parts[f"point/{name}"] = _put(history.save(plan.types[name]), f"point/{name}", contents)
    for name, node in plan.nodes.items():
        saved = _with_letters(node.operator.save(), node.operator.letters)
        parts[f"box/{name}"] = _put(saved, f"box/{name}", contents)
        for at, arc in enumerate(node.arcs):
            waiting = joined(arc.pieces, node.operator.inputs[at])
            saved = Saved({"clock": _number(arc.clock), "passed": arc.passed}, {"rows": waiting})
            parts[f"arc/{name}/{at}"] = _put(saved, f"arc/{name}/{at}", contents)
    header["parts"] = parts
    return pack(header, contents)


def read(network: Network, boxes: Mapping[str, Box], snapshot: bytes) -> dict[str, Saved]:
    """Return the parts of a snapshot by their names.

    Raises
    ------
    SnapshotError
        If it is damaged, or of another network.
    """
    if not isinstance(snapshot, (bytes, bytearray, memoryview)):
        raise SnapshotError(f"{type(snapshot).__name__} is no snapshot; give what `snapshot` gave")
    header, _, strings = unpack(snapshot)
    if header.get("kind") != KIND or header.get("digest") != _digest(network, boxes):
        raise SnapshotError(
            f"the snapshot is of network {header.get('network')!r} with other boxes, or optimised"
            f" otherwise, and this is {network.name!r}"
        )
    found: dict[str, Saved] = {}
    for name, values in header["parts"].items():
        found[name] = Saved(values)
    for full, content in strings.items():
        name, _, rest = full.partition("|")
        kind, _, own = rest.partition("|")
        if kind == "table":
            found[name].tables[own] = checked_table(content, f"rows of {name}")
        else:
            found[name].strings[own] = content
    return found


def load_intakes(
    saved: Mapping[str, Saved], intakes: Mapping[str, Intake], histories: Mapping[str, History]
) -> None:
    """Give streams and connection points their state."""
    for name, history in histories.items():
        _loaded(name, lambda name=name, history=history: history.load(saved[f"point/{name}"]))
    for name, intake in intakes.items():
        _loaded(name, lambda name=name, intake=intake: intake.load(saved[f"stream/{name}"]))
        intake.letters.counts = saved[f"stream/{name}"].values.get(_LETTERS, {})


def load_outputs(saved: Mapping[str, Saved], kept: Mapping[str, Kept]) -> None:
    """Give outputs the rows that nobody had read."""
    for name, one in kept.items():
        _loaded(name, lambda name=name, one=one: one.load(saved[f"output/{name}"]))


def load_nodes(saved: Mapping[str, Saved], plan: Plan) -> None:
    """Give boxes and arcs their state."""
    for name, node in plan.nodes.items():
        if f"box/{name}" not in saved and node.operator.stateless:
            continue
        _loaded(name, lambda name=name, node=node: node.operator.load(saved[f"box/{name}"]))
        node.operator.letters.counts = saved[f"box/{name}"].values.get(_LETTERS, {})
        for at, arc in enumerate(node.arcs):
            part = saved[f"arc/{name}/{at}"]
            clock = part.values["clock"]
            arc.clock = float(clock) if isinstance(clock, str) else clock
            arc.passed = part.values["passed"]
            rows = part.tables["rows"]
            arc.pieces = [rows] if rows.num_rows else []
            arc.fresh = bool(rows.num_rows)


def _loaded(name: str, work: Any) -> None:  # noqa: ANN401 - a function without arguments
    try:
        work()
    except EverqueryError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, pa.ArrowException) as error:
        raise SnapshotError(f"the state of {name!r} can't be read: {error!r}") from error


def _with_letters(saved: Saved, letters: Letters) -> Saved:
    """Put the counts of dead letters beside a state; the rows themselves are not kept."""
    if letters.counts:
        saved.values[_LETTERS] = dict(letters.counts)
    return saved


def _put(saved: Saved, name: str, contents: dict[str, Content]) -> dict[str, Any]:
    for own, table in saved.tables.items():
        contents[f"{name}|table|{own}"] = table_bytes(table)
    for own, content in saved.strings.items():
        contents[f"{name}|bytes|{own}"] = content
    return saved.values


def _number(clock: float) -> Any:  # noqa: ANN401 - a number, or the word of an infinity
    return str(clock) if clock in (float("inf"), float("-inf")) else clock


def _digest(network: Network, boxes: Mapping[str, Box]) -> str:
    text = repr((network.streams, sorted(boxes.items())))
    text = re.sub(r" at 0x[0-9a-f]+>", ">", text)  # where a function is
    return blake2b(text.encode(), digest_size=16).hexdigest()
