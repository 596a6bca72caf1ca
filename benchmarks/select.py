# ruff: noqa: A005 - nobody imports the standard library's from here
"""Select queries: reading, arrival and joins, in the set-up of the PSoup paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.findings import Figure, Findings, Panel, Table
from benchmarks.harness import Scale, Stopwatch, check_count, race
from everquery.core.arrays import Floats
from everquery.kinds.select.joins import pairs_of
from everquery.kinds.select.tables import Side

NAME = "select"
TOP = 256  # values are whole numbers below
ATTRIBUTES = ("a", "b", "c", "d")
STREAM = eq.Stream("r", attributes=ATTRIBUTES)
OTHER = eq.Stream("s", attributes=ATTRIBUTES)
BATCH = 8_192
PAPER_7 = (
    "evaluating anew is one to two orders of magnitude slower than reading what was matched before,"
    " and slower still with longer windows"
)


def constants(rng: np.random.Generator, n: int) -> Floats:
    """Return constants as the paper draws them: a fifth are multiples of 32."""
    return np.where(
        rng.random(n) < 0.2, rng.integers(0, TOP // 32, n) * 32, rng.integers(0, TOP, n)
    ).astype(np.float64)


def rows(rng: np.random.Generator, n: int) -> dict[str, Floats]:
    """Return rows of whole numbers."""
    return {name: rng.integers(0, TOP, n).astype(np.float64) for name in ATTRIBUTES}


def intervals(rng: np.random.Generator, factors: int, *, equal: bool) -> dict[str, Any]:
    """Return a box over so many attributes: single values, or intervals of any size."""
    box = {}
    for name in ATTRIBUTES[:factors]:
        low = float(constants(rng, 1)[0])
        high = low if equal else min(low + float(rng.integers(1, TOP)), TOP - 1.0)
        box[name] = eq.Interval(low, high, closed="both")
    return box


def run(scale: Scale) -> Findings:
    """Measure all of it."""
    found = Findings({"values": TOP, "batch": BATCH})
    response_times(scale, found)
    predicates(scale, found)
    joins(scale, found)
    arrival(scale, found)
    composite(scale, found)
    million(scale, found)
    return found


# -- reading ----------------------------------------------------------------------------------


def response_times(scale: Scale, found: Findings) -> None:
    """Figure 7: how long it takes to read an answer, by window."""
    windows = [2**n for n in scale.pick(range(7, 17), (7, 10))]
    for letter, equal in (("a", True), ("b", False)):
        for what in ("*", "COUNT(*)"):
            series: dict[str, list[float | None]] = {}
            for window in windows:
                for name, seconds in read_once(scale, window, 2, equal=equal, what=what).items():
                    series.setdefault(name, []).append(seconds * 1e6)
            told = "equal values" if equal else "intervals"
            shown = "rows" if what == "*" else "a count"
            found.figures.append(
                Figure(
                    f"select_7{letter}_{'rows' if what == '*' else 'count'}",
                    f"Reading {shown}: {told}, two attributes",
                    "rows of the window",
                    [float(window) for window in windows],
                    [Panel("response time", "µs", series)],
                    paper=PAPER_7,
                )
            )
            for peer in ("NumPy anew", "DuckDB anew"):
                ratio = (series[peer][-1] or 0) / (series["held (auto)"][-1] or 1)
                found.at_least(
                    f"reading {shown} ({told}, {windows[-1]:,} rows), times faster than {peer}",
                    ratio,
                    100.0,
                    "times",
                )


def read_once(
    scale: Scale, window: int, factors: int, *, equal: bool, what: str
) -> dict[str, float]:
    """Return the seconds that each way takes to answer one query."""
    rng = scale.generator(window, factors, equal)
    data, box = rows(rng, window), intervals(rng, factors, equal=equal)
    plan = f"SELECT {what} BEGIN NOW - {window} ROWS END NOW"
    engine = eq.Engine(STREAM)
    engine.register(
        [eq.Select("auto", plan, box=box), eq.Select("lazy", plan, box=box, upkeep="lazy")]
    )
    for begin in range(0, window, BATCH):
        engine.process(
            pa.table({name: column[begin : begin + BATCH] for name, column in data.items()})
        )
    table = pa.table(data)
    where = " AND ".join(f"{name} BETWEEN {each.lo} AND {each.hi}" for name, each in box.items())
    counted = what != "*"

    def numpy_anew() -> Any:  # noqa: ANN401 - an array or a number
        kept = np.ones(window, np.bool_)
        for name, each in box.items():
            kept &= (data[name] >= each.lo) & (data[name] <= each.hi)
        if counted:
            return int(np.count_nonzero(kept))
        return {name: column[kept] for name, column in data.items()}

    def lazy_anew() -> pa.Table:
        engine._shard.asked("invoke").index.results.forget_held()  # type: ignore[attr-defined]
        return engine.invoke("lazy")

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE r AS FROM given")
        text = f"SELECT {what} FROM r WHERE {where}"
        theirs = connection.sql(text).to_arrow_table()
        ours = engine.invoke("auto")
        check_count("rows", theirs.num_rows, ours.num_rows)
        if counted:
            check_count("count", theirs.column(0)[0].as_py(), ours["count"][0].as_py())
        timings = race(
            {
                "held (auto)": lambda: engine.invoke("auto"),
                "matched anew (lazy)": lazy_anew,
                "NumPy anew": numpy_anew,
                "DuckDB anew": lambda: connection.sql(text).to_arrow_table(),
            }
        )
    return {name: timing.best for name, timing in timings.items()}


def predicates(scale: Scale, found: Findings) -> None:
    """Table 2: how long it takes to read an answer, by the number of intervals."""
    window = scale.pick(2**15, 2**9)
    lines: list[list[str | float | None]] = []
    for factors in (1, 2, 4):
        seconds = read_once(scale, window, factors, equal=False, what="*")
        lines.append([str(factors), *(each * 1e3 for each in seconds.values())])
    names = ["intervals", "held, ms", "lazy, ms", "NumPy, ms", "DuckDB, ms"]
    note = "The paper, ms: evaluating anew 0.39, 0.49, 0.83; its partial form 0.047, 0.024, 0.013."
    found.tables.append(Table("select_table_2", f"Reading, {window:,} rows", names, lines, note))


# -- joins ------------------------------------------------------------------------------------


def joins(scale: Scale, found: Findings) -> None:
    """Figure 8: how long it takes to read a join, by the window of each stream."""
    windows = scale.pick((64, 128, 256, 448, 576), (64,))
    series: dict[str, list[float | None]] = {"held": [], "DuckDB anew": []}
    for window in windows:
        rng = scale.generator(8, window)
        left, right = rows(rng, window), rows(rng, window)
        engine = eq.Engine([STREAM, OTHER])
        plan = (
            "SELECT r.a, s.b FROM r, s WHERE r.a < s.b - 100 AND r.a > 32 AND s.b < 200"
            f" BEGIN NOW - {window} ROWS END NOW"
        )
        engine.register(eq.Select("j", plan))
        engine.process(pa.table(left), stream="r")
        engine.process(pa.table(right), stream="s")
        tables = {"r": pa.table(left), "s": pa.table(right)}
        text = "SELECT r.a, s.b FROM r, s WHERE r.a < s.b - 100 AND r.a > 32 AND s.b < 200"
        with duckdb.connect(config={"threads": 1}) as connection:
            for name, table in tables.items():
                connection.register("given", table)
                connection.execute(f"CREATE TABLE {name} AS FROM given")
            theirs = connection.sql(text).to_arrow_table()
            check_count("pairs", theirs.num_rows, engine.invoke("j").num_rows)
            timings = race(
                {
                    "held": lambda engine=engine: engine.invoke("j"),  # type: ignore[misc]
                    "DuckDB anew": lambda c=connection, text=text: c.sql(text).to_arrow_table(),  # type: ignore[misc]
                }
            )
        for name, timing in timings.items():
            series[name].append(timing.best * 1e3)
    found.figures.append(
        Figure(
            "select_8",
            "Reading joins",
            "rows of the window, each stream",
            [float(window) for window in windows],
            [Panel("response time", "ms", series)],
            paper="evaluating anew takes two orders of magnitude longer than reading pairs",
        )
    )


# -- arrival ----------------------------------------------------------------------------------


def arrival(scale: Scale, found: Findings) -> None:
    """Figure 9: how many rows a second are taken in, by the number of queries."""
    counts = scale.pick((128, 512, 1_024, 2_048, 4_096), (128,))
    series: dict[str, list[float | None]] = {"one index": [], "each query by itself": []}
    batch = scale.pick(BATCH, 512)
    for count in counts:
        rng = scale.generator(9, count)
        boxes = [intervals(rng, 2, equal=False) for _ in range(count)]
        plan = "SELECT * BEGIN NOW - 1000 ROWS END NOW"
        engine = eq.Engine(STREAM)
        engine.register([eq.Select(f"q{i}", plan, box=box) for i, box in enumerate(boxes)])
        data = rows(rng, batch)
        table = pa.table(data)
        engine.process(table)

        def each_by_itself(boxes: list[Any] = boxes, data: dict[str, Floats] = data) -> None:
            for box in boxes:
                kept = np.ones(batch, np.bool_)
                for name, each in box.items():
                    kept &= (data[name] >= each.lo) & (data[name] <= each.hi)
                np.flatnonzero(kept)

        timings = race(
            {
                "one index": lambda engine=engine, table=table: engine.process(table),  # type: ignore[misc]
                "each query by itself": each_by_itself,
            }
        )
        for name, timing in timings.items():
            series[name].append(batch / timing.best)
    found.figures.append(
        Figure(
            "select_9",
            "Rows taken in",
            "queries",
            [float(count) for count in counts],
            [Panel("arrival rate", "rows/s", series)],
            paper="with indexed predicates ten times as many rows as without",
        )
    )
    ratio = (series["one index"][-1] or 0) / (series["each query by itself"][-1] or 1)
    found.at_least(f"arrival with {counts[-1]:,} queries, indexed and not", ratio, 10.0, "times")


def composite(scale: Scale, found: Findings) -> None:
    """Figure 11: rows of one stream meet the other's together, or each by itself."""
    size = scale.pick(4_096, 128)
    lines: list[list[str | float | None]] = []
    for told, condition in (("=", "r.a = s.b"), ("<", "r.a < s.b - 200")):
        rng = scale.generator(11)
        engine = eq.Engine([STREAM, OTHER])
        plan = f"SELECT r.a FROM r, s WHERE {condition} BEGIN NOW - {size} ROWS END NOW"
        engine.register(eq.Select("j", plan))
        engine.process(pa.table(rows(rng, size)), stream="r")
        engine.process(pa.table(rows(rng, size)), stream="s")
        check_count("pairs", engine.invoke("j").num_rows, len(_separate(engine, size)))
        timings = race(
            {
                "together": lambda engine=engine: _together(engine, size),  # type: ignore[misc]
                "each by itself": lambda engine=engine: _separate(engine, size),  # type: ignore[misc]
            }
        )
        lines.append([told, *(timing.best * 1e3 for timing in timings.values())])
    names = ["comparison", "together, ms", "each by itself, ms"]
    found.tables.append(Table("select_11", f"Probing with {size:,} rows", names, lines))


