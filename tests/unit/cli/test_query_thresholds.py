"""Threshold queries from the command line."""

import pytest

import everquery as eq


@pytest.fixture
def weighed(shell):
    """A second stream, whose events weigh something."""
    shell(
        "stream", "create", "fills", "--key", "symbol", "-a", "price", "--weight", "shares",
    )  # fmt: skip
    return shell


def add(shell, name, *options, **how):
    return shell("query", "add", name, "-s", "trades", "--kind", "threshold", *options, **how)


def test_a_life(shell):
    add(shell, "sold", "--total", 100_000, "--key", "IBM", "--box", "price=40..50")
    shell("query", "add", "band", "--key", "IBM")
    sold, band = shell.json("query", "list")
    assert (sold["kind"], sold["emit"], sold["box"]) == ("threshold", "fire", {"price": "[40..50)"})
    assert (sold["total"], sold["repeat"], sold["count"]) == (100_000, False, False)
    assert (band["total"], band["repeat"], band["count"]) == (None, None, None)
    assert [row["id"] for row in shell.json("query", "list", "--kind", "threshold")] == ["sold"]
    assert shell.json("query", "show", "sold")["total"] == 100_000
    assert "100,000" in shell("query", "show", "sold").stdout
    assert shell.json("query", "explain", "sold")["kind"] == "threshold"
    assert shell("query", "explain", "sold").stdout.startswith("threshold query 'sold': ")
    assert "threshold query 'sold'" in shell("sql", "EXPLAIN STANDING QUERY sold").stdout
    shell("query", "drop", "sold")
    assert [row["id"] for row in shell.json("query", "list")] == ["band"]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], "1,500"),
        (["--repeat"], "each 1,500"),
        (["--count"], "1,500 events"),
        (["--repeat", "--count"], "each 1,500 events"),
        (["--by-key"], "1,500, by key"),
        (
            ["--every", "1d", "--zone", "Europe/Berlin"],
            "1,500, every INTERVAL '1' DAY, in Europe/Berlin",
        ),
    ],
)
def test_a_listing_says_what_is_waited_for(shell, options, shown):
    assert "total" not in shell("query", "list").stdout
    add(shell, "sold", "--total", 1_500, *options)
    shell("query", "add", "band")
    lines = shell("query", "list").stdout.splitlines()
    at = next(line.index("total") for line in lines if "total" in line)
    (row,) = (line for line in lines if "sold" in line)
    assert row[at:].startswith(f"{shown}  ")
    (other,) = (line for line in lines if "band" in line)
    assert other[at:].startswith("-  ")
    (query,) = eq.open(shell.url).queries(kind="threshold").to_pylist()
    assert query["repeat"] == ("--repeat" in options)
    assert query["count"] == ("--count" in options)
    assert "total" not in shell("query", "list", "--kind", "border").stdout


@pytest.mark.parametrize("kind", ["border", "range"])
@pytest.mark.parametrize("option", [["--total", 5], ["--repeat"], ["--every", "1d"]])
def test_options_of_thresholds_are_no_others(shell, kind, option):
    told = shell("query", "add", "a", "--kind", kind, *option, code=2).stderr
    assert f"{kind} queries have no such option" in told
    assert option[0] in told
    assert shell.json("query", "list") == []


@pytest.mark.parametrize(
    "option", [["--silent"], ["--emit", "enter"], ["--dwell", "5s"]], ids=lambda each: each[0]
)
def test_options_of_others_are_no_thresholds(shell, option):
    told = add(shell, "a", "--total", 5, *option, code=2).stderr
    assert "threshold queries have no such option" in told
    assert option[0] in told
    assert shell.json("query", "list") == []


def test_totals_that_can_not_be(shell):
    assert "--total" in add(shell, "a", code=2).stderr
    assert "threshold queries need one" in add(shell, "a", "--repeat", code=2).stderr
    add(shell, "a", "--total", "many", code=2)
    add(shell, "a", "--total", 1.5, code=2)
    for total in (0, -3, 2**63):
        told = add(shell, "a", f"--total={total}", code=1).stderr
        assert f"total is {total}" in told
        assert len(told.splitlines()) == 1
    assert shell.json("query", "list") == []


def test_fires_are_told(weighed, tmp_path):
    weighed(
        "query", "add", "sold", "-s", "fills", "--kind", "threshold", "--total", 10, "--repeat"
    )  # fmt: skip
    weighed(
        "query", "add", "three", "-s", "fills", "--kind", "threshold", "--total", 3, "--count"
    )  # fmt: skip
    (tmp_path / "fills.csv").write_text(
        "symbol,price,shares\nIBM,40,6\nIBM,41,6\nIBM,42,25\nIBM,43,1\n"
    )
    done = weighed("run", "-s", "fills", "fills.csv")
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["fire", "sold"],
        ["fire", "sold"],
        ["fire", "three"],
    ]
    assert "3 fire" in done.stderr
    left = [row["id"] for row in weighed.json("query", "list", "-s", "fills")]
    assert left == ["sold"]


