"""Snapshots of all that an engine can know, ways to forge them, and what is done with the forged.

A forged snapshot has a checksum that fits, as if somebody had written it with our own tools.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from zlib import crc32

import numpy as np
import pyarrow as pa

import everquery as eq
from everquery.errors import EverqueryError, SnapshotError

STREAMS = (
    eq.Stream(
        "trades", key="symbol", time="ts", attributes=["price", "volume"], weight="n", grace=5,
        expire_after=40,
    ),
    eq.Stream("calls", key="caller", time="at", attributes=["ms"], grace=timedelta(seconds=2)),
    eq.Stream("plain", attributes=["x", "y", "z"]),
    eq.Stream("rows", time="t", attributes=["v"], weight="w"),
)  # fmt: skip


LATER = (10**9, datetime(2100, 1, 1, tzinfo=UTC), 10**9, 10**9)  # times of the streams


@dataclass(frozen=True)
class Snapshot:
    """A snapshot, perhaps a forged one.

    Attributes
    ----------
    which : the place of its stream in `STREAMS`
    genuine : whether an engine wrote it
    """

    which: int
    content: bytes
    genuine: bool = True


@dataclass(frozen=True)
class Snapshots:
    all: tuple[Snapshot, ...]


def make_snapshots() -> Snapshots:
    """Return a snapshot of each stream, taken in the middle of everything."""
    return Snapshots(tuple(Snapshot(i, engine(i).snapshot()) for i in range(len(STREAMS))))


# -- engines ---------------------------------------------------------------------------------------


def queries(which: int, tag: str) -> list[eq.Query]:
    """Return queries of all kinds that fit a stream."""
    stream = STREAMS[which]
    a = stream.attributes[0]
    key = {0: "IBM", 1: 7}.get(which)
    found: list[eq.Query] = [
        eq.Range(f"{tag} range", {a: (10, 20)}, owner="ann", labels={"team": "fx"}),
        eq.Range(f"{tag} all", {a: (None, None)}, key=key),
        eq.Border(f"{tag} border", {a: (12, 18)}, emit=("enter",)),
        eq.Threshold(f"{tag} total", {a: (0, 30)}, total=10_000, owner="bob"),
        eq.Threshold(f"{tag} count", {a: (5, 25)}, total=7, repeat=True, count=True, key=key),
        eq.Quantile(f"{tag} median", a, phi=0.5, epsilon=0.05),
        eq.Quantile(f"{tag} ends", a, phi=[0.01, 0.99], epsilon=0.02, key=key),
        eq.Quantile(f"{tag} latest", a, phi=0.9, epsilon=0.1, last=50),
        eq.Quantile(f"{tag} long", a, phi=0.3, epsilon=0.02, last=20_000),
    ]
    if stream.key is not None:
        found.append(eq.Quantile(f"{tag} each", a, phi=0.5, epsilon=0.05, by_key=True))
        found.append(eq.Border(f"{tag} one", {a: (11, 19)}, key=key, silent=True))
        found.append(eq.Threshold(f"{tag} each total", {a: (0, 30)}, total=50, by_key=True))
    if stream.time is not None:
        span = timedelta(seconds=3) if which == 1 else 3
        found.append(eq.Border(f"{tag} dwell", {a: (10, 20)}, dwell=span, throttle=span, ttl=span))
        found.append(eq.Border(f"{tag} lasting", {a: (8, 22)}, dwell=span, throttle=span * 3))
        found.append(eq.Range(f"{tag} seldom", {a: (0, 40)}, throttle=span * 4, owner="ann"))
        found.append(eq.Threshold(f"{tag} few", {}, total=3, repeat=True, throttle=span * 4))
        found.append(eq.Threshold(f"{tag} again", {}, total=4, every=span * 5))
    if len(stream.attributes) > 1:
        box = dict.fromkeys(stream.attributes, (5, 25))
        found += [cls(f"{tag} {cls.kind} box", box) for cls in (eq.Range, eq.Border)]
        found.append(eq.Threshold(f"{tag} box total", box, total=500))
    return found


def batch(which: int, first: int, n: int, seed: int, *, bad: bool = False) -> pa.Table:
    """Return events of a stream, some of them out of order."""
    stream, rng = STREAMS[which], np.random.default_rng(seed)
    columns: dict[str, object] = {}
    if stream.key is not None:
        keys = rng.integers(0, 6, n)
        names = np.array(["IBM", "AAPL", "é", "", "MSFT", "new"])
        columns[stream.key] = pa.array(names[keys] if which == 0 else keys * 7)
    if stream.time is not None:
        time = first + np.arange(n) // 4 + rng.integers(0, 3, n)
        if which == 1:
            columns[stream.time] = pa.array(time * 10**6, pa.timestamp("us", "UTC"))
        else:
            columns[stream.time] = time.astype(float) if which == 3 else time
    for name in stream.attributes:
        columns[name] = np.round(rng.normal(15, 4, n), 3)
    if stream.weight is not None:
        columns[stream.weight] = rng.integers(1, 9, n)
    if bad:
        a = stream.attributes[0]
        columns[a] = pa.array([None, math.nan, *columns[a][2:]], pa.float64(), from_pandas=False)
    return pa.table(columns)


def engine(which: int) -> eq.Engine:
    """Return an engine in the middle of everything."""
    found = eq.Engine(STREAMS[which])
    found.set_quota("ann", 100)
    found.set_quota(None, 1_000)
    found.register(queries(which, "old"))
    found.process(batch(which, 0, 60, 1, bad=True))
    if which == 3:
        found.process(batch(which, 0, 2_500, 2))
    found.register(queries(which, "new"))
    found.process(batch(which, 12, 60, 3))
    found.process(batch(which, 10, 8, 4))  # late
    found.deregister(["old range", "new median"])
    found.pause(["old border", "old count", "new ends"])
    found.process(batch(which, 30, 40, 5))
    found.resume("old border")
    changed = [eq.Border("new border", {STREAMS[which].attributes[0]: (13, 19)})]
    if STREAMS[which].time is not None:
        changed.append(eq.Border("new lasting", {}, key={0: "IBM", 1: 7}.get(which)))
    found.register(changed, replace=True)
    found.register(
        [eq.Range("fresh", {}), eq.Border("fresher", {STREAMS[which].attributes[0]: (9, 16)})]
    )
    return found


def forged_with(content: bytes) -> bytes:
    """Return a header's length, the header and arrays behind a checksum that fits."""
    end = 8 + int.from_bytes(content[:8], "little")
    return blake2b(content[:end], digest_size=16).digest() + content


