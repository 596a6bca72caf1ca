"""The paper's Figure 2 and its worked examples, and the lists against brute force."""

from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.index.flags import LIVE
from everquery.index.rows import Grouped, Rows, Shape, Step
from everquery.index.sort_keys import CODE_MASK, PLACE_SHIFT, SLOT_MASK, SLOT_SHIFT
from everquery.kinds.border.border_lists import ENTER, LEAVE
from everquery.kinds.border.region_segments import RegionSegments, pyramid_levels


def figure_2() -> list[dict[str, tuple[float, float]]]:
    """Return every set of five ranges that Figure 2 and the text of bmq-index allow.

    The drawing is not in our text, but the text fixes it up to permutations: nine nodes, so nine
    distinct borders b0..b8 of ten; the value's moves from N5 to N8 and to N2 say which borders lie
    between. (The text's "{Q5} as -DQSet5" must read {Q3}: Q5 is entered on the way up from N5.)
    Q1, Q2 and Q3 begin at b0 or b1 (two borders for three queries), Q1 ends and Q4 begins at b2 and
    b3, Q3 ends at b4, Q5 begins and Q2 and Q4 end at b5 to b7, Q5 ends at b8.
    """
    figures = []
    for low in product((0.0, 1.0), repeat=3):
        if len(set(low)) < 2:
            continue
        for early in permutations((2.0, 3.0)):
            for late in permutations((5.0, 6.0, 7.0)):
                figure = {
                    "Q1": (low[0], early[0]),
                    "Q2": (low[1], late[1]),
                    "Q3": (low[2], 4.0),
                    "Q4": (early[1], late[2]),
                    "Q5": (late[0], 8.0),
                }
                figures.append(figure)
    return figures


def node(i: int) -> float:
    """Return a value in the region segment N_i, which is [b_(i-1), b_i)."""
    return i - 0.5


@pytest.mark.parametrize("ranges", figure_2())
@pytest.mark.parametrize(
    ("target", "entered", "left"),
    [(8, {"Q5"}, {"Q2", "Q4"}), (2, {"Q3", "Q1"}, {"Q4"})],
    ids=["N5 to N8", "N5 to N2"],
)
def test_worked_examples_of_section_3_3(ranges, target, entered, left):
    assert len({end for pair in ranges.values() for end in pair}) == 9
    engine = eq.Engine(eq.Stream("s", attributes=["v"]))
    engine.register([eq.Border(name, {"v": pair}) for name, pair in ranges.items()])
    engine.process(pa.table({"v": [node(5)]}))
    notices = engine.process(pa.table({"v": [node(target)]})).to_pylist()
    assert {row["query_id"] for row in notices if row["event"] == "enter"} == entered
    assert {row["query_id"] for row in notices if row["event"] == "leave"} == left


def walk_all(segment: RegionSegments, points, keys, n_keys, flags):
    """Return {(event, slot): code} of one batch of points, each key's first one being in sight."""
    order = np.argsort(keys, kind="stable")
    group_key, counts = np.unique(keys, return_counts=True)
    grouped = Grouped(
        group_key.astype(np.int32),
        np.concatenate([[0], np.cumsum(counts)]),
        2 * order + 1,
        np.ascontiguousarray(points[:, order]),
    )
    step = Step(
        grouped,
        np.zeros(keys.size, np.uint8),
        np.zeros(n_keys, np.uint8),
        np.zeros((len(points), n_keys)),
        flags,
        bool((flags == LIVE).all()),
    )
    segment.make_room(step.seen.size)
    crossings, n, _ = segment.walk(step, np.empty(4, np.int64))
    return {
        (int(key >> PLACE_SHIFT + 1), int(key >> SLOT_SHIFT & SLOT_MASK)): int(key & CODE_MASK)
        for key in crossings[:n]
    }


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("attributes", [1, 2, 3])
@pytest.mark.parametrize("jump", [0.01, 0.5])
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("width", [0.6, 0.05], ids=["wide", "narrow: far moves are searched"])
def test_walk_equals_brute_force(keyed, attributes, jump, dropped, width):
    rng = np.random.default_rng(attributes)
    n, n_keys, events = 400, 5, 600
    key = rng.integers(0, n_keys, n).astype(np.int32) if keyed else np.full(n, -1, np.int32)
    low = rng.uniform(-0.2, 1, (attributes, n)).round(2)
    high = low + rng.uniform(0.02, width, (attributes, n)).round(2)
    high[1:] += 0.5
    high[0, :20] = np.nan
    low[0, 20:40] = -np.inf
    flags = np.full(n, LIVE, np.uint16)
    if dropped:
        flags[::7] = 0
    rows = Rows(
        Shape(tuple(range(attributes)), keyed), np.arange(n, dtype=np.int32), key, low, high
    )
    keys = rng.integers(0, n_keys, events)
    points = np.empty((attributes, events))
    at = rng.uniform(0, 1, (n_keys, attributes))
    for i, k in enumerate(keys):
        at[k] = np.clip(at[k] + rng.uniform(-jump, jump, attributes), 0, 1).round(2)
        points[:, i] = at[k]
    expected = {}
    was = np.zeros((n_keys, n), bool)
    for i, k in enumerate(keys):
        point = points[:, i, None]
        now = ((low <= point) & ~(high <= point)).all(axis=0) & (flags == LIVE)
        now &= (key == k) | (key < 0)
        for slot in np.flatnonzero(now != was[k]):
            expected[i, int(slot)] = ENTER if now[slot] else LEAVE
        was[k] = now
    assert walk_all(RegionSegments.build(rows), points, keys, n_keys, flags) == expected
    assert len(expected) > 20


def test_pyramid_has_a_level_for_each_power_of_the_fanout():
    assert pyramid_levels(1).tolist() == [0]
    assert pyramid_levels(16).tolist() == [0, 1]
    assert pyramid_levels(17).tolist() == [0, 2, 3]
    assert pyramid_levels(1_000_000).tolist() == [0, 62_500, 66_407, 66_652, 66_668, 66_669]


def test_storage_is_constant_in_the_width_of_queries():
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 1e6, (1, 1_000))
    sizes = set()
    for width in (100.0, 1_000.0, 100_000.0):
        rows = Rows(
            Shape((0,), False),
            np.arange(1_000, dtype=np.int32),
            np.full(1_000, -1, np.int32),
            low,
            low + width,
        )
        sizes.add(RegionSegments.build(rows).nbytes())
    assert len(sizes) == 1
