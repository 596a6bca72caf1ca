"""Arrow data that is not what it says: one error that refuses all of it, or the right answer."""

import json
from contextlib import contextmanager
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq

N = 4
STRING = pa.string()


@pytest.fixture
def engine():
    engine = eq.Engine(
        eq.Stream("trades", key="symbol", time="ts", attributes=["price"], weight="n")
    )
    engine.register(eq.Range("cheap", {"price": (0, 50)}))
    engine.process(batch())
    return engine


def batch(**columns):
    table = {
        "symbol": pa.array(["IBM", "AAPL", "IBM", "MSFT"]),
        "ts": pa.array(range(N)),
        "price": pa.array([45.0, 60.0, 10.5, 7.0]),
        "n": pa.array([1, 2, 3, 4]),
    }
    return pa.table({**table, **columns})


def state_of(engine):
    return repr((engine.stats(), engine.queries().to_pylist(), engine.dead_letters().to_pylist()))


LATER = []


def strings(offsets, data, kind=STRING, n=N, at=0):
    """Return an array whose offsets are written when Arrow has looked at them; see `spoilt`."""
    memory = np.zeros(len(offsets), np.int64 if kind == pa.large_string() else np.int32)
    LATER.append((memory, offsets))
    buffers = [None, pa.py_buffer(memory), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, n, buffers, offset=at)


def miscounted():
    """Return integers of which two will be null, and one is said to be."""
    memory = np.array([0b1101], np.uint8)
    LATER.append((memory, [0b0101]))
    return pa.Array.from_buffers(
        pa.int64(), N, [pa.py_buffer(memory), pa.py_buffer(np.arange(N))], 1
    )


@contextmanager
def spoilt():
    before = [memory.copy() for memory, _ in LATER]
    for memory, values in LATER:
        memory[:] = values
    yield
    for (memory, _), values in zip(LATER, before, strict=True):
        memory[:] = values


def dictionary(indices, values):
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), values, safe=False)


class Tagged(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.int64(), "everquery.tests.tagged")

    def __arrow_ext_serialize__(self):
        return json.dumps({}).encode()


RIGHT = {
    "decimal32": {
        "price": pa.array(
            [Decimal(45), Decimal(60), Decimal("10.5"), Decimal(7)], pa.decimal32(4, 1)
        )
    },
    "decimal64 weight": {
        "n": pa.array([Decimal(1), Decimal(2), Decimal(3), Decimal(4)], pa.decimal64(4, 0))
    },
    "views": {"symbol": pa.array(["IBM", "AAPL", "IBM", "MSFT"], pa.string_view())},
    "large": {"symbol": pa.array(["IBM", "AAPL", "IBM", "MSFT"], pa.large_string())},
    "dictionary of views": {
        "symbol": dictionary([0, 1, 0, 2], pa.array(["IBM", "AAPL", "MSFT"], pa.string_view()))
    },
    "dictionary of large": {
        "symbol": dictionary([0, 1, 0, 2], pa.array(["IBM", "AAPL", "MSFT"], pa.large_string()))
    },
    "dictionary of prices": {"price": dictionary([0, 1, 2, 3], pa.array([45.0, 60.0, 10.5, 7.0]))},
    "dictionary of weights": {"n": dictionary([0, 1, 2, 3], pa.array([1, 2, 3, 4]))},
    "halves": {"price": pa.array(np.array([45.0, 60.0, 10.5, 7.0], np.float16))},
    "sliced": {"symbol": pa.array(["x", "IBM", "AAPL", "IBM", "MSFT", "y"]).slice(1, N)},
    "sliced dictionary": {
        "symbol": pa.array(["x", "IBM", "AAPL", "IBM", "MSFT", "y"]).dictionary_encode().slice(1, N)
    },
    "offset": {"symbol": strings([0, 1, 4, 8, 11, 15], b"xIBMAAPLIBMMSFT", at=1)},
    "chunks": {"symbol": pa.chunked_array([["IBM"], ["AAPL", "IBM"], [], ["MSFT"]])},
}