def _sides(engine: Any) -> tuple[Any, list[Side]]:  # noqa: ANN401 - an engine of two streams
    shards = [each._shard for each in engine._engines.values()]
    asked = [shard.asked("invoke") for shard in shards]
    plan = asked[0].index.plans[0]
    return plan, [Side(each.stream, each.index.store, each.keys, None) for each in asked]


def _together(engine: Any, size: int) -> Any:  # noqa: ANN401 - as above
    plan, sides = _sides(engine)
    every = np.arange(size)
    return pairs_of(plan, sides, every, every)


def _separate(engine: Any, size: int) -> list[Any]:  # noqa: ANN401 - as above
    plan, sides = _sides(engine)
    every = np.arange(size)
    found: list[Any] = []
    for row in range(size):
        found += pairs_of(plan, sides, every[row : row + 1], every)[0].tolist()
    return found


def million(scale: Scale, found: Findings) -> None:
    """1,000,000 selections over two attributes, with about one match an event."""
    count = scale.pick(1_000_000, 10_000)
    rng = scale.generator(1)
    side = 1.0 / np.sqrt(count)
    low = rng.random((2, count)) * (1 - side)
    table = pa.table(
        {
            "id": [f"q{i}" for i in range(count)],
            "plan": pa.repeat("SELECT * BEGIN NOW - 100000 ROWS END NOW", count),
            **{f"{name}_lo": low[i] for i, name in enumerate("ab")},
            **{f"{name}_hi": low[i] + side for i, name in enumerate("ab")},
        }
    )
    engine = eq.Engine(eq.Stream("r", attributes=["a", "b"]))
    engine.register_table(table, kind="select")
    batch = scale.pick(1 << 16, 1 << 10)
    watch = Stopwatch()
    batches: list[Callable[[], Any]] = []
    for _ in range(scale.pick(30, 3)):
        events = pa.table({name: rng.random(batch) for name in "ab"})
        batches.append(lambda events=events: engine.process(events))  # type: ignore[misc]
    batches[0]()
    for each in batches[1:]:
        watch(each)
    rate = batch / watch.timing.median
    found.at_least(f"events a second with {count:,} selections", rate / 1e6, 1.0, "million/s")
