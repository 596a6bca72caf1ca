"""Quantile queries from the command line: what is taken, and how they are shown."""

import json

import pytest
import typer

import everquery as eq
from everquery.cli.kind_options import check_fields, chosen_attribute
from everquery.kinds.quantile.questions import shown_quantile

RANKS = [["--phi", 0.5], ["--epsilon", 0.1], ["--last", 5], ["--by", 0.1], ["--attribute", "price"]]


@pytest.mark.parametrize("kind", ["border", "range", "threshold"])
@pytest.mark.parametrize("option", RANKS, ids=lambda each: each[0])
def test_options_of_quantiles_are_no_others(shell, kind, option):
    total = ["--total", 5] if kind == "threshold" else []
    told = shell("query", "add", "a", "--kind", kind, *total, *option, code=2).stderr
    assert f"{kind} queries have no such option" in told
    assert option[0] in told
    assert shell.json("query", "list") == []


@pytest.mark.parametrize("name", ["box", "total", "repeat", "silent", "dwell", "emit"])
def test_options_of_others_are_no_quantiles(name):
    with pytest.raises(typer.BadParameter, match="quantile queries have no such option"):
        check_fields(eq.Quantile, {"phi": 0.5, "epsilon": 0.1, name: 1})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"epsilon": 0.1}, "need one, such as --phi 0.99"),
        ({"phi": (0.5,)}, "need one, such as --epsilon 0.005"),
    ],
)
def test_what_quantiles_need(fields, said):
    with pytest.raises(typer.BadParameter, match=said):
        check_fields(eq.Quantile, fields)


def test_what_quantiles_take():
    fields = {"attribute": "x", "phi": (0.5, 1), "epsilon": 0.1, "last": 50, "by_key": True}
    check_fields(eq.Quantile, fields | {"ttl": 5, "throttle": 5})
    assert eq.Quantile("q", **fields).phi == (0.5, 1.0)


def test_the_only_attribute_need_not_be_said():
    one = eq.Stream("s", attributes=["x"])
    two = eq.Stream("s", attributes=["x", "y"])
    assert chosen_attribute(None, one) == "x"
    assert chosen_attribute("z", one) == "z"  # which registration refuses
    assert chosen_attribute("y", two) == "y"
    with pytest.raises(typer.BadParameter, match="stream 's' has x, y; say which"):
        chosen_attribute(None, two)


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "0.99 ± 0.005 of price"),
        ({"last": 500_000}, "0.99 ± 0.005 of price, last 500,000"),
        ({"by_key": True, "last": 200}, "0.99 ± 0.005 of price, last 200, by key"),
        ({"by": 0.1}, "0.99 ± 0.005 of price, moved by 0.1"),
        ({"phi": None}, None),
    ],
)
def test_how_a_listing_shows_them(fields, shown):
    record = {"attribute": "price", "phi": 0.99, "epsilon": 0.005, "last": None, "by_key": False}
    record["by"] = None
    assert shown_quantile(record | fields) == shown


def add(shell, name, *options, **how):
    return shell("query", "add", name, "--kind", "quantile", *options, **how)


def test_a_life(shell):
    add(shell, "high", "--phi", 0.99, "--epsilon", 0.005, "--key", "IBM", "--last", 10_000)
    told = add(shell, "spread", "--phi", 0.05, "--phi", 0.95, "--epsilon", 0.01, "--by-key").stdout
    assert told == "query 'spread' is live on stream 'trades'\n"
    high, low, _ = shell.json("query", "list")
    assert (high["kind"], high["emit"], high["box"]) == ("quantile", "change", {})
    assert (high["attribute"], high["phi"], high["epsilon"]) == ("price", 0.99, 0.005)
    assert (high["key"], high["last"], high["by_key"]) == ("IBM", 10_000, False)
    assert (low["id"], low["phi"], low["by_key"]) == ("spread[0.05]", 0.05, True)
    assert (low["last"], low["total"]) == (None, None)
    listed = shell("query", "list").stdout
    assert "0.99 ± 0.005 of price, last 10,000" in listed
    assert "0.05 ± 0.01 of price, by key" in listed
    assert "quantile" not in shell("query", "list", "--kind", "border").stdout
    assert shell.json("query", "show", "high")["phi"] == 0.99
    assert "0.95" in shell("query", "show", "spread[0.95]").stdout
    assert shell.json("query", "explain", "high")["kind"] == "quantile"
    assert shell("query", "explain", "high").stdout.startswith("quantile query 'high': ")
    assert "quantile query 'high'" in shell("sql", "EXPLAIN STANDING QUERY high").stdout
    shell("query", "drop", "high")
    assert len(shell.json("query", "list")) == 2