# -- forging ---------------------------------------------------------------------------------------


def parts_of(snapshot: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Return header and arrays, without a look at whether they are right."""
    at = 24 + int.from_bytes(snapshot[16:24], "little")
    header = json.loads(snapshot[24:at])
    arrays = {}
    for name, kind, shape in header.pop("arrays"):
        at += -at % 8
        kind = "|u1" if kind == "bytes" else kind
        flat = np.frombuffer(snapshot[at:], np.uint8)[: math.prod(shape) * np.dtype(kind).itemsize]
        at += flat.size
        arrays[name] = flat.copy().view(kind).reshape(shape)
    return header, arrays


STRINGS = ("keys.time_type", "letters.kept")


def joined(header: dict, arrays: dict[str, np.ndarray], listed: list | None = None) -> bytes:
    """Return header and arrays as a snapshot; `listed` is what the header says of the arrays."""
    if listed is None:
        listed = listing(arrays)
    bodies = [array.tobytes() for array in arrays.values()]
    sums = [crc32(body) for body in bodies]
    text = json.dumps({**header, "arrays": listed, "sums": sums}, sort_keys=True).encode()
    content = len(text).to_bytes(8, "little") + text
    for body in bodies:
        content += bytes(-(16 + len(content)) % 8) + body
    return forged_with(content)


def listing(arrays: dict[str, np.ndarray]) -> list:
    """Return what a header says of arrays."""
    return [
        [name, "bytes" if name in STRINGS else array.dtype.str, list(array.shape)]
        for name, array in arrays.items()
    ]


def forge(snapshots: Snapshots, chance: random.Random) -> Snapshots:
    """Return one of the snapshots with one to three changes."""
    chosen = chance.choice(snapshots.all)
    content = chosen.content
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        try:
            content = chance.choice(_WAYS)(content, chance)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, SyntaxError):
            break  # what an earlier change left can't be read any more
    return Snapshots((Snapshot(chosen.which, content, genuine=False),))


def _flip(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    names = [name for name, array in arrays.items() if array.size]
    for _ in range(chance.randrange(1, 4)):
        flat = arrays[chance.choice(names)].reshape(-1).view(np.uint8)
        flat[chance.randrange(flat.size)] ^= 1 << chance.randrange(8)
    return joined(header, arrays)


def _flip_header(snapshot: bytes, chance: random.Random) -> bytes:
    content = bytearray(snapshot[16:])
    size = 8 + int.from_bytes(content[:8], "little")
    content[chance.randrange(size)] ^= 1 << chance.randrange(8)
    return forged_with(bytes(content))


def _cut(snapshot: bytes, chance: random.Random) -> bytes:
    content = snapshot[16:]
    kept = chance.choice((chance.randrange(len(content)), len(content) - 1, 8, 0))
    return forged_with(content[:kept])


def _append(snapshot: bytes, chance: random.Random) -> bytes:
    return forged_with(snapshot[16:] + bytes(chance.choice((1, 8, 4_096))))


_WHOLE = (
    0,
    1,
    2,
    3,
    7,
    -1,
    -2,
    255,
    2**31 - 1,
    -(2**31),
    10**12,
    2**53,
    2**62,
    2**63 - 1,
    -(2**63),
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-320, 1e308, -1e308, math.inf, -math.inf, math.nan, 0.5, 1e18)


def _extremes(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    name = chance.choice([name for name, array in arrays.items() if array.size])
    array = arrays[name].reshape(-1)
    places = [chance.randrange(array.size) for _ in range(chance.choice((1, 1, 3, array.size)))]
    for place in places:
        if array.dtype.kind == "f":
            array[place] = chance.choice(_FLOATS)
        else:
            near = int(array[place]) + chance.choice((-1, 1, 8))
            value = chance.choice((*_WHOLE, near, near, array.size))
            array[place] = np.array([value % 2**64], np.uint64).astype(array.dtype)[0]
    return joined(header, arrays)


def _listed(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    listed = listing(arrays)
    entry = chance.choice(listed)
    what = chance.randrange(4)
    if what == 0:
        entry[1] = chance.choice(
            ("<i4", "<i8", "<f8", "|u1", "<u8", "|O", "<U4", "|S8", "<m8[s]", "|b1", "<f4", ">i8",
             "<c16", "bytes", "|V8", "[('a', '<i8')]", "", 7, None)
        )  # fmt: skip
    elif what == 1:
        entry[2] = chance.choice(
            ([], [0], [-1], [2**40], [2**62, 4], [2, 2], [1] * 70, None, "x", [None], [1.5], [True],
             [entry[2][0] + 1], [entry[2][0] - 1], entry[2][::-1], [*entry[2], 1], [0, 2**62])
        )  # fmt: skip
    elif what == 2:
        other = chance.choice(listed)[0]
        entry[0] = chance.choice(
            (other, "", None, 3, "quantile.feed a b c d", "queries.rows99.slot", "future.x")
        )
    else:
        del entry[chance.randrange(3)]
    return joined(header, arrays, listed)


def _swap(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    one, other = chance.sample(list(arrays), 2)
    same = [name for name in arrays if arrays[name].dtype == arrays[one].dtype and name != one]
    if same and chance.random() < 0.7:
        other = chance.choice(same)
    arrays[one], arrays[other] = arrays[other], arrays[one]
    return joined(header, arrays)


def _resize(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    name = chance.choice(list(arrays))
    array = arrays[name]
    size = array.shape[-1]
    kept = chance.choice((0, max(size - 1, 0), size // 2, size + 1, 2 * size))
    arrays[name] = np.resize(array, (*array.shape[:-1], kept))
    return joined(header, arrays)


def _shuffle(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    name = chance.choice(list(arrays))
    np.random.default_rng(chance.randrange(2**32)).shuffle(
        arrays[name], axis=-1 % max(arrays[name].ndim, 1)
    )
    return joined(header, arrays)


def _drop(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    name = chance.choice(list(arrays))
    if chance.random() < 0.5:
        prefix = name.rsplit(".", 1)[0]
        arrays = {each: array for each, array in arrays.items() if not each.startswith(prefix)}
    else:
        del arrays[name]
    return joined(header, arrays)


_VALUES = (
    None, True, False, 0, 1, -1, 2**31, 2**62, 2**63, 2**64, -(2**63), 10**400, 1.5, math.nan,
    math.inf, "", "x", "\ud800", "string", "int64", "null", "range", "quantile", [], [1], [[]],
    {}, {"a": 1}, [["ann", 1]], [[None, -1]], [7, 7, 7],
)  # fmt: skip


def _field(snapshot: bytes, chance: random.Random) -> bytes:
    """Change something in the header, however deep."""
    header, arrays = parts_of(snapshot)
    at, key = header, chance.choice(list(header))
    while isinstance(at[key], (dict, list)) and at[key] and chance.random() < 0.8:
        at = at[key]
        key = chance.choice(list(at)) if isinstance(at, dict) else chance.randrange(len(at))
    if chance.random() < 0.15:
        del at[key]
    else:
        at[key] = chance.choice(_VALUES)
    return joined(header, arrays)


def _nest(snapshot: bytes, chance: random.Random) -> bytes:
    deep = b"[" * chance.choice((10, 900, 100_000, 2_000_000))
    text = chance.choice(
        (
            deep,
            b'{"a":' * 100_000,
            b'{"format": "everquery-frame", "version": 1}',
            b"null",
            b"[]",
            b"\xff",
        )
    )
    return forged_with(len(text).to_bytes(8, "little") + text)


_WAYS = (
    _flip, _flip, _flip_header, _flip_header, _cut, _append, *(_extremes,) * 10, *(_listed,) * 3,
    _swap, _swap, *(_resize,) * 3, _shuffle, _shuffle, _drop, *(_field,) * 4, _nest,
)  # fmt: skip


# -- what is done with it --------------------------------------------------------------------------


def judge(snapshots: Snapshots) -> str:
    """Restore, and if that works use the engine; anything but an error of ours is raised."""
    words = {_judge_one(snapshot) for snapshot in snapshots.all}
    return words.pop() if len(words) == 1 else "several"


def _judge_one(snapshot: Snapshot) -> str:
    restored = eq.Engine(STREAMS[snapshot.which])
    restored.register(eq.Range("here before", {}))
    before = restored.queries()
    try:
        restored.restore(snapshot.content)
    except SnapshotError:
        if snapshot.genuine:
            raise
        assert restored.queries().equals(before)
        return "refused"
    use(restored, snapshot)
    return "restored"


def use(restored: eq.Engine, snapshot: Snapshot) -> None:
    """Do something of everything."""
    which = snapshot.which
    steps = (
        restored.stats,
        restored.queries,
        lambda: restored.dead_letters().validate(full=True),
        lambda: restored.process(batch(which, 31, 30, 6)).validate(full=True),
        lambda: restored.register(queries(which, "later")),
        lambda: restored.process(batch(which, 33, 50, 7, bad=True)).validate(full=True),
        lambda: [restored.explain(each) for each in restored.queries()["id"].to_pylist()],
        lambda: restored.pause(["new border", "old median", "fresh"]),
        lambda: restored.deregister(["new total", "old ends", "new latest"]),
        lambda: restored.process(batch(which, 200, 30, 8)).validate(full=True),
        lambda: restored.resume(["fresh", "old count", "old border", "old median"]),
        lambda: restored.answer("old long"),
        lambda: restored.progress("old total"),
        lambda: restored.expire(["IBM", "é"] if which == 0 else [7, 14]).validate(full=True),
        lambda: restored.advance(LATER[which]).validate(full=True),
        lambda: restored.flush().validate(full=True),
    )
    for step in steps:
        try:
            step()
        except EverqueryError:
            if snapshot.genuine and STREAMS[which].key is not None:
                raise
    again = eq.Engine(STREAMS[which])
    again.restore(restored.snapshot())
    assert again.queries().equals(restored.queries())
    try:
        again.process(batch(which, 10**9, 20, 9)).validate(full=True)
        again.deregister(again.queries()["id"].to_pylist())
        again.process(batch(which, 10**9, 20, 10)).validate(full=True)
    except EverqueryError:
        if snapshot.genuine:
            raise
