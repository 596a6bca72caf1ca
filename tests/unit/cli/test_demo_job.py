"""The demo's job: the counts that it reports are those of a brute-force market."""

from collections import Counter

import pyarrow as pa
import pytest

from everquery.cli.demo_job import DemoJob, Plan
from everquery.sources import Market, market_queries

TINY = Plan(
    queries=240,
    symbols=3,
    batch_size=200,
    events=1_700,
    seconds=None,
    changes=20,
    fluctuations=(0.001, 0.01),
    width=0.2,
    seed=5,
)


def steady_clock():
    """Return a clock that says a second more each time it is asked."""
    ticks = iter(range(1_000_000))
    return lambda: float(next(ticks))


def run(plan):
    job = DemoJob(plan, clock=steady_clock())
    with job.engine:
        registered = list(job.register())
        beats = list(job.run())
    return job, registered, beats


def brute_force(plan):
    """Return the counts of notices by event, and of those at registration."""
    market = Market(symbols=plan.symbols, seed=plan.seed)
    counts, last = Counter(), {}

    def queries(kind, first, count):
        made = market_queries(
            count,
            kind,
            symbols=market.symbols,
            width=plan.width,
            seed=plan.seed,
            first=first,
        )
        return [{**each, "inside": False, "seen": 0} for each in made.to_pylist()]

    live = {kind: queries(kind, 0, n) for kind, n in plan.by_kind().items()}
    next_id = plan.by_kind()

    def border(query, price, at_registration):
        inside = query["price_lo"] <= price < query["price_hi"]
        if inside != query["inside"]:
            counts["enter" if inside else "leave"] += 1
            counts["registered"] += at_registration
        query["inside"] = inside

    def threshold(query, price, shares):
        """Count a trade; tell whether the query goes on."""
        if not query["price_lo"] <= price < query["price_hi"]:
            return True
        query["seen"] += shares
        if query["seen"] < query["total"]:
            return True
        counts["fire"] += 1
        query["seen"] = 0  # nothing is carried over
        counts["ended"] += not query["repeat"]
        return query["repeat"]

    done = 0
    batches = 0
    while done < plan.events:
        size = min(plan.batch_size, plan.events - done)
        batch = market.batch(size, fluctuation=plan.fluctuation(batches, 0.0))
        for kind, n in plan.changes_by_kind().items():
            fresh = queries(kind, next_id[kind], n)
            next_id[kind] += n
            oldest = {f"{kind}-{number:07}" for number in range(batches * n, (batches + 1) * n)}
            left = [query for query in live[kind] if query["id"] not in oldest]
            counts[f"{kind} dropped"] += len(live[kind]) - len(left)
            live[kind] = left + fresh
            for query in fresh if kind == "border" else ():
                if query["key"] in last:
                    border(query, last[query["key"]], True)
        for row in batch.to_pylist():
            last[row["symbol"]] = row["price"]
            for query in live["border"]:
                if query["key"] == row["symbol"]:
                    border(query, row["price"], False)
            for query in live["range"]:
                hit = query["price_lo"] <= row["price"] < query["price_hi"]
                counts["match"] += query["key"] == row["symbol"] and hit
            live["threshold"] = [
                query
                for query in live["threshold"]
                if query["key"] != row["symbol"] or threshold(query, row["price"], row["shares"])
            ]
        done += size
        batches += 1
    return counts


def test_counts_are_those_of_brute_force():
    job, registered, beats = run(TINY)
    expected = brute_force(TINY)
    assert registered == [192, 216, 240]
    assert len(beats) == job.tally.batches == 9
    assert job.tally.events == 1_700
    assert job.tally.told_at_registration == expected.pop("registered") > 0
    dropped = {kind: expected.pop(f"{kind} dropped") for kind in TINY.by_kind()}
    ended = expected.pop("ended")
    assert job.tally.notices == expected
    assert min(expected.values()) > 10
    assert job.tally.ended == {"border": 0, "range": 0, "threshold": ended}
    assert 0 < ended < expected["fire"]
    assert sum(beat.notices.num_rows for beat in beats) == job.tally.all_notices
    assert job.tally.registered == {"border": 144, "range": 18, "threshold": 18}
    assert (
        job.tally.dropped
        == dropped
        == {"border": 144, "range": 18} | {"threshold": dropped["threshold"]}
    )
    assert 0 < dropped["threshold"] < 18
    thresholds = 24 + 18 - dropped["threshold"] - ended
    live = {"range": 24, "border": 192, "threshold": thresholds, "quantile": 0}
    assert job.engine.stats()["queries"] == live


def test_runs_are_repeatable():
    first, second = (run(TINY) for _ in range(2))
    assert pa.concat_tables([beat.notices for beat in first[2]]).to_pylist() == (
        pa.concat_tables([beat.notices for beat in second[2]]).to_pylist()
    )


def test_warm_up_leaves_no_trace():
    warm, cold = (DemoJob(TINY, clock=steady_clock()) for _ in range(2))
    warm.warm_up()
    assert warm.tally.warm_up_seconds > 0
    assert warm.engine.stats() == cold.engine.stats()
    assert warm.market.batch(10).equals(cold.market.batch(10))


@pytest.mark.parametrize("batches", [2, 3, 4, 5, 8, 100])
def test_levels_take_turns(batches):
    plan = Plan(batch_size=10, events=10 * batches - 3, seconds=None, fluctuations=(0.1, 0.2))
    levels = [plan.fluctuation(batch, 0.0) for batch in range(batches)]
    assert set(levels) == {0.1, 0.2}
    assert levels[0] == 0.1


def test_levels_take_turns_by_time():
    plan = Plan(seconds=8.0, fluctuations=(0.1, 0.2))
    assert [plan.fluctuation(0, second) for second in range(8)] == [0.1, 0.1, 0.2, 0.2] * 2


def test_time_limit_ends_the_run():
    job, _, beats = run(Plan(queries=5, symbols=2, batch_size=10, seconds=30.0, changes=0))
    assert 30.0 <= job.tally.run_seconds < 40.0
    assert 1 < len(beats) < 30


def test_no_time_at_all():
    job, _, beats = run(Plan(queries=1, symbols=1, batch_size=1, seconds=0.0))
    assert beats == []
    assert job.tally.first_result_seconds is None
