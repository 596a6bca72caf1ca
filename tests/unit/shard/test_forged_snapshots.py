"""Forged snapshots, one by one: what is wrong is said, and the engine stays as it was."""

import json

import numpy as np
import pytest

import everquery as eq
from tests.attack import snapshots
from tests.attack.forging import forged_with, joined, parts_of
from tests.attack.snapshots import STREAMS


@pytest.fixture(scope="module")
def genuine():
    return snapshots.make_snapshots().all


def put(name, place, value):
    def change(header, arrays):
        arrays[name].reshape(-1)[place] = value

    return change


def say(part, name, value):
    def change(header, arrays):
        (header["parts"][part]["values"] if part else header)[name] = value

    return change


def shorten(name):
    def change(header, arrays):
        arrays[name] = arrays[name][..., :-1].copy()

    return change


FEED, WINDOW = "quantile.feed 0 0 0", "quantile.feed 0 20000 0"
FORGED = [
    (
        0,
        put("queries.rows0.slot", 0, 10**6),
        "'rows0.slot' has 1000000 at 0, which is not below 77",
    ),
    (0, put("queries.rows0.slot", 0, -5), "less than 0"),
    (0, put("queries.rows1.key", 0, 7), "not below 7"),
    (0, put("queries.rows0.high", 0, -np.inf), "not above the lower end"),
    (0, put("keys.held.key", 0, 2**31 - 1), "'held.key'"),
    (0, put("keys.last_time", 0, 2**62), "after the newest time seen"),
    (0, put("queries.correlated epsilon", 0, np.nan), "epsilon of a correlated query is no number"),
    (0, put("queries.kinds", 0, 9), "'kinds' has 9"),
    (0, put("queries.states", 0, 0), "'states'"),
    (0, put("queries.states", 0, 1 | 128), "a state without name"),
    (0, put("queries.owner", 0, 99), "'owner'"),
    (0, put("queries.ids.starts", 1, 10**9), "'ids.starts'"),
    (0, put("queries.ids.data", 0, 0xFF), "no text in UTF-8"),
    (0, put("keys.names.data", 0, 0xFF), "no text in UTF-8"),
    (0, put("replaced.rows0.slot", 0, 10**6), "not below 77"),
    (0, put("replaced.rows0.slot", 0, 0), "'rows0.slot'"),
    (0, put("replaced.rows0.key", 0, 3), "a key, or none, where not"),
    (0, put("replaced.rows0.high", 0, -np.inf), "not above the lower end"),
    (0, put("replaced.undecided.key", 0, 7), "not below 7"),
    (0, put("replaced.undecided.query", 0, 77), "not below 77"),
    (0, say("replaced", "shapes", [["border", [7], False]]), "can't be"),
    (0, say("replaced", "shapes", [["range", [0], False]]), "leave nothing"),
    (0, shorten("replaced.rows0.low"), "'rows0.low'"),
    (0, put("waiting.key", 0, 2**30), "'key'"),
    (0, put("waiting.query", 0, 99), "'query'"),
    (0, put("waiting.crossing", 0, 10**9), "'crossing'"),
    (0, put("waiting.soonest", 0, 0), "not the earlier deadline"),
    (0, put("rules.home", 0, 99), "'home'"),
    (0, put("threshold.left", 0, 0), "'left'"),
    (0, put("threshold.left", 0, 2**60), "more than the total"),
    (0, put("queries.threshold total", 0, 0), "'total'"),
    (0, put("queries.quantile phi", 0, np.nan), "'phi'"),
    (0, put("queries.quantile last", 0, 10**12), "'last'"),
    (3, put(f"{FEED} cell.code", 0, 2**62), "cell.code"),
    (3, put(f"{FEED} member.slot", 0, 99), "member.slot"),
    (3, put(f"{FEED} error", 0, 1e-12), "errs 1e-12"),
    (3, put(f"{FEED} summary.r_plus", 5, 10**9), "summary.r_plus"),
    (3, put(f"{FEED} summary.sizes", 0, -1), "summary.sizes"),
    (3, put(f"{WINDOW} summary.buckets", 0, 10**6), "not full yet"),
    (3, put(f"{WINDOW} summary.seen", 0, 2**61), "summary.seen"),
    (0, shorten("keys.last"), "has shape"),
    (0, shorten("rules.end"), "has shape"),
    (0, say("keys", "key_type", "int64"), "not all have 8 bytes"),
    (0, say("keys", "newest", "soon"), "newest is 'soon'"),
    (0, say("keys", "arrived", -1), "arrived is -1, and no count"),
    (0, say("queries", "shapes", [["range", [7], False]]), "restrict"),
    (0, say("queries", "quotas", [["ann", "many"]]), "a quota is 'many'"),
    (0, say("queries", "states", {"live": 3}), "no bit"),
    (0, say("", "version", "3"), "version is '3'"),
    (0, say("", "holds", "head"), "holds something else"),
]


@pytest.mark.parametrize(("which", "change", "said"), FORGED)
def test_what_no_engine_wrote_is_refused(genuine, which, change, said):
    header, arrays = parts_of(genuine[which].content)
    change(header, arrays)
    engine = eq.Engine(STREAMS[which])
    engine.register(eq.Range("here", {}))
    with pytest.raises(eq.SnapshotError) as caught:
        engine.restore(joined(header, arrays))
    assert said in str(caught.value)
    assert str(caught.value).endswith("The engine is as it was")
    assert engine.queries()["id"].to_pylist() == ["here"]


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([["queries.ids.starts", "<i8", [2**40]]], "longer than all that is there"),
        ([["queries.ids.starts", "<i8", [2**62, 2**62]]], "is no array"),
        ([["queries.ids.starts", "<i8", [-1]]], "is no array"),
        ([["ids.starts", "|O", [1]]], "is no array"),
        ([["queries.ids.starts", "<i8"]], "is no array"),
        (7, "is no array"),
        ([], "belong to no array"),
    ],
)
def test_sizes_are_compared_with_the_bytes_that_are_there(genuine, listed, said):
    header, arrays = parts_of(genuine[0].content)
    with pytest.raises(eq.SnapshotError, match=said):
        eq.Engine(STREAMS[0]).restore(joined(header, arrays, listed))


@pytest.mark.parametrize(
    "text", [b"[" * 10**6, b"{", b"\xff", b"[]", b"7", json.dumps({"format": "x"}).encode()]
)
def test_headers_that_can_not_be_read(text):
    with pytest.raises(eq.SnapshotError):
        eq.Engine(STREAMS[0]).restore(forged_with(len(text).to_bytes(8, "little") + text))


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_bytes_will_do(genuine, kind):
    eq.Engine(STREAMS[0]).restore(kind(genuine[0].content))
