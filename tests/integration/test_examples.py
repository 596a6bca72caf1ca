"""The examples tell what a few lines without everquery find, too."""

import runpy
from datetime import timedelta
from pathlib import Path

import duckdb
import numpy as np

import everquery as eq

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name, capsys):
    """Return what an example defines, and the lines that it prints."""
    found = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return found, capsys.readouterr().out.splitlines()


def crossings(inside):
    """Yield (place, whether it is an enter) for each change; before the first it is outside."""
    was = False
    for place, now in enumerate(inside):
        if now != was:
            yield place, now
        was = now


def test_couriers(capsys):
    example, lines = printed("couriers.py", capsys)
    begin, minutes, dwell = example["BEGIN"], example["MINUTES"], example["DWELL"]
    expected = []
    for courier in example["COURIERS"]:
        at = [example["position"](courier, minute) for minute in range(minutes)]
        for zone, (south, north, west, east) in example["ZONES"].items():
            inside = [south <= lat < north and west <= lon < east for lat, lon in at]
            changes = list(crossings(inside))
            told = [(minute, enter, "crossing") for minute, enter in changes]
            told += [
                (minute + dwell // timedelta(minutes=1), enter, "settled")
                for minute, enter in settled(changes, dwell // timedelta(minutes=1), minutes - 1)
            ]
            for minute, enter, query in told:
                time = begin + timedelta(minutes=minute)
                event = "enter" if enter else "leave"
                expected.append(f"{time:%H:%M}  {courier}  {event:<5}  {zone}: {query}")
    assert sorted(lines) == sorted(expected)
    assert [line[:5] for line in lines] == sorted(line[:5] for line in lines)
    counts = [sum(query in line for line in lines) for query in ("crossing", "settled")]
    assert counts[0] > counts[1] > 5


def settled(changes, dwell, last):
    """Return the changes that count: each that is not undone before the dwell is over."""
    found = []
    waiting = None
    for minute, enter in changes:
        if waiting is not None and minute - waiting[0] < dwell:
            waiting = None  # both are undone
            continue
        if waiting is not None:
            found.append(waiting)
        waiting = (minute, enter)
    if waiting is not None and last - waiting[0] >= dwell:
        found.append(waiting)
    return found


def test_sensors(capsys):
    example, lines = printed("sensors.py", capsys)
    expected = []
    for machine in example["MACHINES"]:
        sent = [each for each in example["messages"]() if each["machine"] == machine]
        for query, measure, limit in (
            ("hot", "temperature", example["HOT"]),
            ("shaking", "vibration", example["SHAKING"]),
        ):
            told = [each for each in sent if measure in each]
            for place, enter in crossings([each[measure] >= limit for each in told]):
                event = "enter" if enter else "leave"
                expected.append(sensor_line(told[place], event, query, measure))
    shaking = [
        each for each in example["messages"]() if each.get("vibration", 0) >= example["SHAKING"]
    ]
    expected += [sensor_line(each, "fire", "worn", "vibration") for each in shaking[4::5]]
    assert sorted(lines) == sorted(expected)
    assert {line.split()[3] for line in lines} == {"hot", "shaking", "worn"}


def sensor_line(message, event, query, measure):
    return (
        f"{message['ts']:%H:%M:%S}  {message['machine']:<5}  {event:<5}  {query:<7}"
        f"  {measure}={message[measure]:g}"
    )


def test_payments(capsys):
    example, lines = printed("payments.py", capsys)
    totals, over, expected = {}, set(), []
    for payment in example["payments"]().to_pylist():
        day = payment["ts"].date(), payment["account"]
        totals[day] = totals.get(day, 0) + payment["cents"]
        if totals[day] >= example["LIMIT"] and day not in over:
            over.add(day)
            expected.append(f"{payment['ts']:%Y-%m-%d %H:%M}  {day[1]} is over the limit")
    assert lines == expected
    assert len(lines) > 3
    assert len({line.split()[0] for line in lines}) > 1


def test_fraud(capsys):
    example, lines = printed("fraud.py", capsys)
    last, factor, alarm = example["LAST"], example["FACTOR"], example["ALARM"]
    expected = []
    for number, caller in enumerate(example["CALLERS"]):
        minutes = example["durations"](number)
        windows = [minutes[max(0, i + 1 - last) : i + 1] for i in range(minutes.size)]
        long = [int((window > factor * window.mean()).sum()) for window in windows]
        expected += [
            f"{caller}  {'enter' if enter else 'leave'}  call {call}: {long[call]} of the last"
            f" {windows[call].size} are long"
            for call, enter in crossings([count >= alarm for count in long])
        ]
        exactly = int((minutes > factor * minutes.mean()).sum())
        (line,) = (line for line in lines if line.startswith(f"{caller}  ") and "exactly" in line)
        assert line.endswith(f"exactly {exactly}")
        low, high = line.split(", ")[1].split(";")[0].split(" to ")
        assert int(low) <= exactly <= int(high)
    assert sorted(line for line in lines if "exactly" not in line) == sorted(expected)
    assert len(expected) >= 2
    assert all(line.startswith(example["STOLEN"]) for line in expected)


def test_network_traffic(capsys):
    example, lines = printed("network_traffic.py", capsys)
    assert len(lines) == 3
    engine = eq.Engine([example["CUSTOMER"], example["BACKBONE"]])
    engine.sql(example["QUERIES"])
    engine.sql(example["SHARED"])
    rng, minute = np.random.default_rng(5), example["MINUTE"]
    with duckdb.connect() as connection:
        for number in range(3):
            both = example["packets"](rng, 150, number * minute)
            for name, table in zip(("customer", "backbone"), both, strict=True):
                engine.process(table, stream=name)
                connection.register("given", table)
                made = (
                    "CREATE TABLE IF NOT EXISTS {0} AS FROM given LIMIT 0;"
                    " INSERT INTO {0} FROM given"
                )
                connection.execute(made.format(name))
            ours = example["answers"](engine)
            now = connection.execute(
                "SELECT max(t) FROM (SELECT max(timestamp) t FROM customer UNION ALL"
                " SELECT max(timestamp) FROM backbone)"
            ).fetchone()[0]
            last = f"timestamp >= {now - minute}"
            load = f"SELECT sum(length) FROM backbone WHERE {last}"
            load = [
                row for row in connection.execute(load).fetchall() if row[0] > example["TOO_MUCH"]
            ]
            assert [(each,) for each in ours["too much"]] == load
            share = connection.execute(
                "SELECT count(*) FROM customer c, backbone b WHERE c.saddr = b.saddr AND"
                f" c.daddr = b.daddr AND c.id = b.id AND c.{last} AND b.{last}"
            ).fetchone()[0]
            total = connection.execute(f"SELECT count(*) FROM backbone WHERE {last}").fetchone()[0]
            assert ours["share"] == share / total
            pairs = connection.execute(
                f"SELECT saddr, daddr, sum(length) FROM backbone WHERE {last} GROUP BY ALL"
            ).fetchall()
            traffic = sorted(row[2] for row in pairs)
            assert ours["top"]["traffic"].to_pylist() == traffic[int(np.ceil(0.95 * len(pairs))) :]
