"""Keys and changes to shards."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds import KINDS
from everquery.queries.block import blocks_of_queries
from everquery.queries.changes import Deregister, Register, RegisterBlocks
from everquery.registry.codec import decode_change, encode_change
from everquery.registry.rows import LogRow
from everquery.sharding.packing import Packer, unpack
from everquery.sharding.routing import (
    NO_SECRET,
    Shards,
    across_keys,
    cut_rows,
    queries_of,
    route,
    shards_of,
)

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"], weight="w")
SPECS = {name: kind.spec for name, kind in KINDS.items()}


@pytest.mark.parametrize(
    "keys", [pa.array([f"key{i}" for i in range(9_000)]), pa.array(range(9_000))]
)
def test_keys_spread_evenly(keys):
    counts = np.bincount(shards_of(keys, 3, NO_SECRET), minlength=3)
    assert counts.size == 3
    assert counts.min() > 2_800


def test_the_shard_of_a_key_never_changes():
    # State would be looked for in the wrong place: these numbers are part of the layout.
    secret = bytes(range(16))
    words = pa.array(["IBM", "AAPL", "", None, "a longer key"])
    numbers = pa.array([0, 1, -1, None, 2**62])
    assert shards_of(words, 7, secret).tolist() == [4, 0, 4, 0, 6]
    assert shards_of(numbers, 7, secret).tolist() == [2, 1, 3, 0, 6]


def test_who_does_not_know_the_secret_can_not_choose_a_shard_13():
    names = pa.array([f"key{i}" for i in range(9_000)])
    chosen = names.filter(pa.array(shards_of(names, 3, NO_SECRET) == 1))
    counts = np.bincount(shards_of(chosen, 3, bytes(range(16))), minlength=3)
    assert counts.min() > len(chosen) / 4


@pytest.mark.parametrize("as_blocks", [False, True])
def test_each_query_goes_to_the_shard_of_its_key_or_to_all(as_blocks):
    queries = [eq.Border(f"q{i}", {"x": (i, i + 1)}, key=f"key{i}") for i in range(50)]
    queries.append(eq.Border("all", {"x": (0, 1)}))
    change = Register(tuple(queries))
    if as_blocks:
        change = RegisterBlocks(blocks_of_queries(queries, STREAM))
    ((operation, count, payload),) = encode_change(change, STREAM)
    parts = dict(route(LogRow(7, 0, count, operation, payload), STREAM, Shards(4)))
    assert sorted(parts) == [0, 1, 2, 3]
    seen = []
    for shard, row in parts.items():
        assert (row.position, row.count) == (7, 51)
        part = decode_change(row.operation, row.payload, STREAM)
        if as_blocks:
            ids = [each for block in part.blocks for each in block.ids.to_pylist()]
        else:
            ids = [query.id for query in part.queries]
        assert "all" in ids
        keyed = [each for each in ids if each != "all"]
        names = pa.array([f"key{each[1:]}" for each in keyed], pa.string())
        assert set(shards_of(names, 4, NO_SECRET).tolist()) <= {shard}
        seen += keyed
    assert sorted(seen) == sorted(query.id for query in queries[:-1])


@pytest.mark.parametrize("as_blocks", [False, True])
def test_queries_across_keys_go_to_one_wide_shard(as_blocks):
    queries = [eq.Threshold(f"t{i}", {"x": (i, i + 1)}, total=5) for i in range(40)]
    queries += [eq.Threshold("keyed", {}, total=5, key="IBM"), eq.Range("all", {})]
    change = Register(tuple(queries))
    if as_blocks:
        change = RegisterBlocks(blocks_of_queries(queries, STREAM))
    ((operation, count, payload),) = encode_change(change, STREAM)
    found = {}
    for shard, row in route(LogRow(7, 0, count, operation, payload), STREAM, Shards(3, 2)):
        part = decode_change(row.operation, row.payload, STREAM) if row.payload else None
        found[shard] = {each for _, each in queries_of(part)} if part else set()
    assert sorted(found) == [0, 1, 2, 3, 4]
    wide = {f"t{i}" for i in range(40)}
    assert found[3] | found[4] == wide
    assert found[3]
    assert not found[3] & found[4]
    assert all("all" in found[shard] and not found[shard] & wide for shard in range(3))
    assert sum("keyed" in found[shard] for shard in range(3)) == 1
    # Without wide shards the first one gets them, to say that it can't count for them.
    alone = dict(route(LogRow(7, 0, count, operation, payload), STREAM, Shards(3)))
    part = decode_change(alone[0].operation, alone[0].payload, STREAM)
    assert wide <= {each for _, each in queries_of(part)}


@pytest.mark.parametrize("as_blocks", [False, True])
def test_quantiles_by_key_go_to_all_keyed_shards_and_others_to_one_wide_shard(as_blocks):
    queries = [
        eq.Quantile(
            f"{'each' if i % 2 else 'all'}{i}",
            "x",
            phi=0.5,
            epsilon=0.1,
            last=[None, 20, 30, 40, 50][i % 5],
            by_key=i % 2 > 0,
        )
        for i in range(40)
    ]
    queries.append(eq.Quantile("keyed", "x", phi=0.5, epsilon=0.1, key="IBM"))
    each, together = ({q.id for q in queries if q.id.startswith(name)} for name in ("each", "all"))
    change = Register(tuple(queries))
    if as_blocks:
        change = RegisterBlocks(blocks_of_queries(queries, STREAM))
    ((operation, count, payload),) = encode_change(change, STREAM)
    found = {}
    for shard, row in route(LogRow(7, 0, count, operation, payload), STREAM, Shards(3, 2)):
        part = decode_change(row.operation, row.payload, STREAM)
        found[shard] = {name for _, name in queries_of(part)}
    assert all(found[shard] - {"keyed"} == each for shard in range(3))
    assert sum("keyed" in found[shard] for shard in range(3)) == 1
    assert found[3]
    assert found[3] | found[4] == together
    assert not found[3] & found[4]
    # Those that rank the same rows share a summary, so they are together.
    homes = {(query.last, query.id in found[3]) for query in queries if query.id in together}
    assert len(homes) == 5
    # A job without wide shards can't answer those that look at all keys together.
    assert {name for _, name in across_keys(change)} == together


def test_wide_shards_get_all_events():
    columns = {"k": ["a", "b", None, "c"], "t": [1, 2, 3, 4], "w": [1, 1, 1, 1]}
    events = pa.table({**columns, "x": [1.0, 2.0, 3.0, 4.0]})
    blobs = {shard: blob for _, shard, blob in Packer(STREAM, 3, wide=2).pack(events.to_batches())}
    assert blobs[3] == blobs[4]
    arrivals = unpack(blobs[3], STREAM, pa.int64()).arrivals
    assert arrivals.key.to_pylist() == ["a", "b", None, "c"]
    assert arrivals.values.tolist() == [[1.0, 2.0, 3.0, 4.0]]


def test_a_shard_without_part_gets_an_empty_payload():
    query = eq.Range("q", {"x": (0, 1)}, key="IBM")
    ((operation, count, payload),) = encode_change(Register((query,)), STREAM)
    parts = dict(route(LogRow(0, 0, count, operation, payload), STREAM, Shards(3)))
    assert sorted(len(row.payload) > 0 for row in parts.values()) == [False, False, True]


def test_changes_by_id_go_to_all():
    ((operation, count, payload),) = encode_change(Deregister(pa.array(["q"])), STREAM)
    row = LogRow(0, 0, count, operation, payload)
    assert [part for _, part in route(row, STREAM, Shards(3))] == [row] * 3


def test_packed_events_come_back_whole_in_order_and_with_the_times_of_all():
    rng = np.random.default_rng(3)
    n = 500
    table = pa.table(
        {
            "k": pa.array(rng.choice(["a", "b", "c", "d"], n), mask=rng.random(n) < 0.1),
            "t": rng.integers(0, 1_000, n),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
            "w": rng.integers(0, 5, n),
            "note": np.arange(n),
        }
    )
    parts = {}
    for number, shard, blob in Packer(STREAM, 3, ("note",), blob_rows=100).pack(
        table.to_batches(40)
    ):
        part = unpack(blob, STREAM, pa.int64())
        parts.setdefault(shard, []).append((number, part.arrivals, part.carried))
    rows = [note for part in parts.values() for _, _, c in part for note in c["note"].to_pylist()]
    assert sorted(rows) == list(range(n))
    good = table["k"].is_valid().to_numpy()
    time = table["t"].to_numpy()
    for shard, part in parts.items():
        notes = [note for _, _, c in part for note in c["note"].to_pylist()]
        assert notes == sorted(notes)
        for number, arrivals, carried in part:
            note = carried["note"].to_numpy()
            fine = arrivals.refused == 0
            assert np.array_equal(fine, good[note])
            assert np.array_equal(arrivals.time, time[note])
            first = 120 * number  # batches of 40 rows, until 100 are together
            block = slice(first, min(n, first + 120))
            known = time[block][good[block]]
            assert (arrivals.oldest, arrivals.newest) == (known.min(), known.max())
            keys = arrivals.key.take(pa.array(np.flatnonzero(fine))).dictionary_decode()
            assert set(shards_of(keys, 3, NO_SECRET).tolist()) <= {shard}


def test_wide_events_are_cut_by_bytes_and_stay_in_order():
    n = 300
    notes = ["n" * (10_000 if 100 <= i < 110 else 20) for i in range(n)]
    notes[200] = "n" * 50_000  # larger than a blob may be
    table = pa.table(
        {"k": ["a", "b", "c"] * 100, "t": range(n), "x": [1.0] * n, "w": [1] * n, "note": notes}
    )
    for wide in (0, 1):
        packer = Packer(STREAM, 3, ("note",), blob_bytes=20_000, wide=wide)
        packed = sorted(packer.pack(table.to_batches(64)), key=lambda each: each[:2])
        sizes = sorted(len(blob) for _, _, blob in packed)
        assert sizes[-1] < 60_000
        assert sum(size > 45_000 for size in sizes) == 1 + wide
        times = [
            unpack(blob, STREAM, pa.int64()).arrivals.time.tolist()
            for _, shard, blob in packed
            if shard != 3
        ]
        assert sorted(time for some in times for time in some) == list(range(n))
        for shard in range(3 + wide):
            here = [
                unpack(blob, STREAM, pa.int64()).arrivals for _, s, blob in packed if s == shard
            ]
            assert np.all(np.diff(np.concatenate([arrivals.time for arrivals in here])) > 0)
            newest = [arrivals.newest for arrivals in here]
            assert newest == sorted(newest)
            assert newest[-1] == n - 1


def test_rows_of_the_log_are_cut_by_bytes_and_say_the_same():
    ranges = [
        eq.Range(f"q{i}", {"x": (i, i + 1)}, labels={"l": "y" * (1 + i % 50)}) for i in range(400)
    ]
    gone = Deregister(pa.array([f"q{i}" for i in range(0, 400, 2)]))
    changes = [Register(tuple(ranges)), gone]
    rows, position = [], 7
    for change in changes:
        for operation, count, payload in encode_change(change, STREAM):
            rows.append(LogRow(position, 0, count, operation, payload))
            position += count
    base = [
        replace(row, position=7, number=number, count=0)
        for number, row in zip((-2, -1), rows, strict=True)
    ]
    cut = cut_rows([*base, *rows], STREAM, 2_000)
    assert max(len(row.payload) for row in cut) <= 2_000
    assert len({(row.position, row.number) for row in cut}) == len(cut)
    assert cut == sorted(cut, key=lambda row: (row.position, row.number))
    for part in ([row for row in cut if row.number < 0], [row for row in cut if row.number >= 0]):
        assert part[0].number == (-len(part) if part[0].number < 0 else 0)
        told = [decode_change(row.operation, row.payload, STREAM) for row in part]
        assert [
            q for change in told if isinstance(change, Register) for q in change.queries
        ] == ranges
        ids = [
            i for change in told if isinstance(change, Deregister) for i in change.ids.to_pylist()
        ]
        assert ids == gone.ids.to_pylist()
    assert max(row.position + row.count for row in cut) == position
    assert cut_rows(rows, STREAM, 1 << 20) == rows


def test_a_table_of_queries_in_the_log_is_cut_too():
    queries = [eq.Border(f"q{i}", {"x": (i, i + 1)}, key="a") for i in range(5_000)]
    change = RegisterBlocks(blocks_of_queries(queries, STREAM))
    ((operation, count, payload),) = encode_change(change, STREAM)
    cut = cut_rows([LogRow(0, 0, count, operation, payload)], STREAM, len(payload) // 3)
    assert [row.number for row in cut] == list(range(len(cut)))
    assert len(cut) >= 3
    told = [decode_change(row.operation, row.payload, STREAM) for row in cut]
    ids = [i for each in told for block in each.blocks for i in block.ids.to_pylist()]
    assert ids == [query.id for query in queries]


@pytest.mark.parametrize("as_blocks", [False, True])
def test_a_query_that_moves_is_told_of_where_it_was(as_blocks):
    queries = tuple(eq.Border(f"q{i}", {"x": (i, i + 1)}, key=f"key{i}") for i in range(9))
    for mode in ("replace", "move"):
        change = Register(queries, mode)
        if as_blocks:
            change = RegisterBlocks(blocks_of_queries(queries, STREAM), mode)
        [(operation, count, payload)] = encode_change(change, STREAM)
        row = LogRow(7, 0, count, operation, payload)
        found = {}
        for shard, part in route(row, STREAM, Shards(3, 1)):
            if part.payload:
                decoded = decode_change(part.operation, part.payload, STREAM)
                found[shard, decoded.mode] = {name for _, name in queries_of(decoded)}
        here = [found[shard, mode] for shard in range(3)]
        assert set.union(*here) == {query.id for query in queries}
        assert sum(map(len, here)) == 9
        if mode == "replace":
            assert len(found) == 3
        else:
            everywhere = [
                found[shard, "leave"] | found.get((shard, mode), set()) for shard in range(4)
            ]
            assert everywhere == [{query.id for query in queries}] * 4
