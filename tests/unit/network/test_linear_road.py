"""Linear Road as a network, beside the same rules in SQL over the whole trace."""

from pathlib import Path

import duckdb
import pytest
from benchmarks.linear_road_data import expressway, expressways

import everquery as eq
from tests.unit.network.plants import bag, outputs_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "linear_road.yaml"
SECONDS = 900

# Every report is looked at with those before it by its number, not by windows of time.
RULES = """
CREATE TABLE numbered AS
  SELECT *, t // 60 AS minute, row_number() OVER (PARTITION BY car ORDER BY t) AS number
  FROM reports;
CREATE TABLE per_car AS
  SELECT xway, dir, seg, minute, car, avg(speed) AS speed FROM numbered GROUP BY ALL;
CREATE TABLE per_minute AS
  SELECT xway, dir, seg, minute, avg(speed) AS speed, count(*) AS cars FROM per_car GROUP BY ALL;
CREATE TABLE statistics AS
  SELECT m.xway, m.dir, m.seg, m.minute, m.cars,
         (SELECT avg(b.speed) FROM per_minute b WHERE b.xway = m.xway AND b.dir = m.dir
          AND b.seg = m.seg AND b.minute > m.minute - 5 AND b.minute <= m.minute) AS speed
  FROM per_minute m;
CREATE TABLE standing AS
  SELECT a.* FROM numbered a WHERE a.speed = 0 AND 3 = (
    SELECT count(*) FROM numbered b
    WHERE b.car = a.car AND b.number BETWEEN a.number - 3 AND a.number - 1 AND b.speed = 0
    AND (b.xway, b.dir, b.lane, b.pos) = (a.xway, a.dir, a.lane, a.pos));
CREATE TABLE accidents AS
  SELECT xway, dir, seg, lane, pos, count(DISTINCT car) AS cars, minute FROM standing
  GROUP BY xway, dir, seg, lane, pos, minute HAVING count(DISTINCT car) >= 2;
CREATE TABLE tolls AS
  SELECT xway, dir, seg, minute, 2 * (cars - 50) * (cars - 50) AS toll FROM statistics s
  WHERE speed < 40 AND cars > 50 AND NOT EXISTS (
    SELECT * FROM accidents a WHERE a.xway = s.xway AND a.dir = s.dir AND a.minute = s.minute
    AND CASE WHEN s.dir = 0 THEN a.seg BETWEEN s.seg AND s.seg + 4
             ELSE a.seg BETWEEN s.seg - 4 AND s.seg END);
CREATE TABLE charges AS
  SELECT r.car, r.t, r.xway, r.dir, r.seg, toll
  FROM numbered r LEFT JOIN numbered b ON b.car = r.car AND b.number = r.number - 1
  JOIN tolls ON r.xway = tolls.xway AND r.dir = tolls.dir AND r.seg = tolls.seg
    AND r.minute = tolls.minute + 1
  WHERE b.seg IS NULL OR b.seg <> r.seg;
"""


@pytest.fixture(scope="module")
def reports():
    one = expressway(4, cars=5000, seconds=SECONDS, stops=24)
    return expressways(one, 2)


@pytest.fixture(scope="module")
def wanted(reports):
    duck = duckdb.connect()
    duck.register("reports", reports)
    duck.execute(RULES)

    def rows(text):
        return duck.sql(text).to_arrow_table().to_pylist()

    return {
        "statistics": rows(
            "SELECT xway, dir, seg, speed, cars, minute * 60 AS window_end FROM statistics"
        ),
        "accidents": rows("SELECT * EXCLUDE minute, minute * 60 AS window_start FROM accidents"),
        "tolls": rows("SELECT xway, dir, seg, minute * 60 AS window_start, toll FROM tolls"),
        "charges": rows("SELECT * FROM charges"),
        "blocked": rows(
            "SELECT * FROM statistics ANTI JOIN tolls USING (xway, dir, seg, minute)"
            " WHERE speed < 40 AND cars > 50"
        ),
    }


def rounded(rows):
    """Return rows with speeds to nine digits: sums of five numbers depend on their order."""
    return [{**row, "speed": round(row["speed"], 9)} if "speed" in row else row for row in rows]


@pytest.mark.parametrize("optimize", [True, False])
def test_tolls_statistics_and_accidents_are_those_of_the_rules(reports, wanted, optimize):
    found = outputs_of(
        eq.Network.load(EXAMPLE), {"reports": reports}, [11_000] * 7, optimize=optimize
    )
    for name in ("statistics", "accidents", "tolls", "charges"):
        assert bag(rounded(found[name])) == bag(rounded(wanted[name])), name
        assert found[name]
    assert wanted["blocked"]  # tolls that an accident ruled out
    again = outputs_of(
        eq.Network.load(EXAMPLE), {"reports": reports}, [11_000] * 7, optimize=optimize, threads=2
    )
    assert again == found


def test_a_minute_is_told_as_soon_as_it_has_passed(reports, wanted):
    """Tolls are there with the first report of the minute in which they hold."""
    run = eq.Network.load(EXAMPLE).start()
    first = min(row["window_start"] for row in wanted["tolls"])
    t = reports["t"].to_numpy()
    before = int(t.searchsorted(first + 60))
    assert run.process({"reports": reports.slice(0, before)})["tolls"].num_rows == 0
    told = run.process({"reports": reports.slice(before, 1)})["tolls"].to_pylist()
    assert bag(told) == bag([row for row in wanted["tolls"] if row["window_start"] == first])


def test_traffic_is_in_order_and_reports_every_half_minute(reports):
    duck = duckdb.sql(
        "SELECT count(*) FROM (SELECT t - lag(t) OVER (PARTITION BY car ORDER BY t) AS gap"
        " FROM reports) WHERE gap <> 30"
    )
    assert duck.fetchall() == [(0,)]