@pytest.mark.parametrize("case", RIGHT)
def test_unusual_types_are_read(engine, case):
    twin = eq.Engine(engine.stream)
    twin.restore(engine.snapshot())
    table = batch(**RIGHT[case])
    with spoilt():
        notices = engine.process(table)
    assert notices.to_pylist() == twin.process(batch()).to_pylist()


WRONG = {
    "bytes as keys": {"symbol": pa.array([b"a"] * N)},
    "byte views as keys": {"symbol": pa.array([b"a"] * N, pa.binary_view())},
    "dictionary of bytes": {"symbol": dictionary([0] * N, pa.array([b"a"]))},
    "dictionary of byte views": {"symbol": dictionary([0] * N, pa.array([b"a"], pa.binary_view()))},
    "index too large": {"symbol": dictionary([0, 1, 0, 2], pa.array(["IBM", "AAPL"]))},
    "index far too large": {"symbol": dictionary([0, 2**31 - 1, 0, 1], pa.array(["IBM", "AAPL"]))},
    "index below 0": {"symbol": dictionary([0, -1, 0, 1], pa.array(["IBM", "AAPL"]))},
    "index of no value": {"symbol": dictionary([0] * N, pa.array([], pa.string()))},
    "price index": {"price": dictionary([0, 9, 0, 1], pa.array([1.0, 2.0]))},
    "weight index": {"n": dictionary([0, -9, 0, 1], pa.array([1, 2]))},
    "offsets that fall": {"symbol": strings([0, 9, 3, 9, 12], b"IBMAAPLIBMMSFT")},
    "offsets beyond": {"symbol": strings([0, 3, 7, 10, 2**30], b"IBMAAPLIBMMSFT")},
    "offsets beyond in the middle": {
        "symbol": strings([0, 2**30, 2**30, 10, 14], b"IBMAAPLIBMMSFT")
    },
    "offsets below 0": {"symbol": strings([-(2**30), 3, 7, 10, 14], b"IBMAAPLIBMMSFT")},
    "large offsets beyond": {
        "symbol": strings([0, 3, 7, 10, 2**40], b"IBMAAPLIBMMSFT", pa.large_string())
    },
    "dictionary with bad offsets": {
        "symbol": dictionary([0, 1, 0, 1], strings([0, 2**30, 3], b"IBM", n=2))
    },
    "no text": {"symbol": strings([0, 3, 7, 10, 14], b"IBMAAPLIBM\xff\xfe\xfd\xfc")},
    "no text in a dictionary": {
        "symbol": dictionary([0, 1, 0, 1], strings([0, 1, 2], b"a\xff", n=2))
    },
    "half a letter": {"symbol": strings([0, 1, 2, 3, 4], "éé".encode())},
    "prices that are null": {"price": miscounted()},
    "weights that are null": {"n": miscounted()},
    "keys that are null": {"symbol": miscounted()},
    "times that are null": {"ts": miscounted()},
    "indices that are null": {
        "symbol": pa.DictionaryArray.from_arrays(
            miscounted(), pa.array(["a", "b", "c", "d"]), safe=False
        )
    },
    "runs as keys": {"symbol": pa.RunEndEncodedArray.from_arrays([N], pa.array(["IBM"]))},
    "runs as prices": {"price": pa.RunEndEncodedArray.from_arrays([N], pa.array([1.0]))},
    "tagged prices": {"price": pa.ExtensionArray.from_storage(Tagged(), pa.array([1] * N))},
    "tagged keys": {"symbol": pa.ExtensionArray.from_storage(Tagged(), pa.array([1] * N))},
    "tagged times": {"ts": pa.ExtensionArray.from_storage(Tagged(), pa.array([1] * N))},
    "lists": {"price": pa.array([[1.0]] * N)},
    "bad chunk": {
        "symbol": pa.chunked_array([pa.array(["a"] * 3), strings([0, 2**30], b"x", n=1)])
    },
}


@pytest.mark.parametrize("case", WRONG)
def test_broken_columns_refuse_the_batch(engine, case):
    before = state_of(engine)
    table = batch(**WRONG[case])
    with spoilt(), pytest.raises(eq.InvalidBatchError, match=r"column '(symbol|price|ts|n)'"):
        engine.process(table)
    assert state_of(engine) == before


