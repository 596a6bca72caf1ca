"""Text that is none, labels without end, spans beyond all times: one clear error each."""

import json

import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import EverqueryError

STREAM = eq.Stream("t", key="k", time="ts", attributes=["x"])
HALF = "\ud800"
BROKEN = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xff\xfe")]
)


@pytest.fixture(params=[None, "sqlite://"])
def engine(request):
    with eq.Engine(STREAM, registry=request.param, create=True) as engine:
        engine.register(eq.Threshold("a", {}, total=5, key="x"))
        yield engine


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.register(eq.Range(HALF, {})),
        lambda engine: engine.register(eq.Range("r", {}, key=HALF)),
        lambda engine: engine.register(eq.Range("r", {}, labels={"a": HALF})),
        lambda engine: engine.register(eq.Range("r", {}, labels={HALF: "a"})),
        lambda engine: engine.deregister(HALF),
        lambda engine: engine.progress(HALF),
        lambda engine: engine.answer(HALF),
        lambda engine: engine.explain(HALF),
        lambda engine: engine.expire(HALF),
        lambda engine: engine.queries(like=HALF),
        lambda engine: engine.queries(owner=HALF),
        lambda engine: engine.queries(kind=HALF),
        lambda engine: eq.Stream(HALF, attributes=["x"]),
        lambda engine: eq.Stream("s", attributes=[HALF]),
        lambda engine: eq.Engine(HALF, registry="sqlite://"),
        lambda engine: engine.register_table(pa.table({"id": BROKEN}), kind="range"),
        lambda engine: engine.register_table(
            pa.table({"id": ["r", "s"], "key": BROKEN}), kind="range"
        ),
        lambda engine: engine.register_table(
            pa.table({"id": ["r", "s"], "owner": BROKEN.dictionary_encode()}), kind="range"
        ),
        lambda engine: engine.deregister(BROKEN),
    ],
)
def test_text_that_is_none(engine, call):
    with pytest.raises(EverqueryError):
        call(engine)
    assert engine.queries()["id"].to_pylist() == ["a"]


def test_nobody_has_half_a_name(engine):
    assert engine.live_of(HALF) == 0


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({str(i): "x" for i in range(100_000)}, "there are 100,000 labels; the limit is 64"),
        ({"€" * 250 + str(i): "€" * 250 for i in range(60)}, "90,590 bytes; the limit is 65,536"),
    ],
)
def test_labels_without_end(engine, labels, told):
    with pytest.raises(eq.InvalidQueryError, match=told):
        engine.register(eq.Range("r", {}, labels=labels))
    table = pa.table({"id": ["r"], "labels": [json.dumps(labels)]})
    with pytest.raises(eq.InvalidTableError, match="labels"):
        engine.register_table(table, kind="range")
    most = {str(i): "x" * 256 for i in range(64)}
    engine.register(eq.Range("most", {}, labels=most))
    assert engine.queries(labels={"63": "x" * 256})["id"].to_pylist() == ["most"]


@pytest.mark.parametrize("count", ["1e99999999", "1e999999", "-1e99999999", "1e-999999", "nan"])
def test_spans_beyond_all_times(engine, count):
    with pytest.raises(EverqueryError, match="line 1, column 78"):
        engine.sql(
            "CREATE STANDING QUERY i AS SELECT * FROM t EMIT MATCHES"
            f" WITH (ttl = INTERVAL '{count}' SECOND)"
        )
