"""Files of events and queries in all formats, ways to damage them, and what is done with them."""

from __future__ import annotations

import io
import json
import random
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

import everquery as eq
from everquery.errors import EverqueryError
from everquery.sources.files import EventFile
from everquery.sources.query_files import read_queries
from tests.attack.untouched import Untouched

STREAM = eq.Stream(
    "trades", key="symbol", time="ts", attributes=["price", "volume"], weight="n", grace=5
)
KINDS = ("range", "border", "threshold", "quantile", "silence", "window", "correlated")
TEXTS = (".csv", ".jsonl", ".json")


@dataclass(frozen=True)
class Damaged:
    """A file, perhaps a damaged one.

    Attributes
    ----------
    suffix : of its name
    kind : the kind of its queries; empty for events
    """

    suffix: str
    kind: str
    content: bytes
    genuine: bool = True


@dataclass(frozen=True)
class Files:
    all: tuple[Damaged, ...]


def make_events() -> Files:
    """Return events in all formats."""
    table = events()
    for late in (pc.multiply(table["ts"], 100), pc.multiply(table["ts"], 100.0)):
        # What damage may bring: silences that are told, and times that are no integers.
        others = _in_formats(table.set_column(1, "ts", late))
        _read_once(Files(tuple(Damaged(suffix, "", content) for suffix, content in others)))
    genuine = (Damaged(suffix, "", content) for suffix, content in _in_formats(table))
    return _read_once(Files(tuple(genuine)))


def make_queries() -> Files:
    """Return tables of queries of all kinds in all formats that they load from."""
    genuine = (
        Damaged(suffix, kind, content)
        for kind in KINDS
        for suffix, content in _in_formats(queries(kind))
        if not suffix.startswith(".json")
    )
    return _read_once(Files(tuple(genuine)))


def _read_once(files: Files) -> Files:
    """Judge files as they are: loops that it takes are compiled now, and not within a judgement."""
    assert judge(files) == "read"
    return files


