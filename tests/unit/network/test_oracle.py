"""Random networks give what an oracle says that was written from the page and the papers alone.

How rows are divided into batches, whether boxes are optimised, and snapshots between batches
must not matter.
"""

import datetime as dt
import random

import pytest

import everquery as eq
from everquery import network as n
from tests.unit.network import oracle as o
from tests.unit.network.plants import bag
from tests.unit.network.worlds import BEGINNING, World

WORLDS = 10


def given(world, seed):
    """Return the batches of a random division, in the order of both streams' times."""
    pick = random.Random(seed)
    streams = {name: batch.to_pylist() for name, batch in world.given.items()}
    parts = pick.choice([1, 2, 5, 12])
    found = []
    for part in range(parts):
        batch = {}
        for name, rows in streams.items():
            cut = [len(rows) * at // parts for at in (part, part + 1)]
            batch[name] = world.given[name].slice(cut[0], cut[1] - cut[0])
        found.append({name: batch[name] for name in pick.sample(list(batch), 2)})
    return found


def outcome(world, batches, *, optimize, restored):
    run = world.network.start(optimize=optimize)
    found = {name: [] for name in world.network.outputs}

    def take(outputs):
        for name, table in outputs.items():
            found[name] += table.to_pylist()

    for at, batch in enumerate(batches):
        take(run.process(batch))
        if restored and at in (0, len(batches) // 2):
            state = run.snapshot()
            run = world.network.start(optimize=optimize)
            run.restore(state)
    take(run.finish())
    return found


def plain(row, names):
    """Return a row as the oracle has it: seconds for timestamps, numbers of 9 digits."""
    found = []
    for name in sorted(names):
        value = row[name]
        if isinstance(value, dt.datetime):
            value = (value - BEGINNING).total_seconds()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = round(float(value), 9) + 0.0
        found.append((name, value))
    return repr(found)


def check(seed):
    world = World(seed)
    expected = world.expected()
    orders = {}
    for way in range(4):
        batches = given(world, seed * 10 + way)
        found = outcome(world, batches, optimize=way % 2 == 0, restored=way > 1)
        for name, rows in found.items():
            names = expected[name][0].keys() if expected[name] else ()
            told = [plain(row, names) for row in rows]
            assert sorted(told) == sorted(plain(row, names) for row in expected[name]), (
                f"{name}, way {way}\n{world.network.dump()}"
            )
            if world.ordered(name):
                assert orders.setdefault(name, told) == told, f"{name}\n{world.network.dump()}"


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_random_network_gives_what_the_oracle_says(seed):
    check(seed)


def disordered(pick):
    """Return batches of rows that come late now and then."""
    time, batches = 0, []
    for _ in range(pick.randint(1, 8)):
        rows = []
        for _ in range(pick.randint(0, 8)):
            time += pick.randint(0, 4)
            at = max(time - pick.choice([0, 0, 0, 3, 9, 20]), 0)
            rows.append({"k": pick.choice("abc"), "t": at, "x": pick.choice([None, 1.0, 2.5])})
        batches.append(rows)
    return batches


def late_world(seed):
    """Return a box with windows of time, what the oracle has for it, and whether it slides."""
    pick = random.Random(seed)
    kind, size = pick.choice([n.Tumble, n.Slide, n.Slide, n.Latch]), pick.randint(1, 10)
    groups, slide = pick.choice([(), ("k",)]), kind is n.Slide
    step = pick.choice([None, 1, 3, size]) if slide else None
    items = {"c": o.Term("count(*)", len, "whole"), "m": o.aggregate("max", "x", "number")}
    how = o.Windows("time", size, groups, items, step, latch=kind is n.Latch)
    sizes = {"last" if slide else "every": {"time": size}} | (
        {"every": {"time": step}} if step else {}
    )
    select = ", ".join([*groups, *(f"{term.sql} AS {name}" for name, term in items.items())])
    return kind("f", by=groups, select=select, **sizes), how, slide, disordered(pick)


def check_late(seed):
    box, how, slide, batches = late_world(seed)
    grace = random.Random(seed).choice([None, None, 0, 5])
    stream = eq.Stream("s", key="k", time="t", attributes=["x"], grace=grace)
    boxes = {"f": n.Filter("s", where="x IS NULL OR x > 0"), "w": box}
    network = eq.Network("n", [stream], boxes, {"out": "w"})
    run, told = network.start(optimize=seed % 2 == 0), []
    expected, late = o.told_so_far(batches, how, slide=slide, grace=grace)
    for batch, wanted in zip(batches, expected, strict=True):
        told += run.process({"s": batch})["out"].to_pylist()
        assert bag(told) == bag(wanted), (batches, grace, network.dump())
        state = run.snapshot()
        run = network.start(optimize=seed % 2 == 0)
        run.restore(state)
    assert run.dead_letters().num_rows <= late  # those since the last snapshot


@pytest.mark.parametrize("seed", range(2 * WORLDS))
def test_windows_are_told_in_time_and_late_rows_are_refused(seed):
    check_late(seed)
