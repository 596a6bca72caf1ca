"""A few boxes tell what the indexed ones do."""

import numpy as np
import pytest

from everquery.index.cei import CeiSegment
from everquery.index.few_boxes import FewBoxes
from everquery.index.flags import LIVE, PAUSED
from everquery.index.rows import Grouped, Rows, Shape, Step


def step_of(rng, keys, attributes, flags):
    sizes = rng.integers(0, 6, keys)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = int(start[-1])
    values = np.vstack([rng.integers(0, 9, (attributes, n)).astype(float), np.zeros(n)])
    grouped = Grouped(np.arange(keys, dtype=np.int32), start, np.arange(n) * 2 + 1, values)
    seen, last = np.zeros(keys, np.uint8), np.zeros((attributes, keys))
    return Step(grouped, np.zeros(n, np.uint8), seen, last, flags, all_live=False)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("keyed", [True, False])
def test_equal_to_indexed_boxes(seed, keyed):
    rng = np.random.default_rng(seed)
    n, attributes = int(rng.integers(1, 9)), int(rng.integers(1, 3))
    low = rng.integers(0, 8, (attributes, n)).astype(float)
    high = low + rng.integers(1, 5, (attributes, n))
    high[rng.random(high.shape) < 0.2] = np.nan
    key = rng.integers(0, 4, n) if keyed else np.full(n, -1)
    shape = Shape(tuple(range(attributes)), keyed)
    rows = Rows(shape, np.arange(n, dtype=np.int32), key.astype(np.int32), low, high)
    flags = np.full(n, LIVE, np.uint16)
    flags[rng.random(n) < 0.2] |= PAUSED
    flags[rng.random(n) < 0.2] = 0
    step = step_of(rng, 4, attributes, flags)
    found = []
    for segment in (FewBoxes.build(rows), CeiSegment.build(rows)):
        ends, out = segment.search(step, np.empty(1, np.int32), 0)
        begins = np.concatenate([[0], ends[:-1]])
        found.append([sorted(out[a:b].tolist()) for a, b in zip(begins, ends, strict=True)])
    assert found[0] == found[1]


def test_other_slots():
    rows = Rows(
        Shape((0,), False),
        np.array([1], np.int32),
        np.array([-1], np.int32),
        np.zeros((1, 1)),
        np.ones((1, 1)),
    )
    moved = FewBoxes.build(rows).renumbered(np.array([0, 7], np.int32))
    assert moved.rows.slot.tolist() == [7]
    assert moved.nbytes() > 0