def test_a_composite_is_reached_by_its_id(shell):
    add(shell, "spread", "--phi", 0.05, "--phi", 0.95, "--epsilon", 0.01)
    shell("query", "add", "band")
    assert shell("query", "pause", "spread", "band").stdout == "paused 3 queries\n"
    assert [row["state"] for row in shell.json("query", "list")] == ["paused"] * 3
    assert shell("query", "resume", "spread").stdout == "resumed 2 queries\n"
    assert "'spread['" in shell("query", "drop", "spread", "spread[", code=1).stderr
    assert shell("query", "drop", "spread").stdout == "dropped 2 queries\n"
    assert [row["id"] for row in shell.json("query", "list")] == ["band"]
    assert "'spread'" in shell("query", "drop", "spread", code=1).stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--phi", 0, "--epsilon", 0.1], "phi is 0.0; it must be above 0"),
        (["--phi", 0.5, "--epsilon", 1], "epsilon is 1.0; it must be above 0 and below 1"),
        (["--phi", 0.5, "--phi", 0.5, "--epsilon", 0.1], "phi has 0.5 twice"),
        (["--phi", 0.5, "--epsilon", 0.1, "--last", 5], "shorter than 1/epsilon = 10 rows"),
        (["--phi", 0.5, "--epsilon", 0.1, "--by-key", "--key", "IBM"], "give one of the two"),
        (["--phi", 0.5, "--epsilon", 0.1, "--attribute", "prise"], "no attribute 'prise'"),
    ],
)
def test_what_can_not_be_is_one_line(shell, options, said):
    told = add(shell, "a", *options, code=1).stderr
    assert said in told
    assert len(told.splitlines()) == 1
    assert shell.json("query", "list") == []


def test_changes_are_told(shell, tmp_path):
    add(shell, "median", "--phi", 0.5, "--epsilon", 0.01)
    (tmp_path / "t.csv").write_text("symbol,ts,price\nIBM,1,40\nIBM,2,50\nSUN,3,45\n")
    done = shell("run", "t.csv")
    (line,) = done.stdout.splitlines()
    assert line.split()[1:4] == ["change", "median", "SUN"]
    assert "value=45" in line
    assert "1 change" in done.stderr
    told = json.loads(shell("run", "t.csv", "--json", "--quiet").stdout)
    assert (told["value"], told["n"], told["rank_low"], told["epsilon"]) == (45.0, 3, 2, 0.01)


class TestLoad:
    def test_a_file_of_quantiles(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text(
            "id,kind,key,phi,epsilon,last,by_key\n"
            "a,quantile,IBM,0.5,0.01,100,\n"
            "b,quantile,,1,0.1,,true\n"
        )
        assert shell.json("query", "load", "q.csv")["kind"] == "quantile"
        a, b = shell.json("query", "list")
        assert (a["phi"], a["epsilon"], a["last"], a["by_key"]) == (0.5, 0.01, 100, False)
        assert (b["phi"], b["epsilon"], b["last"], b["by_key"]) == (1.0, 0.1, None, True)

    def test_bad_rows(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text(
            "id,phi,epsilon,last\na,0.5,0.1,\nb,0,0.1,\nc,,0.1,\nd,high,0.1,\ne,0.5,0.1,9\n"
        )
        load = ["query", "load", "q.csv", "--kind", "quantile", "--errors", "bad.csv"]
        shell(*load, code=1)
        assert shell.json("query", "list") == []
        done = shell.json(*load, "--on-error", "skip")
        assert (done["registered"], done["skipped"]) == (1, 4)
        bad = (tmp_path / "bad.csv").read_text()
        for reason in ("phi must be above 0", "phi is null", "phi is 'high'", "shorter than 1/eps"):
            assert reason in bad
