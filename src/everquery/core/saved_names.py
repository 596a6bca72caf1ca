"""What saved tables of names must be: ids, keys, owners and labels."""

from __future__ import annotations

import pyarrow as pa

from everquery.core.invariants import Column, Contents, refuse
from everquery.core.names import MOST_BYTES


def check_names(contents: Contents, name: str, count: str) -> pa.Array:
    """Raise if names do not follow each other without gaps; return them as bytes.

    Parameters
    ----------
    count : str
        The size that their number is, perhaps a known one.
    """
    starts, data = f"{name}.starts", f"{name}.data"
    contents.check({data: Column("uint8", (f"{name} bytes",))})
    size = contents[data].size
    if size > MOST_BYTES:
        refuse(f"array {data!r} has {size} bytes, and the limit is {MOST_BYTES}")
    contents.check({starts: Column("int32", (f"{name} starts",), least=0, below=size + 1)})
    begins = contents[starts]
    if not begins.size or begins[0] != 0 or begins[-1] != size or (begins[1:] < begins[:-1]).any():
        refuse(f"array {starts!r} does not divide {size} bytes into names")
    if contents.sizes.setdefault(count, begins.size - 1) != begins.size - 1:
        refuse(f"there are {begins.size - 1} {name}, and not {contents.sizes[count]}")
    buffers = [None, pa.py_buffer(begins), pa.py_buffer(contents[data])]
    return pa.Array.from_buffers(pa.binary(), begins.size - 1, buffers)


def as_texts(names: pa.Array, name: str) -> pa.Array:
    """Return names as strings; raise if one is no UTF-8.

    Whether one occurs twice is seen when they are numbered.
    """
    try:
        return names.cast(pa.string())  # checks what it casts
    except pa.ArrowException:
        refuse(f"one of the {name} is no text in UTF-8")
