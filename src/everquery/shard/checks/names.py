"""What tables of names must be: ids, keys, owners and labels."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from everquery.core.names import MOST_BYTES
from everquery.errors import InvalidQueryError
from everquery.queries.labels import Labels
from everquery.queries.spec import LONGEST_ID
from everquery.shard.checks.invariants import Column, Contents, refuse

INTEGER_BYTES = 8


def check_names(contents: Contents, name: str, count: str) -> pa.Array:
    """Raise if names do not follow each other without gaps; return them as bytes.

    Parameters
    ----------
    count : str
        The size that their number is, perhaps a known one.
    """
    starts, data = f"{name}.starts", f"{name}.data"
    schema = {data: Column("uint8", (f"{name} bytes",))}
    contents.check(schema)
    size = contents[data].size
    if size > MOST_BYTES:
        refuse(f"array {data!r} has {size} bytes, and the limit is {MOST_BYTES}")
    schema = {starts: Column("int64", (f"{name} starts",), least=0, below=size + 1)}
    contents.check(schema)
    begins = contents[starts]
    if not begins.size or begins[0] != 0 or begins[-1] != size or (np.diff(begins) < 0).any():
        refuse(f"array {starts!r} does not divide {size} bytes into names")
    if contents.sizes.setdefault(count, begins.size - 1) != begins.size - 1:
        refuse(f"there are {begins.size - 1} {name}, and not {contents.sizes[count]}")
    buffers = [None, pa.py_buffer(begins.astype(np.int32)), pa.py_buffer(contents[data])]
    return pa.Array.from_buffers(pa.binary(), begins.size - 1, buffers)


def as_texts(names: pa.Array, name: str) -> pa.Array:
    """Return names as strings; raise if one is no UTF-8, or occurs twice."""
    try:
        texts = names.cast(pa.string())
        texts.validate(full=True)
    except pa.ArrowException:
        refuse(f"one of the {name} is no text in UTF-8")
    _check_distinct(texts, name)
    return texts


def _check_distinct(names: pa.Array, name: str) -> None:
    if len(names.unique()) != len(names):
        refuse(f"the {name} have one twice")


def check_ids(contents: Contents) -> None:
    """Raise if ids of queries can't be."""
    as_texts(check_names(contents, "ids", "queries"), "ids")
    lengths = np.diff(contents["ids.starts"])
    if lengths.size and not (lengths.min() > 0 and lengths.max() <= LONGEST_ID):
        refuse(f"an id is empty, or longer than {LONGEST_ID} bytes")


def check_keys(contents: Contents, kind: str | None, *, keyed: bool) -> None:
    """Raise if keys can't be of the type that they are said to have."""
    names = check_names(contents, "keys", "key names")
    if not keyed or kind is None:
        if len(names):
            refuse("there are keys, and none can be")
    elif kind == "int64":
        if (np.diff(contents["keys.starts"]) != INTEGER_BYTES).any():
            refuse("keys are integers, and not all have 8 bytes")
        _check_distinct(names, "keys")
    else:
        as_texts(names, "keys")
    contents.sizes["keys"] = len(names) if keyed else 1


def check_texts(contents: Contents) -> None:
    """Raise if owners and labels can't be."""
    texts = as_texts(check_names(contents, "texts", "texts"), "texts")
    schema = {
        f"queries.{name}": Column("int32", ("queries",), least=-1, below="texts")
        for name in ("owner", "labels")
    }
    contents.check(schema)
    for place in np.unique(contents["queries.labels"]).tolist():
        if place >= 0:
            _check_labels(texts[place].as_py())
    owners = np.unique(contents["queries.owner"])
    if (np.diff(contents["texts.starts"])[owners[owners >= 0]] == 0).any():
        refuse("an owner is empty")


def _check_labels(text: str) -> None:
    try:
        found = json.loads(text)
        fine = isinstance(found, dict) and bool(Labels(found).as_json())
    except (ValueError, RecursionError, InvalidQueryError):
        fine = False
    if not fine:
        refuse(f"labels are {text[:80]!r}, which is no JSON object of strings")
