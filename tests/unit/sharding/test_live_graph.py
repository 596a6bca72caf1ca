"""Live objects in files: a closed set of types, and no name that leads out of the folder."""

import pickle
from collections import deque
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core import framing
from everquery.index.rows import Rows, Shape
from everquery.shard import Shard
from everquery.sharding import host_files
from everquery.sharding.live_graph import ForeignError, flatten, restore
from everquery.state.pairs import PairTable

NAME, TOKEN = f"{'ab' * 16}.3", (7, "cd" * 16)


def through_bytes(value, like=None, given=()):
    root, contents = flatten(value, given)
    frame = b"".join(framing.pieces({"root": root}, contents, summed=False))
    header, views = framing.view(memoryview(bytearray(frame)))
    return restore(header["root"], views, like, given)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**70,
        1.5,
        float("inf"),
        "é",
        b"bytes",
        (1, (2, None)),
        [1, [2]],
        {"a": 1, (2, "b"): None, None: ()},
        {1, "x"},
        deque([1, 2]),
        timedelta(days=1, microseconds=3),
        pa.timestamp("us", "UTC"),
        pa.schema([("x", pa.int64())]),
        Shape((1, 2), True),
    ],
)
def test_values_come_back(value):
    found = through_bytes(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((3, 0), np.uint8),
        np.arange(10)[::3],
        np.ones((2, 2, 2), np.bool_),
    ],
)
@pytest.mark.parametrize("writeable", [True, False])
def test_arrays_come_back_as_loops_know_them(array, writeable):
    array.flags.writeable = writeable
    found = through_bytes(array)
    assert found.dtype == array.dtype
    assert found.flags.writeable == writeable
    assert found.flags.c_contiguous or not array.flags.c_contiguous
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("kind", [np.dtype(np.float64), np.float64, np.int64])
def test_types_of_numbers_come_back_whatever_a_new_object_has(kind):
    assert through_bytes([kind], [np.int32]) == [kind]


@pytest.mark.parametrize("align", [True, False])
def test_records_come_back_as_loops_know_them(align):
    kind = np.dtype([("a", np.int8), ("b", np.float64), ("c", np.int32)], align=align)
    records = np.array([(1, 2.5, 3), (4, -0.0, 6)], kind)
    found = through_bytes(records)
    assert found.dtype == kind
    assert found.dtype.isalignedstruct == align
    assert found.tolist() == records.tolist()
    found["a"] = 7


def test_arrow_comes_back():
    table = pa.table({"x": [1, None], "y": ["a", "b"]})
    assert through_bytes(table).equals(table)
    assert through_bytes(table["y"].combine_chunks()).to_pylist() == ["a", "b"]


def test_what_is_shared_stays_shared():
    shared, pairs = np.arange(3), PairTable(1, 2)
    pairs.again = pairs
    found = through_bytes([shared, shared, pairs])
    assert found[0] is found[1]
    assert found[2].again is found[2]
    np.testing.assert_array_equal(found[2].entries.pair, pairs.entries.pair)


def test_rows_come_back():
    rows = Rows(
        Shape((0,), False), *(np.arange(2, dtype=np.int32),) * 2, np.ones((1, 2)), np.ones((1, 2))
    )
    found = through_bytes(rows)
    assert type(found) is Rows
    assert found.shape == rows.shape


class Stranger:
    """Not of everquery."""


@pytest.mark.parametrize(
    "value",
    [Stranger(), [Stranger()], np.array([None]), np.zeros((1, 1), "i4,i4"), np.zeros(1, "i4,O")],
)
def test_what_is_foreign_is_not_written(value):
    with pytest.raises(ForeignError):
        flatten(value, ())


