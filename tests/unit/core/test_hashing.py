"""Hashes against their standards, and what they are for."""

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.encoded_names import encode
from everquery.core.hashing import (
    LANES,
    fill_digests,
    key_of_bytes,
    no_digests,
    person_of,
    siphash,
)
from everquery.core.names import NameTable

NAMES = [b"", b"a", b"IBM", b"12345678", b"x" * 15, b"y" * 127, b"z" * 128, b"w" * 129, b"v" * 999]


def siphash_by_the_book(data, key):
    """SipHash-1-3, as its paper has it."""
    mask = 2**64 - 1
    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [
        k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573,
    ]  # fmt: skip

    def rotate(x, b):
        return (x << b | x >> (64 - b)) & mask

    def turn():
        v[0] = (v[0] + v[1]) & mask
        v[1] = rotate(v[1], 13) ^ v[0]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & mask
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & mask
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & mask
        v[1] = rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)

    tail = len(data) % 8
    padded = data[len(data) - tail :].ljust(7, b"\0") + bytes([len(data) % 256])
    for i in range(0, len(data) - tail, 8):
        word = int.from_bytes(data[i : i + 8], "little")
        v[3] ^= word
        turn()
        v[0] ^= word
    word = int.from_bytes(padded, "little")
    v[3] ^= word
    turn()
    v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        turn()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize("name", NAMES)
def test_siphash_is_siphash(name):
    key = bytes(range(16))
    data = np.frombuffer(b"??" + name + b"!", np.uint8)
    got = siphash(data, 2, 2 + len(name), key_of_bytes(key))
    assert int(got) == siphash_by_the_book(name, key)


def test_digests_are_those_of_blake2b():
    names = encode(pa.array([name.decode() for name in NAMES]))
    salts = np.arange(5, 5 + len(NAMES), dtype=np.uint64)
    digests = no_digests(len(NAMES))
    wanted = np.array([-1, *range(len(NAMES)), 3])
    person = person_of("everquery test")
    fill_digests(wanted, names.data, names.starts.astype(np.int32), salts, person, digests)
    for name, salt, got in zip(NAMES, salts.tolist(), digests, strict=True):
        said = {"salt": salt.to_bytes(8, "little"), "person": b"everquery test"}
        assert got.astype("<u8").tobytes() == blake2b(name, digest_size=16, **said).digest()


def test_digests_of_many_names_of_all_lengths_are_those_of_blake2b():
    texts = ["n" * (37 * number % 301) + str(number) for number in range(5 * LANES + 3)]
    names = encode(pa.array(texts))
    digests = no_digests(len(texts))
    there = digests[7] = 5, 6  # is not made again
    nothing = np.empty(0, np.uint64)
    person = person_of("everquery test")
    wanted = np.arange(len(texts))
    fill_digests(wanted, names.data, names.starts.astype(np.int32), nothing, person, digests)
    expected = [blake2b(text.encode(), digest_size=16, person=b"everquery test") for text in texts]
    got = digests.astype("<u8")
    assert tuple(got[7]) == there
    assert all(
        got[number].tobytes() == one.digest() for number, one in enumerate(expected) if number != 7
    )


def notice_ids(*events, queries=None, types=None):
    engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
    engine.register(queries or [eq.Range("q", {})])
    keys, values = zip(*events, strict=True)
    batch = pa.table({"k": pa.array(keys, types), "x": pa.array(values, pa.float64())})
    return engine.process(batch)["notice_id"].to_pylist()


def test_notice_ids_are_the_same_in_every_engine_and_differ_where_anything_does_13():
    events = [("IBM", 1.0), ("AAPL", 1.0), ("IBM", 2.0)]
    ids = notice_ids(*events)
    assert ids == notice_ids(*events)
    assert len(set(ids)) == 3
    others = notice_ids(*events, queries=[eq.Range("r", {}), eq.Range("q", {"x": (0, 9)})])
    assert not set(ids) & set(others)
    swapped = [
        eq.Quantile("m", "x", phi=phi, epsilon=epsilon) for phi, epsilon in ((0.1, 0.5), (0.5, 0.1))
    ]
    assert len({notice_ids(*events, queries=[each])[0] for each in swapped}) == 2


def test_an_integer_and_its_bytes_are_two_keys_13():
    word = "12345678"
    number = int.from_bytes(word.encode(), "little")
    assert notice_ids((number, 1.0), types=pa.int64()) != notice_ids((word, 1.0))


def test_every_table_has_a_secret_of_its_own_13():
    names = encode(pa.array(["IBM", "AAPL", "MSFT"]))
    tables = [NameTable(), NameTable()]
    assert [table.add(names).tolist() for table in tables] == [[0, 1, 2]] * 2
    first, second = (set(table.hashes[:3].tolist()) for table in tables)
    assert not first & second


def test_offsets_may_have_some_bytes_behind_them():
    names = pa.array(["a", "bc"])
    _, offsets, data = names.buffers()
    longer = pa.py_buffer(offsets.to_pybytes()[:12] + b"\0")
    strange = pa.Array.from_buffers(pa.string(), 2, [None, longer, data])
    found = encode(strange)
    assert found.starts.tolist() == [0, 1, 3]
    assert encode(strange.slice(1)).starts.tolist() == [1, 3]