def once(weighed, tmp_path):
    weighed("query", "add", "three", "-s", "fills", "--kind", "threshold", "--total", 3, "--count")
    path = tmp_path / "fills.csv"
    path.write_text("symbol,price,shares\nIBM,40,6\nIBM,41,6\nIBM,42,25\n")
    return path


def test_a_replay_counts_queries_that_have_ended(weighed, tmp_path):
    path = once(weighed, tmp_path)
    assert "1 of 1 queries reported something" in weighed("replay", "-s", "fills", path).stdout
    told = weighed.json("replay", "-s", "fills", path)
    assert (told["queries"], told["queries_with_notices"]) == (1, 1)


def test_a_run_says_that_queries_ended_in_the_registry(weighed, tmp_path):
    path = once(weighed, tmp_path)
    for _ in range(2):  # the registry stays as it is
        done = weighed("run", "-s", "fills", path, "--read-only")
        assert [line.split()[:2] for line in done.stdout.splitlines()] == [["fire", "three"]]
        assert "1 query ended by firing once or by ttl; the registry" in done.stderr
    assert [row["id"] for row in weighed.json("query", "list", "-s", "fills")] == ["three"]
    done = weighed("run", "-s", "fills", path)
    assert "1 query ended by firing once or by ttl, and is gone from the registry" in done.stderr
    assert weighed.json("query", "list", "-s", "fills") == []
    done = weighed("run", "-s", "fills", path)
    assert "ended" not in done.stderr


def test_a_ttl_that_passes_ends_a_query_in_the_registry(shell, tmp_path):
    shell("query", "add", "brief", "--ttl", 5)
    path = tmp_path / "e.csv"
    path.write_text("symbol,ts,price\nIBM,1,40\nIBM,9,40\n")
    assert shell.json("run", path, "--out", "n.jsonl", "--read-only")["ended"] == 1
    assert shell.json("run", path, "--out", "n.jsonl")["ended"] == 1
    assert shell.json("query", "list") == []


class TestLoad:
    def test_a_file_of_thresholds(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text(
            "id,kind,key,price_lo,price_hi,total,repeat,count\n"
            "a,threshold,IBM,40,50,1000,true,\n"
            "b,threshold,,,,9223372036854775807,,true\n"
        )
        assert shell.json("query", "load", "q.csv")["kind"] == "threshold"
        a, b = shell.json("query", "list")
        assert (a["total"], a["repeat"], a["count"]) == (1_000, True, False)
        assert (b["total"], b["repeat"], b["count"]) == (2**63 - 1, False, True)

    def test_a_file_of_totals_by_key_and_day(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text(
            "id,total,by_key,every,zone,negative\na,5,true,1d,Europe/Berlin,\nb,6,,,,ignore\n"
        )
        shell.json("query", "load", "q.csv", "--kind", "threshold")
        a, b = shell.json("query", "list")
        names = ("by_key", "every", "zone", "negative")
        day = "INTERVAL '1' DAY"
        assert [a[name] for name in names] == [True, day, "Europe/Berlin", "ignore"]
        assert [b[name] for name in names] == [False, None, None, "ignore"]

    def test_bad_rows(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text(
            "id,total,repeat\na,5,\nb,0,\nc,,\nd,many,\ne,1.5,\nf,5,often\n"
        )
        load = ["query", "load", "q.csv", "--kind", "threshold", "--errors", "bad.csv"]
        assert "2 rows are bad" in shell(*load, code=1).stderr
        done = shell.json(*load, "--on-error", "skip")
        assert (done["registered"], done["skipped"]) == (1, 5)
        bad = (tmp_path / "bad.csv").read_text()
        for reason in (
            "total must be 1 or more",
            "total is null",
            "total is 'many', which is not a number",
            "total must be a whole number",
            "repeat is 'often', which is not true or false",
        ):
            assert reason in bad

    def test_a_file_needs_totals_and_others_have_none(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text("id,price_lo\na,5\n")
        told = shell("query", "load", "q.csv", "--kind", "threshold", code=1).stderr
        assert "no column 'total'" in told
        (tmp_path / "r.csv").write_text("id,total\na,5\n")
        told = shell("query", "load", "r.csv", "--kind", "border", code=1).stderr
        assert "no column 'total'" in told
