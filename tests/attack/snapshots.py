"""Snapshots of all that an engine can know, and what is done with forged ones.

A forged snapshot has a checksum that fits, as if somebody had written it with our own tools.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial

import numpy as np
import pyarrow as pa

import everquery as eq
from everquery.errors import EverqueryError, SnapshotError
from tests.attack.forging import WAYS
from tests.attack.untouched import Untouched

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


EVERY = ("range", "border", "threshold", "quantile", "silence", "window", "correlated")
# All kinds at once, and few at a time: those are restored and used several times as fast.
KINDS = (
    EVERY,
    ("range", "border"),
    ("threshold",),
    ("quantile",),
    ("border", "silence"),
    ("window",),
    ("correlated",),
)


@dataclass(frozen=True)
class Snapshot:
    """A snapshot, perhaps a forged one.

    Attributes
    ----------
    which : the place of its stream in `STREAMS`
    kinds : those of its queries
    genuine : whether an engine wrote it
    """

    which: int
    kinds: tuple[str, ...]
    content: bytes
    genuine: bool = True


@dataclass(frozen=True)
class Snapshots:
    all: tuple[Snapshot, ...]


def make_snapshots() -> Snapshots:
    """Return snapshots of each stream in the middle of everything; first those of all kinds."""
    return Snapshots(
        tuple(
            Snapshot(i, kinds, engine(i, kinds).snapshot())
            for kinds in KINDS
            for i in range(len(STREAMS))
        )
    )


# -- engines ---------------------------------------------------------------------------------------


def queries(which: int, tag: str, kinds: tuple[str, ...] = EVERY) -> list[eq.Query]:
    """Return queries of some kinds that fit a stream."""
    return [query for query in _of_all_kinds(which, tag) if query.kind in kinds]


def ids_of(which: int, kinds: tuple[str, ...], *ids: str) -> list[str]:
    """Return those of the ids that queries of these kinds have."""
    tags = ("old", "new", "later")
    known = {query.id for tag in tags for query in queries(which, tag, kinds)}
    return [each for each in ids if each in known or each == "fresh"]


@cache
def _of_all_kinds(which: int, tag: str) -> list[eq.Query]:
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
        eq.Window(f"{tag} sum", "sum", a, last=20),
        eq.Window(f"{tag} mean", "mean", a, box={a: (5, 25)}, last=50, epsilon=0.1, key=key),
        eq.Window(f"{tag} least", "min", a, last=30, when=(10, 15)),
        eq.Window(f"{tag} kinds", "distinct", a, last=1_000, epsilon=0.5),
        eq.Window(f"{tag} size", "l1", a, per=a, last=1_000, epsilon=0.5),
        eq.Window(f"{tag} length", "l2", a, per=a, last=2_000, epsilon=0.9),
    ]
    found += _correlated(which, tag)
    if stream.key is not None:
        found.append(eq.Quantile(f"{tag} each", a, phi=0.5, epsilon=0.05, by_key=True))
        found.append(eq.Window(f"{tag} each kind", "distinct", a, last=10, by_key=True))
        found.append(eq.Border(f"{tag} one", {a: (11, 19)}, key=key, silent=True))
        found.append(eq.Threshold(f"{tag} each total", {a: (0, 30)}, total=50, by_key=True))
        names = ["IBM", "nobody"] if which == 0 else [7, 8]
        after = timedelta(seconds=4) if which == 1 else 4
        found.append(eq.Silence(f"{tag} two gone", after=after, keys=names))
    if stream.time is not None:
        span = timedelta(seconds=3) if which == 1 else 3
        found.append(eq.Border(f"{tag} dwell", {a: (10, 20)}, dwell=span, throttle=span, ttl=span))
        found.append(eq.Border(f"{tag} lasting", {a: (8, 22)}, dwell=span, throttle=span * 3))
        found.append(eq.Range(f"{tag} seldom", {a: (0, 40)}, throttle=span * 4, owner="ann"))
        found.append(eq.Threshold(f"{tag} few", {}, total=3, repeat=True, throttle=span * 4))
        found.append(eq.Threshold(f"{tag} again", {}, total=4, every=span * 5))
        found.append(eq.Silence(f"{tag} gone", after=span, owner="bob"))
        found.append(eq.Window(f"{tag} timed", "count", span=span * 3))
        found.append(eq.Window(f"{tag} spread", "variance", a, span=span * 5, epsilon=0.2))
        found.append(eq.Window(f"{tag} often", "max", a, span=span * 4, every=span, owner="ann"))
        found.append(eq.Silence(f"{tag} seldom gone", after=span * 2, throttle=span * 9, ttl=span))
    if len(stream.attributes) > 1:
        box = dict.fromkeys(stream.attributes, (5, 25))
        found += [cls(f"{tag} {cls.kind} box", box) for cls in (eq.Range, eq.Border)]
        found.append(eq.Threshold(f"{tag} box total", box, total=500))
    return found


def _correlated(which: int, tag: str) -> list[eq.Query]:
    stream = STREAMS[which]
    ends = {"of": stream.attributes[-1], "where": stream.attributes[0], "compared": "<="}
    found: list[eq.Query] = [
        eq.Correlated(f"{tag} sum to min", "sum", to="min", factor=1.5, **ends),
        eq.Correlated(f"{tag} rows", "avg", to="max", last=20, epsilon=0, **ends),
        eq.Correlated(f"{tag} blocks", "count", to="avg", last=30, when=(3, 9), **ends),
    ]
    if stream.key is not None:
        found.append(
            eq.Correlated(f"{tag} each sum", "sum", to="avg", by_key=True, epsilon=0, **ends)
        )
    if stream.time is not None:
        span = timedelta(seconds=9) if which == 1 else 9
        found.append(eq.Correlated(f"{tag} timed count", "count", to="avg", span=span, **ends))
        found.append(eq.Correlated(f"{tag} kept", "sum", to="avg", span=span, epsilon=0, **ends))
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


def engine(which: int, kinds: tuple[str, ...] = EVERY) -> eq.Engine:
    """Return an engine in the middle of everything."""
    found = eq.Engine(STREAMS[which])
    found.set_quota("ann", 100)
    found.set_quota(None, 1_000)
    found.register(queries(which, "old", kinds))
    found.process(batch(which, 0, 60, 1, bad=True))
    if which == 3:
        found.process(batch(which, 0, 2_500, 2))
    found.register(queries(which, "new", kinds))
    found.process(batch(which, 12, 60, 3))
    found.process(batch(which, 10, 8, 4))  # late
    found.deregister(ids_of(which, kinds, "old range", "new median"))
    found.pause(ids_of(which, kinds, "old border", "old count", "new ends", "old gone"))
    found.process(batch(which, 30, 40, 5))
    found.resume(ids_of(which, kinds, "old border"))
    changed = [eq.Border("new border", {STREAMS[which].attributes[0]: (13, 19)})]
    if STREAMS[which].time is not None:
        changed.append(eq.Border("new lasting", {}, key={0: "IBM", 1: 7}.get(which)))
    if "border" in kinds:
        found.register(changed, replace=True)
        found.register(eq.Border("fresher", {STREAMS[which].attributes[0]: (9, 16)}))
    found.register(eq.Range("fresh", {}))
    return found


def forge(snapshots: Snapshots, chance: random.Random) -> Snapshots:
    """Return one of the snapshots with one to three changes."""
    chosen = chance.choice(snapshots.all)
    content = chosen.content
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        try:
            content = chance.choice(WAYS)(content, chance)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, SyntaxError):
            break  # what an earlier change left can't be read any more
    return Snapshots((Snapshot(chosen.which, chosen.kinds, content, genuine=False),))


# -- what is done with it --------------------------------------------------------------------------


def judge(snapshots: Snapshots) -> str:
    """Restore, and if that works use the engine; anything but an error of ours is raised."""
    words = {_judge_one(snapshot) for snapshot in snapshots.all}
    return words.pop() if len(words) == 1 else "several"


def _judge_one(snapshot: Snapshot) -> str:
    engines = _ENGINES[snapshot.which]
    restored = engines.take()
    try:
        restored.restore(snapshot.content)
    except SnapshotError:
        if snapshot.genuine:
            raise
        assert engines.is_as_it_was(restored)
        return "refused"
    use(restored, snapshot)
    return "restored"


def _with_a_query(stream: eq.Stream) -> eq.Engine:
    found = eq.Engine(stream)
    found.register(eq.Range("here before", {}))
    return found


_ENGINES = [Untouched(partial(_with_a_query, stream)) for stream in STREAMS]
_AGAIN = [eq.Engine(stream) for stream in STREAMS]


def use(restored: eq.Engine, snapshot: Snapshot) -> None:
    """Do something of everything."""
    which = snapshot.which
    some = partial(ids_of, which, snapshot.kinds)
    steps = (
        restored.stats,
        lambda: restored.queries().validate(full=True),
        lambda: restored.dead_letters().validate(full=True),
        lambda: restored.process(batch(which, 31, 30, 6)).validate(full=True),
        lambda: restored.register(queries(which, "later", snapshot.kinds)),
        lambda: restored.process(batch(which, 33, 50, 7, bad=True)).validate(full=True),
        lambda: [restored.explain(each) for each in restored.queries()["id"].to_pylist()],
        lambda: restored.pause(some("new border", "old median", "fresh", "new gone")),
        lambda: restored.deregister(some("new total", "old ends", "new latest", "new two gone")),
        lambda: restored.process(batch(which, 200, 30, 8)).validate(full=True),
        lambda: restored.resume(some("fresh", "old count", "old border", "old median", "old gone")),
        lambda: [restored.answer(each) for each in some("old long", "old kinds", "new size")],
        lambda: [restored.answer(each) for each in some("old length", "new length")],
        lambda: [restored.progress(each) for each in some("old total")],
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
    again = _AGAIN[which]
    again.restore(restored.snapshot())
    assert again.queries().equals(restored.queries())
    try:
        again.process(batch(which, 10**9, 20, 9)).validate(full=True)
        again.deregister(again.queries()["id"].to_pylist())
        again.process(batch(which, 10**9, 20, 10)).validate(full=True)
    except EverqueryError:
        if snapshot.genuine:
            raise