@pytest.mark.parametrize(
    "root",
    [
        ["object", 0, ["builtins", "Exception"], []],
        ["object", 0, ["os", "PathLike"], []],
        ["object", 0, ["everquery.errors", "SnapshotError"], []],
        ["object", 0, ["everquery.sharding.head", "Head"], []],
        ["object", 0, ["everquery.core.names", "np"], []],
        ["object", 0, ["everquery.core.encoded_names", "Encoded.__init__"], []],
        ["object", 0, ["everquery.core.names", "pa"], []],
        ["object", 0, ["everquery.no_such_module", "X"], []],
        ["named", ["everquery.core.names", "NameTable"], []],
        ["function", 0],
        ["known", 5],
        ["given", 5],
        ["array", 0, "9", [1], False, True],
        ["dtype", 0, "no such type"],
        ["records", 0, "9", [["a", "<i4", 0]], 4, True, True],
        ["records", 0, "9", [["a", "O", 0]], 8, True, True],
        ["records", 0, "9", [["a", "<i4"]], 4, True, True],
        ["eval", 0, "1"],
        {"a": 1},
        [],
        [[]],
    ],
)
def test_forged_graphs_are_refused(root):
    with pytest.raises(ForeignError):
        restore(root, {}, None, ())


def test_a_shard_comes_back_into_one_of_the_same_make():
    stream = eq.Stream("s", key="k", time="t", attributes=["x"], weight="w")
    shard = Shard(stream)
    found = through_bytes(shard, Shard(stream), [stream])
    assert type(found) is Shard
    assert found.stream is stream
    assert found.contents.admission._keys is found.contents.keys
    for kind, index in found.contents.indexes.items():
        assert index.layers._build is not None, kind


def test_caches_are_not_written():
    shard = Shard(eq.Stream("s", key="k", attributes=["x"]))
    shard.process(pa.table({"k": ["a"], "x": [1.0]}))
    assert shard.contents.keys.known_number("a") == 0
    assert shard.key_names.to_pylist() == ["a"]
    written = repr(flatten(shard, [shard.stream])[0])
    assert "_offsets" in written
    assert "_strings" not in written
    assert "_recent" not in written


# -- files -----------------------------------------------------------------------------------------


def test_a_file_comes_back(tmp_path):
    host_files.write(tmp_path, NAME, TOKEN, [np.arange(5), "text"])
    array, text = host_files.read(tmp_path, NAME, TOKEN, None)
    assert array.tolist() == [0, 1, 2, 3, 4]
    assert text == "text"
    array[0] = 9  # this worker's own
    assert host_files.read(tmp_path, NAME, TOKEN, None)[0][0] == 0
    assert host_files.read(tmp_path, NAME, (8, TOKEN[1]), None) is None


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("../../etc/passwd", TOKEN),
        (f"{'ab' * 16}.3/../x", TOKEN),
        (f"{'AB' * 16}.3", TOKEN),
        (f"{'ab' * 16}.-1", TOKEN),
        (NAME, (1, "../" * 10 + "cd")),
        (NAME, (1, "cd" * 15)),
        (NAME, (1, "cd" * 16 + "\n")),
        (NAME, ("1", "cd" * 16)),
        (NAME, (True, "cd" * 16)),
    ],
)
def test_no_name_leads_elsewhere(tmp_path, name, token):
    assert host_files.read(tmp_path, name, token, None) is None
    with pytest.raises(ValueError, match="name no file"):
        host_files.write(tmp_path, name, token, [])


def test_a_file_that_does_not_fit_is_as_if_it_were_not_there(tmp_path):
    host_files.write(tmp_path, NAME, TOKEN, [np.arange(5)])
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:-1], whole + b"x", whole[:40], pickle.dumps([1])):
        path.write_bytes(content)
        assert host_files.read(tmp_path, NAME, TOKEN, None) is None
    path.write_bytes(whole)
    assert host_files.read(tmp_path, NAME, TOKEN, None) is not None
    other = (8, TOKEN[1])
    path.rename(tmp_path / f"{NAME}.8.{TOKEN[1]}.arrays")
    assert host_files.read(tmp_path, NAME, other, None) is None  # it says of which version it is


def test_objects_that_can_not_be_written_are_kept_to_oneself(tmp_path):
    host_files.write(tmp_path, NAME, TOKEN, [Stranger()])
    assert not list(tmp_path.iterdir())
