"""A registry in a file, changed by chance: what the attacks on the registry share."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import everquery as eq
from everquery.registry.digests import digest_of, digest_of_stream

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price", "volume"])
PLAIN = eq.Stream("calls", attributes=["ms"])
EVENTS = pa.table(
    {
        "symbol": ["IBM", "AAPL", "IBM", "MSFT", "AAPL"] * 4,
        "ts": np.arange(20.0),
        "price": np.arange(20.0) * 5,
        "volume": np.arange(20.0)[::-1],
    }
)

NEW, READ, REFUSED = "new", "valid", "refused"
TABLES = {
    "everquery_changes": ("stream", "first", "count", "operation", "payload", "digest"),
    "everquery_bases": ("stream", "number", "operation", "payload", "digest"),
    "everquery_streams": ("name", "definition", "head", "base", "digest"),
}


def table(kind: str, n: int, prefix: str) -> pa.Table:
    """Return queries with all columns that there are."""
    low = np.arange(n, dtype=float)
    some = np.arange(n) % 3 == 0
    columns: dict[str, object] = {
        "id": [f"{prefix}{i}" for i in range(n)],
        "key": pa.array(["IBM", "AAPL", "MSFT"] * n, pa.string())[:n],
        "owner": pa.array([f"owner {i % 4}" for i in range(n)], mask=some),
        "labels": pa.array(['{"team": "fx"}', '{"a": "é", "b": "🎈"}'] * n, pa.string())[:n],
        "ttl": pa.array(np.arange(n) + 100, mask=some),
        "throttle": pa.array(np.arange(n) + 2.5, mask=~some),
    }
    if kind == "correlated":
        columns |= {"aggregate": ["sum", "count"] * n, "of": ["price", "volume"] * n}
        columns |= {"where": ["volume", "price"] * n, "compared": ["<=", "within"] * n}
        columns |= {"to": ["max", "avg"] * n, "factor": pa.array([None, 0.5] * n, pa.float64())}
        columns |= {"last": pa.array([100, None] * n, pa.int64()), "epsilon": [0.1, 0.0] * n}
        return pa.table({name: column[:n] for name, column in columns.items()})
    if kind == "silence":
        return pa.table({**columns, "after": np.arange(n) + 2.5})
    if kind == "window":
        columns |= {"statistic": ["sum", "mean"] * n, "attribute": ["price", "volume"] * n}
        columns |= {"last": pa.array([100, 7] * n, pa.int64()), "epsilon": [0.1, 0.0] * n}
        columns |= {"when_lo": pa.array([None, 3.0] * n, pa.float64())}
        return pa.table({name: column[:n] for name, column in columns.items()})
    if kind == "quantile":
        columns |= {"attribute": ["price", "volume"] * n, "phi": np.linspace(0.1, 1, n)}
        columns |= {"epsilon": np.full(n, 0.1), "last": pa.array([100, None] * n, pa.int64())[:n]}
        columns["attribute"] = columns["attribute"][:n]
    else:
        columns |= {"price_lo": low, "price_hi": pa.array(low + 20, mask=some)}
        columns |= {"volume_lo": pa.array(low - 50, mask=~some)}
    if kind == "threshold":
        columns |= {"total": np.arange(n) + 1, "repeat": ~some}
    if kind == "border":
        columns |= {"silent": some, "dwell": pa.array(np.arange(n) + 1, mask=some)}
    return pa.table(columns)


def fill(url: str) -> None:
    """Register queries of all kinds, in single, bulk and base rows."""
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register_table(table("border", 60, "base"), kind="border")
        engine.register_table(table("quantile", 12, "base q"), kind="quantile")
        engine.register(eq.Range("old", {"price": (3, 40)}))
        engine.pause("base3")
        engine.deregister("base4")
        engine.compact_registry()
        for kind in ("range", "border", "threshold", "quantile", "window", "correlated"):
            engine.register_table(table(kind, 25, f"{kind} "), kind=kind)
        engine.register(
            [
                eq.Range("r", {"price": (1, 50)}, key="IBM", owner="ann", labels={"team": "fx"}),
                eq.Border("b", {"price": eq.Interval(4, 50, closed="both")}, dwell=3, ttl=50.5),
                eq.Threshold("t", {"volume": (1, None)}, total=7, repeat=True),
                eq.Quantile("q", "price", phi=0.5, epsilon=0.1, last=50, by_key=True),
            ]
        )
        engine.deregister(["range 3", "b"])
        engine.register(eq.Border("b", {"volume": (None, 12)}, emit="enter"))
        engine.pause("range 4")
        engine.resume("range 4")
        engine.register(eq.Border("b", {"volume": (None, 9)}, key="IBM"), replace=True)
        changed = table("border", 25, "border ").set_column(1, "key", pa.array(["MSFT"] * 25))
        engine.register_table(changed, kind="border", on_conflict="replace")
        engine.sql("DROP STANDING QUERY r; ALTER STANDING QUERY q PAUSE")
        engine._log.registry.close()
    with eq.Engine(PLAIN, registry=url, create=True) as engine:
        engine.register(eq.Range("slow", {"ms": (100, None)}))
        engine._log.registry.close()


def fill_with(url: str, *kinds: str) -> None:
    """Register queries of few kinds, in single, bulk and base rows: less to read than of all."""
    first, *others = kinds
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register_table(table(first, 12, "base"), kind=first)
        engine.register(eq.Range("old", {"price": (3, 40)}))
        engine.pause("base3")
        engine.deregister("base4")
        engine.compact_registry()
        for kind in others:
            engine.register_table(table(kind, 10, f"{kind} "), kind=kind)
        engine.register(_SINGLE[first])
        engine.register(_SINGLE[others[0]])
        engine.deregister(["base5", f"{others[0]} 3"])
        changed = table(first, 6, "base").set_column(1, "key", pa.array(["MSFT"] * 6))
        engine.register_table(changed, kind=first, on_conflict="replace")
        engine.resume("base3")
        engine._log.registry.close()


_SINGLE = {
    "range": eq.Range("r", {"price": (1, 50)}, key="IBM", owner="ann", labels={"team": "fx"}),
    "border": eq.Border("b", {"price": eq.Interval(4, 50, closed="both")}, dwell=3, ttl=50.5),
    "threshold": eq.Threshold("t", {"volume": (1, None)}, total=7, repeat=True),
    "quantile": eq.Quantile("q", "price", phi=0.5, epsilon=0.1, last=50, by_key=True),
    "window": eq.Window("w", "sum", "price", last=50, epsilon=0.1, by_key=True),
    "silence": eq.Silence("s", after=3, keys=["IBM", "HAL"], owner="ann"),
    "correlated": eq.Correlated("c", "count", where="price", compared=">", to="avg", by_key=True),
}


def answers(url: str) -> tuple[pa.Table, pa.Table]:
    """Open a registry, look at its queries, and let events come."""
    with eq.Engine("trades", registry=url, read_only=True) as engine:
        queries = engine.queries()
        notices = engine.process(EVENTS).drop_columns(["notice_id"])
        engine._log.registry.close()
    return queries, notices


@dataclass
class Registry:
    """A registry that is there to be damaged.

    Attributes
    ----------
    path : its file
    expected : its queries and notices, as they are while it is whole
    forged : whether digests are made anew where rows are changed
    changed : whether anything was
    """

    path: Path
    expected: tuple[pa.Table, pa.Table]
    forged: bool = False
    changed: bool = False

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"


def make_registry() -> Registry:
    """Return a registry that is whole."""
    path = Path(tempfile.mkdtemp(prefix="everquery-attack-")) / "queries.db"
    fill(f"sqlite:///{path}")
    return Registry(path, answers(f"sqlite:///{path}"))


def make_registries() -> tuple[Registry, ...]:
    """Return one with everything, and small ones, which are read several times as fast."""
    whole = make_registry()
    found = [whole]
    for kinds in (
        ("border", "range"),
        ("quantile", "threshold"),
        ("silence", "border"),
        ("window", "range"),
        ("correlated", "range"),
    ):
        path = whole.path.with_name(f"{kinds[0]}.db")
        fill_with(f"sqlite:///{path}", *kinds)
        found.append(Registry(path, answers(f"sqlite:///{path}")))
    return tuple(found)


def copied(registry: Registry, *, forged: bool) -> Registry:
    """Return a copy that may be changed."""
    path = registry.path.with_name("changed.db")
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copy(registry.path, path)
    return Registry(path, registry.expected, forged, changed=True)


def change(registry: Registry, chance: random.Random) -> None:
    """Change the rows of a registry: bits, cuts, places, numbers, or whole rows."""
    connection = sqlite3.connect(registry.path)
    try:
        for _ in range(chance.choice((1, 1, 1, 2))):
            # A second change may find nothing left to change.
            with contextlib.suppress(sqlite3.Error, pa.ArrowException, OSError, IndexError):
                _ONE_OF[chance.randrange(len(_ONE_OF))](connection, chance, registry.forged)
        connection.commit()
    finally:
        connection.close()


def _pick(connection, chance, *, every: bool = False):
    """Return a table, its columns, and one of its rows."""
    name = chance.choice([*TABLES] if every else ["everquery_changes"] * 2 + ["everquery_bases"])
    columns = TABLES[name]
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {name}").fetchall()
    return name, columns, dict(zip(columns, chance.choice(rows), strict=True))


def _place(name: str, row) -> tuple[str, tuple]:
    keys = TABLES[name][:1] if name == "everquery_streams" else TABLES[name][:2]
    return " AND ".join(f"{key} = ?" for key in keys), tuple(row[key] for key in keys)


def _write(connection, name: str, old, new, *, forged: bool) -> None:
    if forged:
        new = {**new, "digest": digest(connection, name, new)}
    where, at = _place(name, old)
    connection.execute(f"DELETE FROM {name} WHERE {where}", at)
    marks = ", ".join("?" * len(new))
    connection.execute(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", tuple(new.values()))


def digest(connection, name: str, row) -> bytes:
    """Return the digest that a row should have."""
    try:
        if name == "everquery_streams":
            return digest_of_stream(row["name"], row["definition"])
        if name == "everquery_changes":
            place = row["first"], 0, row["count"]
        else:
            base = connection.execute(
                "SELECT base FROM everquery_streams WHERE name = ?", (row["stream"],)
            ).fetchone()
            place = base[0] if base else 0, row["number"], 0
        return digest_of(row["stream"], *place, row["operation"], row["payload"])
    except (TypeError, AttributeError, UnicodeError):
        return b""


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with one to three flipped bits."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _flip(connection, chance, forged):
    name, _, row = _pick(connection, chance)
    _write(
        connection, name, row, {**row, "payload": flipped(row["payload"], chance)}, forged=forged
    )


def _flip_columns(connection, chance, forged):
    """Flip bits of the columns under the compression: most other flips break that already."""
    name, _, row = _pick(connection, chance)
    if row["operation"] != "register blocks":
        _flip(connection, chance, forged)
        return
    payload = repacked(row["payload"], lambda plain: flipped(plain, chance))
    _write(connection, name, row, {**row, "payload": payload}, forged=forged)


def repacked(payload: bytes, changed) -> bytes:
    """Return a payload whose parts, without their compression, are changed."""
    count = int.from_bytes(payload[:4], "little")
    at, sizes, parts = 4 + 16 * count, [], []
    for i in range(count):
        packed, plain = np.frombuffer(payload, "<u8", 2, 4 + 16 * i).tolist()
        whole = pa.decompress(
            payload[at : at + packed], decompressed_size=plain, codec="lz4", asbytes=True
        )
        at += packed
        new = changed(whole)
        parts.append(pa.compress(new, codec="lz4", asbytes=True))
        sizes.append(np.array([len(parts[-1]), len(new)], "<u8").tobytes())
    return b"".join((payload[:4], *sizes, *parts))


def _cut(connection, chance, forged):
    name, _, row = _pick(connection, chance)
    size = chance.randrange(max(len(row["payload"]), 1))
    _write(connection, name, row, {**row, "payload": row["payload"][:size]}, forged=forged)


def _overwrite(connection, chance, forged):
    """Put eight bytes that mean a large number, or none, somewhere."""
    name, _, row = _pick(connection, chance)
    value = chance.choice((0, 1, 2**31 - 1, 2**32 - 1, 10**11, 2**62, 2**63, 2**64 - 1))
    size = chance.choice((1, 2, 4, 8))

    def changed(data: bytes) -> bytes:
        at = chance.randrange(max(len(data) - size, 1))
        return data[:at] + value.to_bytes(8, "little")[:size] + data[at + size :]

    payload = row["payload"]
    bulk = row["operation"] == "register blocks" and chance.random() < 0.7
    payload = repacked(payload, changed) if bulk else changed(payload)
    _write(connection, name, row, {**row, "payload": payload}, forged=forged)


def _swap(connection, chance, forged):
    name, columns, row = _pick(connection, chance)
    other = dict(zip(columns, chance.choice(
        connection.execute(f"SELECT {', '.join(columns)} FROM {name}").fetchall()
    ), strict=True))  # fmt: skip
    for old, new in ((row, other), (other, row)):
        moved = {each: new[each] for each in ("operation", "payload", "digest")}
        _write(connection, name, old, {**old, **moved}, forged=forged)


def _duplicate(connection, chance, forged):
    name, columns, row = _pick(connection, chance)
    key = columns[1]
    step = chance.choice((-1, 1, 2, 7, 1_000, 2**40))
    moved = {**row, key: row[key] + step if isinstance(row[key], int) else step}
    if forged:
        moved["digest"] = digest(connection, name, moved)
    marks = ", ".join("?" * len(moved))
    connection.execute(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", tuple(moved.values()))


def _delete(connection, chance, forged):
    name, _, row = _pick(connection, chance, every=True)
    where, at = _place(name, row)
    connection.execute(f"DELETE FROM {name} WHERE {where}", at)


def _number(connection, chance, forged):
    """Put something else where a number or a text is kept."""
    name, columns, row = _pick(connection, chance, every=True)
    column = chance.choice([each for each in columns if each not in ("payload", "digest")])
    value = chance.choice((-1, 0, 1, 3, 2**31, 2**62, -(2**63), "12", "x", "", 1.5, b"\xff", "\0é"))
    _write(connection, name, row, {**row, column: value}, forged=forged)


def _drop_table(connection, chance, forged):
    name = chance.choice([*TABLES, "everquery_meta", "everquery_quotas", "everquery_readers"])
    connection.execute(f"DROP TABLE IF EXISTS {name}")


def _definition(connection, chance, forged):
    rows = connection.execute("SELECT * FROM everquery_streams").fetchall()
    row = dict(zip(TABLES["everquery_streams"], chance.choice(rows), strict=True))
    text = flipped(str(row["definition"]).encode(), chance).decode(errors="replace")
    _write(connection, "everquery_streams", row, {**row, "definition": text}, forged=forged)


_ONE_OF = (
    *(_flip,) * 4, *(_flip_columns,) * 6, _cut, *(_overwrite,) * 4, _swap, _duplicate, _delete,
    _number, _number, _drop_table, _definition,
)  # fmt: skip
