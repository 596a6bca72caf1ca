"""Columns in the registry: whatever bytes claim, they are queries that could be, or an error."""

import struct

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

import everquery as eq
from everquery.core.names import repeated
from everquery.errors import RegistryError
from everquery.kinds import KINDS
from everquery.queries.changes import RegisterBlocks
from everquery.queries.table import check_table
from everquery.registry.block_codec import ids_of_parts, pack_tables, unpack_blocks
from everquery.registry.codec import decode_change, encode_change
from everquery.registry.rows import LogRow, change_of

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price", "volume"])
SPECS = {name: kind.spec for name, kind in KINDS.items()}


def columns(kind="border", **more):
    """Return the table that the log holds of three queries, as Arrow reads it."""
    given = {"id": ["a", "b", "c"], "key": ["x", "y", "z"], **more}
    if SPECS[kind].boxed:
        given |= {"price_lo": [1.0, 2.0, 3.0], "price_hi": [4.0, None, 6.0]}
    checked = check_table(
        pa.table(given),
        SPECS[kind],
        STREAM,
        already_live=lambda ids: np.zeros(len(ids), np.bool_),
        repeated=repeated,
    )
    checked.raise_errors()
    ((_, _, payload),) = encode_change(RegisterBlocks(checked.blocks), STREAM)
    (_, packed, plain) = struct.unpack_from("<IQQ", payload)
    assert len(payload) == 20 + packed
    data = pa.decompress(payload[20:], decompressed_size=plain, codec="lz4")
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all().combine_chunks()


def read(*tables):
    return unpack_blocks(pack_tables(list(tables)), STREAM)


def with_column(table, name, values, kind=None):
    at = table.schema.get_field_index(name)
    return table.set_column(at, name, pa.array(values, kind or table.schema.field(name).type))


def test_what_was_packed_is_unpacked():
    (block,) = read(columns())
    assert block.ids.to_pylist() == ["a", "b", "c"]
    np.testing.assert_array_equal(block.high, [[4.0, np.nan, 6.0]])


AFTER, BY = {"after": [5, 6, 7]}, {"by": [0.1, None, 0.2]}
QUANTILE = {"attribute": ["price"] * 3, "phi": [0.5] * 3, "epsilon": [0.1] * 3, "last": [10] * 3}
THRESHOLD = {"total": [1, 2, 3]}
DAYS = THRESHOLD | {
    "every": pa.array([86_400] * 3, pa.duration("s")),
    "zone": ["UTC", None, "Asia/Tokyo"],
}


