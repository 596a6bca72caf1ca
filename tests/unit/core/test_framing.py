"""Frames: what goes in comes out, and bytes that nobody wrote are an error of ours."""

import json
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from everquery.core.framing import DamagedError, NewerError, pack, pieces, unpack, view

DTYPES = ["bool", "int8", "uint8", "int32", "uint16", "int64", "uint64", "float32", "float64"]
CONTENTS = st.dictionaries(
    st.text(max_size=5),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from(DTYPES).flatmap(
            lambda dtype: arrays_of.arrays(
                dtype, arrays_of.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=5)
            )
        ),
    ),
    max_size=5,
)


@given(CONTENTS)
def test_what_goes_in_comes_out(contents):
    header, arrays, strings = unpack(pack({"a": [1, None, "é"]}, contents))
    assert header == {"a": [1, None, "é"]}
    assert arrays.keys() | strings.keys() == contents.keys()
    for name, content in contents.items():
        if isinstance(content, bytes):
            assert strings[name] == content
        else:
            assert arrays[name].dtype == content.dtype
            assert arrays[name].shape == content.shape
            assert arrays[name].tobytes() == content.tobytes()
            assert arrays[name].flags.writeable


def test_arrays_of_a_frame_that_is_mapped_are_where_loops_want_them():
    content = {"a": np.arange(3, dtype=np.uint8), "b": b"x", "c": np.arange(5.0)}
    frame = b"".join(pieces({}, content, summed=False))
    _, views = view(memoryview(frame))
    for dtype, _, body in views.values():
        start = (
            np.frombuffer(body, np.uint8).ctypes.data - np.frombuffer(frame, np.uint8).ctypes.data
        )
        assert start % 64 == 0
        assert dtype is None or body.nbytes % dtype.itemsize == 0
    with pytest.raises(DamagedError, match="checksum"):
        unpack(frame)  # what is to be read must be summed


FRAME = pack({"name": "x"}, {"a": np.arange(9), "b": b"bytes"})


@pytest.mark.parametrize("place", range(0, len(FRAME), 7))
def test_a_bit_that_flips_is_found(place):
    damaged = bytearray(FRAME)
    damaged[place] ^= 1
    if bytes(damaged[-5:]) == FRAME[-5:] and place > len(FRAME) - 16:
        return  # between two arrays
    try:
        header, arrays, strings = unpack(bytes(damaged))
    except DamagedError:
        return
    # Nothing but the bytes between arrays may be anything.
    assert (header, strings) == ({"name": "x"}, {"b": b"bytes"})
    assert arrays["a"].tolist() == list(range(9))


@pytest.mark.parametrize("size", range(0, len(FRAME), 5))
def test_a_frame_that_is_cut_is_refused(size):
    with pytest.raises(DamagedError):
        unpack(FRAME[:size])


def forged(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    head = len(text).to_bytes(8, "little") + text
    return blake2b(head, digest_size=16).digest() + head + body


KNOWN = {"format": "everquery-frame", "version": 2, "sums": None}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"[" * 10**6, "can't be read"),
        (b"\xff", "can't be read"),
        ([], "another format"),
        ({"format": "x"}, "another format"),
        ({**KNOWN, "version": True}, "version is 'True'"),
        ({**KNOWN, "version": 0}, "version is '0'"),
        ({**KNOWN, "version": 1}, "version is '1'"),
        (KNOWN, "no array"),
        ({**KNOWN, "arrays": 7}, "no array"),
        ({**KNOWN, "arrays": [["a", "|O", [1]]]}, "no array"),
        ({**KNOWN, "arrays": [["a", "<i8", [-1]]]}, "no array"),
        ({**KNOWN, "arrays": [["a", "<i8", []]]}, "no array"),
        ({**KNOWN, "arrays": [["a", "bytes", [2, 2]]]}, "no array"),
        ({**KNOWN, "arrays": [["a", "<i8", [2**40]]]}, "longer than"),
        ({**KNOWN, "arrays": [["a", "<i8", [0]], ["a", "<i8", [0]]]}, "twice"),
    ],
)
def test_headers_that_nobody_wrote(header, said):
    with pytest.raises(DamagedError, match=said):
        unpack(forged(header))


def test_a_newer_frame_says_so():
    with pytest.raises(NewerError, match="has version 3, and this everquery reads up to 2"):
        unpack(forged({**KNOWN, "version": 3}))
