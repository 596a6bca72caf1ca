"""Which queries of two blocks say the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Bools
from everquery.queries.block import TEXTS, QueryBlock
from everquery.queries.spans import NO_SPAN, no_spans

BY_LABEL = ("owner", "labels")
"""What no answer depends on."""


def answer_the_same(ours: QueryBlock, theirs: QueryBlock) -> Bools:
    """Tell which rows of two blocks of one length differ in nothing that answers depend on.

    Ids are not compared, nor owners and labels.
    """
    n = len(ours)
    same = np.ones(n, np.bool_)
    shapes = [(block.kind, block.attributes, block.keys is None) for block in (ours, theirs)]
    if shapes[0] != shapes[1]:
        return ~same
    for ends in ("low", "high"):
        same &= _equal(getattr(ours, ends), getattr(theirs, ends)).all(axis=0)
    for columns in ("options", "numbers"):
        for name, values in getattr(ours, columns).items():
            same &= _equal(values, getattr(theirs, columns)[name])
    for name in ours.spans.keys() | theirs.spans.keys():
        a, b = (block.spans.get(name, no_spans(n)) for block in (ours, theirs))
        same &= (a.unit == b.unit) & ((a.unit == NO_SPAN) | (a.amount == b.amount))
    texts = (name for name in TEXTS if name not in BY_LABEL)
    return same & have_same_texts(ours, theirs, ("keys", *texts))


def have_same_texts(ours: QueryBlock, theirs: QueryBlock, names: Iterable[str]) -> Bools:
    """Tell which rows of two blocks of one length have the same keys, owners or labels."""
    same = np.ones(len(ours), np.bool_)
    for name in names:
        same &= _equal_texts(getattr(ours, name), getattr(theirs, name), len(ours))
    return same


def _equal(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Bools:
    """Compare numbers; NaN is equal to itself."""
    equal: Bools = (a == b) | ((a != a) & (b != b))
    return equal


def _equal_texts(a: pa.Array | None, b: pa.Array | None, n: int) -> Bools:
    """Compare keys, owners or labels; null, or no column at all, is equal to itself."""
    given = b if a is None else a
    if given is None:
        return np.ones(n, np.bool_)
    a, b = (pa.nulls(n, given.type) if texts is None else texts for texts in (a, b))
    if a.type != b.type:
        return np.zeros(n, np.bool_)
    both_null = pc.and_(a.is_null(), b.is_null())
    return np.asarray(pc.or_(pc.equal(a, b).fill_null(False), both_null))