@pytest.mark.parametrize(
    ("kind", "more", "name", "values", "told"),
    [
        ("border", {}, "id", ["a", "b", "a"], "the id 'a' occurs twice"),
        ("threshold", DAYS, "zone", ["UTC", None, "Mars"], "no such time zone"),
        ("threshold", DAYS, "span.every.amount", [1, 5, 7], "divides a day evenly"),
        ("threshold", DAYS, "span.every.unit", [1, 3, 3], "numbers know no zones"),
        ("threshold", DAYS, "span.every.unit", [0, 3, 3], "give every too"),
        ("threshold", DAYS, "option.by_key", [True] * 3, "it has a key already"),
        ("threshold", DAYS, "option.negative_subtract", [True] * 3, "needs a stream with a weight"),
        ("border", {}, "id", ["a", "", "c"], "its id has not 1 to 1,024 bytes"),
        ("border", {}, "id", ["a", "b" * 2_000, "c"], "its id has not 1 to 1,024 bytes"),
        ("border", {}, "id", ["a", None, "c"], "the column 'id' has nulls"),
        ("border", {}, "key", ["a", None, "c"], "the column 'key' has nulls"),
        ("border", {}, "0.low", [1.0, float("nan"), 3.0], "query 1 of 3 can't be: a range begins"),
        ("border", {}, "0.low", [1.0, 2.0, 6.0], "query 2 of 3 can't be: a range holds no value"),
        ("border", {}, "0.high", [1.0, 3.0, None], "the column '0.high' has nulls"),
        ("border", {}, "option.silent", [True, None, False], "'option.silent' has nulls"),
        ("border", {"labels": ['{"a": "b"}'] * 3}, "labels", ["{}", "[]", None], "its labels are"),
        ("border", {"ttl": [1, 2, 3]}, "span.ttl.unit", [1, 9, 1], "ttl is in no unit"),
        ("border", {"ttl": [1, 2, 3]}, "span.ttl.amount", [1, -9, 1], "ttl is not positive"),
        ("border", {"ttl": [1, 2, 3]}, "span.ttl.amount", [1, 2**62, 1], "ttl is not positive"),
        ("border", {"ttl": [1.5, 2, 3]}, "span.ttl.amount", [-1, 2, 3], "ttl is not positive"),
        ("threshold", THRESHOLD, "number.total", [0, 1, 2], "total must be 1 or more"),
        ("quantile", QUANTILE, "number.phi", [0.5, 1.5, 1.0], "phi must be above 0"),
        ("quantile", QUANTILE, "number.phi", [0.5, float("nan"), 1.0], "phi is NaN"),
        ("quantile", QUANTILE, "number.epsilon", [0.1, 0.1, 1.0], "epsilon must be above 0"),
        ("quantile", QUANTILE, "number.last", [10, 2**31, 10], "last must be at most"),
        ("quantile", QUANTILE, "number.last", [10, 9, 10], "last is shorter than 1/epsilon"),
        ("quantile", QUANTILE | BY, "number.by", [0.0, -1.0, 1.0], "by must be above 0"),
        ("silence", AFTER, "-1.low", [0.0] * 3, "it restricts no attribute, and has limits"),
        ("silence", AFTER, "span.after.unit", [1, 0, 1], "a silence query needs after"),
        ("quantile", QUANTILE, "option.by_key", [True] * 3, "by_key is true, and it has a key"),
    ],
)
def test_values_that_no_registration_lets_through(kind, more, name, values, told):
    with pytest.raises(RegistryError, match=told):
        read(with_column(columns(kind, **more), name, values))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda table: table.drop_columns(["id"]), "the column 'id' is missing"),
        (lambda table: table.drop_columns(["0.high"]), "the column '0.high' is missing"),
        (lambda table: table.drop_columns(["option.silent"]), "'option.silent' is missing"),
        (lambda table: table.append_column("more", pa.array([1, 2, 3])), "no column 'more'"),
        (lambda table: table.append_column("id", table["id"]), "no column 'id'"),
        (
            lambda table: with_column(table, "id", [b"a", b"b", b"\xff"], pa.binary()),
            "no column 'id' of type binary",
        ),
        (
            lambda table: with_column(table, "0.low", [1, 2, 3], pa.int64()),
            "no column '0.low' of type int64",
        ),
        (
            lambda table: table.append_column("owner", pa.array(["a"] * 3).dictionary_encode()),
            "no column 'owner'|no place for a dictionary",
        ),
        (lambda table: table.slice(0, 0), "they hold no query"),
        (lambda table: pa.concat_tables([table, table]), "more than one batch"),
    ],
)
def test_columns_that_there_are_not(change, told):
    with pytest.raises(RegistryError, match=told):
        read(change(columns()))


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (b"kind", b"paint", "of the kind 'paint', which this everquery lacks"),
        (b"kind", b"threshold", "'option.silent'"),
        (b"attributes", b'["depth"]', "not in tuple"),
        (b"attributes", b'["price", "volume"]', "more or fewer ranges than attributes"),
        (b"attributes", b"{", "can't be read"),
        (b"first row", b"-1", "its row has no such number"),
        (b"first row", b"9" * 30, "can.t be"),
        (b"first row", b"9" * 9_999, "can.t be"),
        (b"first row", b"2147483647", "its row has no such number"),
    ],
)
def test_words_about_the_columns(name, value, told):
    table = columns()
    meta = {**table.schema.metadata, name: value}
    with pytest.raises(RegistryError, match=told):
        read(table.replace_schema_metadata(meta))


def test_without_any_words_about_the_columns():
    with pytest.raises(RegistryError):
        read(columns().replace_schema_metadata(None))


def test_keys_of_two_types_in_one_row():
    numbers = with_column(columns(), "id", ["d", "e", "f"])
    numbers = with_column(numbers, "key", [1, 2, 3], pa.int64())
    with pytest.raises(RegistryError, match="strings here and integers there"):
        read(columns(), numbers)
    with pytest.raises(RegistryError, match="the id 'a' occurs twice"):
        read(columns(), columns())


@pytest.mark.parametrize("stream", [eq.Stream("t", attributes=["price"])])
def test_queries_of_another_stream(stream):
    with pytest.raises(RegistryError, match="it has a key, and the stream has none"):
        unpack_blocks(pack_tables([columns()]), stream)
    timed = columns(ttl=[1, 2, 3]).drop_columns(["key"])
    with pytest.raises(RegistryError, match="ttl needs a stream with a time column"):
        unpack_blocks(pack_tables([timed]), stream)