def events() -> pa.Table:
    n, rng = 60, np.random.default_rng(1)
    names = np.array(["IBM", "AAPL", "é", "MSFT"])[rng.integers(0, 4, n)]
    return pa.table(
        {
            "symbol": pa.array([*names[:-1], None]),
            "ts": pa.array(np.arange(n) // 2),
            "price": pa.array([None, *np.round(rng.normal(15, 4, n - 1), 2)]),
            "volume": pa.array(np.round(rng.normal(15, 4, n), 2)),
            "n": pa.array(rng.integers(1, 9, n)),
        }
    )


def queries(kind: str) -> pa.Table:
    n, rng = 20, np.random.default_rng(2)
    columns: dict[str, object] = {
        "id": [f"q {i}" for i in range(n)],
        "key": [None, "IBM", "é", "AAPL"] * (n // 4),
        "owner": ["ann", "bob"] * (n // 2),
        "labels": ['{"team": "fx"}', None] * (n // 2),
        "ttl": [None, 50, 70, 1_000] * (n // 4),
    }
    if kind == "correlated":
        columns |= {"aggregate": ["sum", "count", "avg", "count"] * (n // 4), "of": ["volume"] * n}
        columns |= {"where": ["price"] * n, "compared": ["<=", ">", "within", ">="] * (n // 4)}
        columns |= {"to": ["min", "avg"] * (n // 2), "factor": [1.5, None] * (n // 2)}
        columns |= {"last": [20, None] * (n // 2), "span": [None, 30] * (n // 2)}
        columns |= {"epsilon": [0.1, None, 0.0, 0.5] * (n // 4), "when_lo": [None, 3.0] * (n // 2)}
        return pa.table(columns)
    if kind == "quantile":
        columns |= {"attribute": ["price", "volume"] * (n // 2), "phi": [0.5] * n}
        columns |= {"epsilon": [0.02] * n, "last": [None, 100, 5_000, None] * (n // 4)}
        return pa.table(columns)
    if kind == "silence":
        columns |= {"after": [5, 30] * (n // 2), "throttle": [None, 40] * (n // 2)}
        return pa.table(columns)
    if kind == "window":
        columns |= {"statistic": ["sum", "count", "max", "variance"] * (n // 4)}
        columns |= {"attribute": ["price", None, "volume", "price"] * (n // 4)}
        columns |= {"last": [20, None] * (n // 2), "span": [None, 30] * (n // 2)}
        columns |= {"epsilon": [0.1, None, 0.0, 0.5] * (n // 4), "when_lo": [None, 3.0] * (n // 2)}
        return pa.table(columns)
    low = np.round(rng.normal(12, 3, n), 2)
    columns |= {"price_lo": low, "price_hi": low + 5, "closed": ["both", None] * (n // 2)}
    if kind == "threshold":
        columns |= {"total": rng.integers(1, 90, n), "repeat": [True, None] * (n // 2)}
    if kind == "border":
        columns |= {"dwell": [2, None] * (n // 2), "emit": ["enter", "enter,leave"] * (n // 2)}
    return pa.table(columns)


def _in_formats(table: pa.Table) -> list[tuple[str, bytes]]:
    found = []
    for form, codec in (("file", None), ("stream", "lz4"), ("stream", None), ("file", "zstd")):
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=codec)
        new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
        with new(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        found.append((".arrow", sink.getvalue().to_pybytes()))
    for codec, encoded in (("none", True), ("snappy", False), ("zstd", True)):
        sink = io.BytesIO()
        pq.write_table(table, sink, compression=codec, use_dictionary=encoded, row_group_size=32)
        found.append((".parquet", sink.getvalue()))
    sink = io.BytesIO()
    pa.csv.write_csv(table, sink)
    found.append((".csv", sink.getvalue()))
    rows = table.to_pylist()
    found.append((".jsonl", "\n".join(map(json.dumps, rows)).encode()))
    found.append((".json", json.dumps(rows).encode()))
    return found


# -- damage ----------------------------------------------------------------------------------------


def damage(files: Files, chance: random.Random) -> Files:
    """Return one of the files with one to three changes."""
    chosen = chance.choice(files.all)
    content = chosen.content
    ways = _TEXT_WAYS if chosen.suffix in TEXTS else _WAYS
    for _ in range(chance.choice((1, 1, 2, 3))):
        if content:
            content = chance.choice(ways)(content, chance)
    suffix = chance.choice((chosen.suffix,) * 20 + (".csv", ".jsonl", ".parquet", ".arrow", ""))
    return Files((Damaged(suffix, chosen.kind, content, genuine=False),))


def _flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, chance: random.Random) -> bytes:
    value = chance.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 10**11, 2**62, 2**63, 2**64 - 1))
    size, changed = chance.choice((1, 2, 4, 8)), bytearray(content)
    at = chance.randrange(len(content)) // size * size
    changed[at : at + size] = value.to_bytes(8, "little")[:size]
    return bytes(changed)


def _cut(content: bytes, chance: random.Random) -> bytes:
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return chance.choice((content[:last], content[first:], content[:first] + content[last:]))


def _repeat(content: bytes, chance: random.Random) -> bytes:
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    at = chance.randrange(len(content) + 1)
    return content[:at] + content[first:last] * chance.choice((1, 1, 5)) + content[at:]


_WORDS = (
    b"NaN", b"inf", b"-Infinity", b"1e999", b"-0", b"9" * 400, b"9223372036854775808", b"\0", b'"',
    b"\n", b"\r\n", b",", b"{", b"}", b"[" * 2_000, b"null", b"true", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\\ud800", b'{"a":' * 2_000, b"1.5", b"2024-01-01T00:00:00Z", b"0x10", b"1_000", b"id,id",
    b'"symbol": "x",', b"-", b"\xe2\x80\xa8", b"1e-400", b"0" * 70_000, b'""', b"a" * 2_000,
)  # fmt: skip


def _word(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice(_WORDS) + content[at + chance.choice((0, 0, 1, 5)) :]


def _number(content: bytes, chance: random.Random) -> bytes:
    """Put a word where a number stands."""
    digits = [i for i, byte in enumerate(content) if 48 <= byte < 58]
    if not digits:
        return content
    first = last = chance.choice(digits)
    while last < len(content) and content[last] in b"0123456789.":
        last += 1
    return content[:first] + chance.choice(_WORDS) + content[last:]


_WAYS = (_flip, _flip, _flip, _overwrite, _overwrite, _cut, _repeat)
_TEXT_WAYS = (_flip, _cut, _repeat, _word, _word, _word, _number, _number)


# -- what is done with it --------------------------------------------------------------------------


def judge(files: Files) -> str:
    """Read files, and use what is in them; anything but an error of ours is raised."""
    words = {_judge_one(file) for file in files.all}
    return words.pop() if len(words) == 1 else "several"


@cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


def _judge_one(file: Damaged) -> str:
    path = Path(_folder().name) / f"file{file.suffix}"
    path.write_bytes(file.content)
    engines = _taking_queries if file.kind else _watching
    engine = None  # nothing was given to one yet
    try:
        if file.kind:
            read = read_queries(path, progress=lambda _done, _total: None)
            engine = engines.take()
            engine.register_table(read.table, kind=file.kind, on_error="skip")
        else:
            for piece in EventFile(path, STREAM).pieces():
                engine = engine or engines.take()
                engine.process(piece.batch).validate(full=True)
        word = "read"
    except EverqueryError:
        if file.genuine:
            raise
        word = "refused"
    finally:
        path.unlink()
    if engine is not None and (word == "read" or not engines.is_as_it_was(engine)):
        _use(engine, listed=bool(file.kind))
    return word


def _with_queries() -> eq.Engine:
    engine = eq.Engine(STREAM)
    engine.register(eq.Border("band", {"price": (10, 20)}))
    engine.register(eq.Quantile("median", "volume", phi=0.5, epsilon=0.05, by_key=True))
    engine.register(eq.Silence("gone", after=20))
    return engine


_taking_queries, _watching = Untouched(lambda: eq.Engine(STREAM)), Untouched(_with_queries)


def _use(engine: eq.Engine, *, listed: bool) -> None:
    """Whatever was taken, the engine goes on; its queries are listed if they came from a file."""
    engine.dead_letters().validate(full=True)
    if listed:
        engine.queries().validate(full=True)
    time = engine.process(STREAM_END).validate(full=True) if engine.key_type is None else None
    assert time is None
    _twin.restore(engine.snapshot())
    if listed:
        assert _twin.queries().equals(engine.queries())
    assert repr(_twin.dead_letters().to_pylist()) == repr(engine.dead_letters().to_pylist())


_twin = eq.Engine(STREAM)
STREAM_END = pa.table({"symbol": ["z"], "ts": [10**6], "price": [1.0], "volume": [1.0], "n": [1]})
