"""The rivals at tiny size: they tell what the engine tells, and that is what brute force tells."""

import numpy as np
import pytest
from benchmarks.findings import Findings
from benchmarks.harness import Scale, UnequalResultsError
from benchmarks.rivals.by_duckdb import DuckBorders
from benchmarks.rivals.by_numpy import NumpyBorders, expand
from benchmarks.rivals.by_polars import PolarsBorders
from benchmarks.rivals.contest import Contest, Pace, expected_seconds
from benchmarks.rivals.contestant import ENTER, FIRE, LEAVE, MATCH, Told
from benchmarks.rivals.live import until_live
from benchmarks.rivals.ours import Ours, Pushed
from benchmarks.rivals.subject import KINDS
from benchmarks.rivals.tables import note_batches, note_single_events
from benchmarks.rivals.thresholds_by_numpy import first_to_reach
from benchmarks.rivals.work import Borders, Ranges, Thresholds

QUICK = Scale(quick=True)


def brute_borders(work, events, last):
    told = []
    for key, value in zip(events.key, events.value, strict=True):
        own = work.key == key
        was = (work.low <= last[key]) & (last[key] < work.high) & own
        now = (work.low <= value) & (value < work.high) & own
        told += [(query, ENTER, value) for query in np.flatnonzero(now & ~was)]
        told += [(query, LEAVE, value) for query in np.flatnonzero(was & ~now)]
        last[key] = value
    return told


def brute_ranges(work, events, _):
    return [
        (query, MATCH, value)
        for value in events.value
        for query in np.flatnonzero((work.low <= value) & (value < work.high))
    ]


def brute_thresholds(work, events, left):
    told = []
    for value, weight in zip(events.value, events.weight, strict=True):
        inside = (work.low <= value) & (value < work.high)
        fires = inside & (left > 0) & (left <= weight)
        left -= weight * inside
        told += [(query, FIRE, value) for query in np.flatnonzero(fires)]
    return told


BRUTE = {Borders: brute_borders, Ranges: brute_ranges, Thresholds: brute_thresholds}


def remembered(work):
    if isinstance(work, Borders):
        last = np.full(work.keys, -np.inf)
        first = work.first()
        last[first.key] = first.value
        return last
    return work.total.astype(np.float64) if isinstance(work, Thresholds) else None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.work.kind)
def test_all_tell_what_brute_force_tells(kind):
    work = kind.work(QUICK, 150)
    contestants = [build(work) for build in kind.builders]
    state = remembered(work)
    total = 0
    for size in (1, 1, 2, 40, 1_500):
        events = work.take(size)
        rows = BRUTE[kind.work](work, events, state)
        query, what, value = np.array(rows, np.float64).reshape(-1, 3).T
        expected = Told.sorted(query.astype(np.int64), what.astype(np.int64), value)
        for contestant in contestants:
            if size > (contestant.largest_batch or size):
                continue
            found = contestant.process(contestant.prepare(events))
            told = contestant.told(found, events)
            told.check(contestant.name, expected, named=contestant.names_events)
            assert contestant.count(found) == len(rows)
        total += len(rows)
    assert total > 10
    for contestant in contestants:
        contestant.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.work.kind)
def test_a_contest_times_everybody_and_writes_tables(kind):
    contest = Contest(kind.work(QUICK, 100), kind.builders, kind.reference)
    cells = {100: [contest.play(Pace(size, 2, 4)) for size in (1, 30)]}
    contest.close()
    findings = Findings({})
    note_batches(findings, kind.work.kind, cells, kind.not_naming)
    note_single_events(findings, {kind.work.kind: cells})
    names = {each.name for each in kind.builders}
    single, many = cells[100]
    assert (set(single.seconds), set(many.seconds)) == (names, names - {"everquery, push"})
    assert [len(table.rows) for table in findings.tables] == [2, 1]
    for table in findings.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_nothing_is_timed_where_counts_differ():
    class Silent(NumpyBorders):
        name = "silent"

        def process(self, prepared):
            return {name: column[:0] for name, column in super().process(prepared).items()}

    contest = Contest(Borders(QUICK, 200), [Ours, NumpyBorders, Silent], NumpyBorders.name)
    with pytest.raises(UnequalResultsError, match="silent"):
        contest.play(Pace(500, 1, 3))
    contest.close()


def test_who_would_take_too_long_is_left_out_with_the_reason():
    contest = Contest(Borders(QUICK, 50), [Ours, NumpyBorders, PolarsBorders], NumpyBorders.name)
    contest._calls["Polars"] = [(1, 0.1), (10, 10.0)]
    cell = contest.play(Pace(1_000, 1, 3))
    contest.close()
    assert cell.left_out == {"Polars": "left out: 1,099 s a call expected"}
    assert set(cell.seconds) == {"everquery", "NumPy"}


def test_who_is_expected_to_take_too_long_may_show_that_it_does_not():
    contest = Contest(Borders(QUICK, 50), [Ours, NumpyBorders, PolarsBorders], NumpyBorders.name)
    contest._calls["Polars"] = [(1, 0.1), (10, 0.4)]  # some 33 s for 1,000, by these
    cell = contest.play(Pace(1_000, 1, 3))
    contest.close()
    assert not cell.left_out
    assert "Polars" in cell.seconds


def test_expected_seconds_go_on_along_the_line():
    assert expected_seconds([(1, 5.0)], 100) == 0
    assert expected_seconds([(10, 1.0), (20, 2.0)], 40) == pytest.approx(4)
    assert expected_seconds([(10, 2.0), (20, 1.0)], 40) == 1


def test_new_queries_are_told_by_everybody():
    findings = Findings({})
    builders = (Ours, NumpyBorders, PolarsBorders, DuckBorders, Pushed)
    live = until_live(findings, Borders(QUICK, 100), builders)
    assert list(live) == ["everquery", "NumPy", "Polars", "DuckDB", "everquery, push"]
    assert len(findings.tables) == 1


def test_numpy_borders_take_new_queries_anywhere():
    work = Borders(QUICK, 60)
    ours, by_hand = Ours(work), NumpyBorders(work)
    generator = QUICK.generator(1)
    for turn in range(20):
        key = int(generator.integers(work.keys))
        last = by_hand.value[key]
        low = last + float(generator.uniform(1, 50_000))  # no key is inside yet
        for each in (ours, by_hand):
            each.register(key, low, low + 20_000.0 * (1 + turn % 3))
        events = work.take(100)
        told = [e.told(e.process(e.prepare(events)), events) for e in (ours, by_hand)]
        told[1].check("NumPy", told[0], named=True)
    ours.close()


def test_expand_lists_the_places_of_spans():
    place, span = expand(np.array([3, 5, 5]), np.array([5, 5, 8]))
    assert place.tolist() == [3, 4, 5, 6, 7]
    assert span.tolist() == [0, 0, 2, 2, 2]


@pytest.mark.parametrize("size", [1, 2, 5, 64, 100])
def test_the_first_row_to_reach_is_that_of_adding_up(size):
    generator = QUICK.generator(size)
    row = generator.permutation(size)
    weight = generator.integers(1, 9, size)
    for _ in range(20):
        begin, end = np.sort(generator.integers(0, size + 1, 2))
        if begin == end:
            continue
        inside = np.argsort(row[begin:end])
        sums = np.cumsum(weight[begin:end][inside])
        need = int(generator.integers(1, sums[-1] + 1))
        expected = row[begin:end][inside][np.searchsorted(sums, need)]
        spans = np.array([begin]), np.array([end]), np.array([float(need)])
        assert first_to_reach(row, weight, *spans).tolist() == [expected]