class TestSizes:
    """Bytes that claim to be more than they are."""

    PACKED = pack_tables([columns()])

    @pytest.mark.parametrize("size", [10**11, 2**62, 2**64 - 1])
    def test_a_part_that_should_have_100_gigabytes(self, size):
        head, packed, _ = struct.unpack_from("<IQQ", self.PACKED)
        payload = struct.pack("<IQQ", head, packed, size) + self.PACKED[20:]
        with pytest.raises(RegistryError, match=r"bytes can't hold [\d,]+ bytes of columns"):
            unpack_blocks(payload, STREAM)

    @pytest.mark.parametrize("count", [0, 2, 2**31, 2**32 - 1])
    def test_parts_that_are_not_there(self, count):
        with pytest.raises(RegistryError, match="its columns can't be read"):
            unpack_blocks(struct.pack("<I", count) + self.PACKED[4:], STREAM)

    def test_a_cut(self):
        for size in range(len(self.PACKED)):
            with pytest.raises(RegistryError, match="its columns can't be read"):
                unpack_blocks(self.PACKED[:size], STREAM)

    def test_columns_that_are_compressed_once_more(self):
        sink = pa.BufferOutputStream()
        table = columns()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        plain = sink.getvalue()
        packed = pa.compress(plain, codec="lz4", asbytes=True)
        payload = struct.pack("<IQQ", 1, len(packed), len(plain)) + packed
        with pytest.raises(RegistryError, match="their buffers are compressed once more"):
            unpack_blocks(payload, STREAM)


def test_ids_of_what_can_still_be_read():
    other = with_column(columns(), "id", ["d", "e", "f"])
    payload = pack_tables([columns(), other])
    assert ids_of_parts(payload) == ["a", "b", "c", "d", "e", "f"]
    head = 4 + 2 * 16
    assert ids_of_parts(payload[:head] + b"\0" + payload[head + 1 :]) == []
    assert ids_of_parts(payload[: len(payload) - 1]) == []


class TestJson:
    @pytest.mark.parametrize(
        ("payload", "told"),
        [
            (b"", "its JSON can't be read"),
            (b"\xff", "its JSON can't be read"),
            (b"[" * 100_000, "its JSON can't be read"),
            (b"{}", "its JSON is no list"),
            (b"[1]", "it holds no query"),
            (b"[{}]", "it holds no query"),
            (b'[{"kind": "paint", "id": "a", "box": {}}]', "a kind of query that this everquery"),
            (b'[{"kind": "range", "id": "a"}]', "it holds no query"),
            (b'[{"kind": "range", "id": 7, "box": {}}]', "query id 7 is not a string"),
            (b'[{"kind": "range", "id": "\\ud800", "box": {}}]', "half a surrogate pair"),
            (b'[{"kind": "range", "id": "a", "box": {"price": [5, 1, "left"]}}]', "below"),
            (b'[{"kind": "range", "id": "a", "box": {"price": [NaN, 1, "left"]}}]', "NaN"),
            (b'[{"kind": "range", "id": "a", "box": {"depth": [1, 2, "left"]}}]', "no attribute"),
            (b'[{"kind": "range", "id": "a", "box": {}, "more": 1}]', "it holds no query"),
            (b'[{"kind": "range", "id": "a", "box": {}, "ttl": {"days": 1e300}}]', "Overflow"),
            (b'[{"kind": "range", "id": "a", "box": {}, "ttl": ' + b"9" * 9_999 + b"}]", "JSON"),
            (b'[{"kind": "range", "id": "a", "box": {}}, ' * 2 + b"1]", "can't be read|twice"),
        ],
    )
    def test_queries(self, payload, told):
        with pytest.raises(RegistryError, match=told):
            decode_change("register", payload, STREAM)

    def test_a_composite(self):
        payload = (
            b'[{"kind": "quantile", "id": "a", "attribute": "price", "phi": [0.5, 0.9],'
            b' "epsilon": 0.1}]'
        )
        with pytest.raises(RegistryError, match=r"position 3 \(register\): 'a' is a composite"):
            change_of(LogRow(3, 0, 1, "register", payload), STREAM)

    def test_more_queries_than_the_row_counts(self):
        payload = (
            b'[{"kind": "range", "id": "a", "box": {}}, {"kind": "range", "id": "b", "box": {}}]'
        )
        with pytest.raises(RegistryError, match="it names 2 queries, and should 1"):
            change_of(LogRow(3, 0, 1, "register", payload), STREAM)

    @pytest.mark.parametrize("operation", ["deregister", "pause", "resume", "lost"])
    @pytest.mark.parametrize("payload", [b"7", b"[7]", b"[null]", b'["\\ud800"]', b'[""]', b"["])
    def test_ids(self, operation, payload):
        with pytest.raises(RegistryError):
            decode_change(operation, payload, STREAM)
