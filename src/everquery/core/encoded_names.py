"""Names as bytes, one behind the other: what the loops of tables of names read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Int64s

_FEW = 2_048
_ALL_VALID, _EIGHTS = np.ones(_FEW, np.bool_), 8 * np.arange(_FEW + 1)  # nobody writes into these
_INT64 = pa.int64()
_TEXT_OFFSETS = {pa.string(): np.int32, pa.large_string(): np.int64}


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Encoded:
    """Names as bytes: what the kernels read.

    Attributes
    ----------
    data : uint8
    starts : int64, shape (n + 1,)
    valid : bool, shape (n,)
    """

    data: Bytes
    starts: Int64s
    valid: Bools

    def __len__(self) -> int:
        return int(self.valid.size)


def encode(names: pa.Array) -> Encoded:
    """Return the bytes of an Arrow array of strings or of 64-bit integers."""
    n = len(names)
    if names.null_count:
        valid = np.array(names.is_valid(), np.bool_)
    else:
        valid = _ALL_VALID[:n] if n <= _FEW else np.ones(n, np.bool_)
    buffers = names.buffers()
    kind = names.type
    if kind == _INT64:
        starts = _EIGHTS[: n + 1] if n <= _FEW else 8 * np.arange(n + 1)
        if names.offset:
            starts = starts + 8 * names.offset
        return Encoded(_bytes_of(buffers[1]), starts, valid)
    if n == 0:
        return Encoded(_bytes_of(None), np.zeros(1, np.int64), valid)
    if kind not in _TEXT_OFFSETS:
        raise TypeError(f"names are strings or 64-bit integers, not {kind}")
    offsets = np.dtype(_TEXT_OFFSETS[kind])  # the buffer may have some bytes more than these
    starts = np.frombuffer(buffers[1], offsets, n + 1, names.offset * offsets.itemsize)
    return Encoded(_bytes_of(buffers[2]), starts.astype(np.int64), valid)


def encode_one(name: str | int) -> Encoded:
    """Return the bytes of one name, without the cost of an Arrow array.

    Raises
    ------
    OverflowError
        If it is an integer of more than 64 bits.
    """
    if isinstance(name, str):
        data = np.frombuffer(name.encode(errors="surrogatepass"), np.uint8)
    else:
        data = np.frombuffer(name.to_bytes(8, "little", signed=True), np.uint8)
    return Encoded(data, np.array([0, data.size], np.int64), _ALL_VALID[:1])


def _bytes_of(buffer: pa.Buffer | None) -> Bytes:
    """Return a buffer's bytes, read only whatever Arrow says of it: one type, one compilation."""
    data = np.frombuffer(buffer if buffer is not None and buffer.size else b"", np.uint8)
    data.flags.writeable = False
    return data


def load_names(name: str, arrays: dict[str, Array]) -> Encoded:
    """Return names that `NameTable.save` put into arrays."""
    starts = arrays[f"{name}.starts"].astype(np.int64)
    data = arrays[f"{name}.data"]
    data.flags.writeable = False
    return Encoded(data, starts, np.ones(starts.size - 1, np.bool_))