def test_columns_whose_names_are_no_text(engine):
    schema = pa.schema([(b"\xff", pa.int64())])
    with pytest.raises(eq.InvalidBatchError, match="no text in UTF-8"):
        engine.process(pa.table([pa.array([1])], schema=schema))
    with pytest.raises(eq.InvalidTableError, match="no text in UTF-8"):
        engine.register_table(pa.table([pa.array([1])], schema=schema), kind="range")


def test_a_null_may_have_any_index(engine):
    indices = pa.Array.from_buffers(  # the second row is null
        pa.int32(), N, [pa.py_buffer(b"\x0d"), pa.py_buffer(np.array([0, 99, 0, 1], np.int32))]
    )
    keys = pa.DictionaryArray.from_arrays(indices, pa.array(["IBM", "MSFT"]), safe=False)
    engine.process(batch(symbol=keys))
    assert engine.stats()["dead_letters_by_reason"]["null_key"] == 1


def queries(**columns):
    table = {
        "id": pa.array(["a", "b", "c", "d"]),
        "key": pa.array(["IBM", None, "IBM", "AAPL"]),
        "price_lo": pa.array([1.0, 2.0, 3.0, 4.0]),
        "price_hi": pa.array([5.0, 6.0, 7.0, 8.0]),
        "owner": pa.array(["ann"] * N),
        "labels": pa.array(['{"team": "fx"}'] * N),
    }
    return pa.table({**table, **columns})


RIGHT_QUERIES = {
    "decimal32": {"price_lo": pa.array([Decimal(i) for i in (1, 2, 3, 4)], pa.decimal32(4, 0))},
    "ids in views": {"id": pa.array(["a", "b", "c", "d"], pa.string_view())},
    "ids in a dictionary of views": {
        "id": dictionary([0, 1, 2, 3], pa.array(["a", "b", "c", "d"], pa.string_view()))
    },
    "owners in a dictionary": {"owner": dictionary([0] * N, pa.array(["ann"], pa.large_string()))},
}


@pytest.mark.parametrize("case", RIGHT_QUERIES)
def test_unusual_types_of_queries_are_read(engine, case):
    twin = eq.Engine(engine.stream)
    twin.restore(engine.snapshot())
    engine.register_table(queries(**RIGHT_QUERIES[case]), kind="border")
    twin.register_table(queries(), kind="border")
    assert engine.queries().equals(twin.queries())


WRONG_QUERIES = {
    "ids that are no text": {"id": strings([0, 1, 2, 3, 4], b"abc\xff")},
    "ids with bad offsets": {"id": strings([0, 1, 2, 3, 2**30], b"abcd")},
    "keys with bad offsets": {"key": strings([0, 9, 2, 3, 4], b"abcd")},
    "owner beyond": {"owner": dictionary([0, 5, 0, 0], pa.array(["ann"]))},
    "labels that are no text": {"labels": strings([0, 1, 2, 3, 4], b"abc\xff")},
    "bounds beyond": {"price_lo": dictionary([0, 5, 0, 0], pa.array([1.0]))},
    "runs": {"price_lo": pa.RunEndEncodedArray.from_arrays([N], pa.array([1.0]))},
    "runs of ids": {"id": pa.RunEndEncodedArray.from_arrays([N], pa.array(["a"]))},
    "tagged": {"price_lo": pa.ExtensionArray.from_storage(Tagged(), pa.array([1] * N))},
    "bytes": {"id": pa.array([b"a", b"b", b"c", b"d"], pa.binary_view())},
}


@pytest.mark.parametrize("case", WRONG_QUERIES)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_broken_columns_refuse_the_table(engine, case, on_error):
    before = state_of(engine)
    table = queries(**WRONG_QUERIES[case])
    with spoilt(), pytest.raises(eq.InvalidTableError, match="column '"):
        engine.register_table(table, kind="border", on_error=on_error)
    assert state_of(engine) == before
