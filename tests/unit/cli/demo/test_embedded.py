"""The embedded demo: the counts that it reports are those of a brute-force market."""

from collections import Counter

import pyarrow as pa

import everquery as eq
from everquery.cli.demo.embedded import EmbeddedRun
from everquery.cli.demo.plan import Plan
from everquery.kinds import KINDS
from everquery.sources.market import Market, market_queries, market_stream
from tests.unit.cli.demo.clocks import steady_clock

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


def run(plan):
    job = EmbeddedRun(plan, clock=steady_clock())
    with job.engine:
        registered = [step.queries for step in job.register()]
        told = [job.recent() for done in job.run() if done]
    return job, registered, told


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

    windows = eq.Engine(market_stream())  # alone, they are told the same
    windows.register(plan.window(market.symbols[0].as_py()))
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
        counts["change"] += windows.process(batch).num_rows
        done += size
        batches += 1
    return counts


def test_counts_are_those_of_brute_force():
    job, registered, told = run(TINY)
    expected = brute_force(TINY)
    assert registered == [192, 216, 240]
    assert len(told) == job.tally.batches == 9
    assert job.tally.events == 1_700
    assert job.told_at_registration == expected.pop("registered") > 0
    dropped = {kind: expected.pop(f"{kind} dropped") for kind in TINY.by_kind()}
    ended = expected.pop("ended")
    assert job.tally.by_event == expected
    assert min(expected.values()) >= job.tally.batches  # a window is told once a batch
    assert job.tally.ended == {"border": 0, "range": 0, "threshold": ended}
    assert 0 < ended < expected["fire"]
    assert sum(notices.num_rows for notices in told) == job.tally.notices
    assert job.tally.registered == {"border": 144, "range": 18, "threshold": 18}
    assert (
        job.tally.dropped
        == dropped
        == {"border": 144, "range": 18} | {"threshold": dropped["threshold"]}
    )
    assert 0 < dropped["threshold"] < 18
    thresholds = 24 + 18 - dropped["threshold"] - ended
    live = {"range": 24, "border": 192, "threshold": thresholds, "window": 1}
    assert job.engine.stats()["queries"] == dict.fromkeys(KINDS, 0) | live


def test_runs_are_repeatable():
    first, second = (run(TINY) for _ in range(2))
    assert pa.concat_tables(first[2]).to_pylist() == pa.concat_tables(second[2]).to_pylist()


def test_warm_up_leaves_no_trace():
    warm, cold = (EmbeddedRun(TINY, clock=steady_clock()) for _ in range(2))
    warm.warm_up()
    assert warm.tally.seconds["warm_up"] > 0
    assert warm.engine.stats() == cold.engine.stats()
    assert warm.market.batch(10).equals(cold.market.batch(10))


def test_time_limit_ends_the_run():
    job, _, told = run(Plan(queries=5, symbols=2, batch_size=10, seconds=30.0, changes=0))
    assert 30.0 <= job.tally.run_seconds < 40.0
    assert 1 < len(told) < 30


def test_no_time_at_all():
    job, _, told = run(Plan(queries=1, symbols=1, batch_size=1, seconds=0.0))
    assert told == []
    assert job.tally.first_result_seconds is None
