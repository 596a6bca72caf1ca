"""Registries, streams and queries from the command line."""

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import everquery as eq
from everquery.cli.app import app
from everquery.registry.quarantined import Quarantined


def test_a_registry_is_made_by_init_only(tmp_path, shell):
    shell.url = f"sqlite:///{tmp_path / 'other.db'}"
    assert "everquery init" in shell("query", "list", code=1).stderr
    assert not (tmp_path / "other.db").exists()
    assert shell.json("init") == {"registry": shell.url, "streams": []}
    assert "0 streams" in shell("init").stdout


def test_without_a_registry_it_is_a_usage_error(shell):
    shell.url = None
    assert "--registry" in shell("query", "list", code=2).stderr


def test_passwords_are_not_shown(shell):
    shell.url = "postgresql://ann:secret@127.0.0.1:1/db"
    assert "secret" not in shell("stream", "list", code=1).output


class TestStreams:
    def test_create_list_show(self, shell):
        shell(
            "stream", "create", "quotes", "-a", "bid", "-a", "ask", "--time", "at",
            "--grace", "250ms", "--expire-after", "1h",
        )  # fmt: skip
        assert [stream["name"] for stream in shell.json("stream", "list")] == ["quotes", "trades"]
        quotes = shell.json("stream", "show", "quotes")
        assert (quotes["grace"], quotes["expire_after"]) == ("0.25s", "3600s")
        assert "bid, ask" in shell("stream", "list").stdout
        assert "bid, ask" in shell("stream", "show", "quotes").stdout
        assert "several streams" in shell("query", "list", code=1).stderr
        assert shell.json("query", "list", "-s", "quotes") == []

    def test_the_same_again_is_fine_and_another_is_not(self, shell):
        shell("stream", "create", "trades", "--key", "symbol", "--time", "ts", "-a", "price")
        result = shell("stream", "create", "trades", "-a", "price", code=1)
        assert "has another stream 'trades'" in result.stderr

    @pytest.mark.parametrize("span", ["soon", "5 x", "5mo", "", "99999999999999d", "9" * 400 + "s"])
    def test_a_bad_span(self, shell, span):
        shell("stream", "create", "x", "-a", "a", "--time", "t", "--grace", span, code=2)

    def test_a_grace_that_times_have_no_unit_for_is_mended(self, shell, tmp_path):
        shell("stream", "create", "slow", "--time", "ts", "-a", "price", "--grace", "7d")
        (tmp_path / "e.csv").write_text("ts,price\n1,40\n2,41\n")
        for command in ("run", "replay"):
            told = shell(command, "e.csv", "-s", "slow", code=1).stderr
            assert "'ts' has type int64, which has no unit for a span of 7 days" in told
            assert "everquery stream alter slow --grace NUMBER" in told
        assert (
            "grace 5, expire-after none" in shell("stream", "alter", "slow", "--grace", "5").stdout
        )
        assert shell.json("run", "e.csv", "-s", "slow", "--out", "n.jsonl")["events"] == 2
        shell("stream", "alter", "slow", "--grace", "none", "--expire-after", "90")
        slow = shell.json("stream", "show", "slow")
        assert (slow["grace"], slow["expire_after"], slow["attributes"]) == (None, 90, ["price"])

    def test_a_stream_keeps_its_queries_when_it_is_altered(self, shell):
        shell("query", "add", "a", "--key", "IBM")
        altered = shell.json("stream", "alter", "trades", "--expire-after", "1h")
        assert (altered["grace"], altered["expire_after"]) == (None, "3600s")
        assert [query["id"] for query in shell.json("query", "list")] == ["a"]

    def test_new_attributes_and_a_guard_against_wrong_clocks(self, shell):
        told = shell("stream", "alter", "trades", "-a", "volume", "--max-ahead", "1h").stdout
        assert told.startswith("stream 'trades' has price, volume; grace none, expire-after none")
        assert shell.json("stream", "show")["max_ahead"] == "3600s"
        shell("query", "add", "large", "--kind", "range", "--box", "volume=100..")
        query = "CREATE STANDING QUERY b AS SELECT * FROM trades WHERE bid > 1 EMIT MATCHES"
        alter = "ALTER STREAM trades SET (max_ahead = NULL), ADD COLUMN bid DOUBLE"
        assert "a text of its own" in shell("sql", f"{alter}; {query}", code=1).stderr
        shell("sql", alter)
        shell("sql", query)
        shown = shell.json("stream", "show")
        assert (shown["max_ahead"], shown["attributes"]) == (None, ["price", "volume", "bid"])
        assert "2 live queries" in shell("sql", "DROP STREAM trades", code=1).stderr
        shell("sql", "DROP STREAM trades CASCADE")
        assert shell.json("stream", "list") == []

    @pytest.mark.parametrize(
        ("options", "code", "said"),
        [
            ([], 2, "give --grace"),
            (["--grace", "soon"], 2, "is no span"),
            (["--grace=-1"], 2, "it must be positive"),
            (["--expire-after", "0"], 1, "it must be positive"),
            (["--max-ahead", "0"], 1, "it must be positive"),
            (["-a", "price"], 1, "column 'price' is named twice"),
        ],
    )
    def test_what_can_not_be_altered(self, shell, options, code, said):
        assert said in shell("stream", "alter", "trades", *options, code=code).stderr
        assert shell.json("stream", "show")["grace"] is None
        assert "no stream 'nope'" in shell("stream", "alter", "nope", "--grace", 1, code=1).stderr

    def test_dropping(self, shell):
        shell("query", "add", "a")
        shell("query", "add", "b")
        shell("query", "drop", "b")
        told = shell("stream", "drop", "trades", code=2).stderr
        assert "1 live query; --yes" in told
        assert [query["id"] for query in shell.json("query", "list")] == ["a"]
        assert "with 1 live query" in shell("stream", "drop", "trades", "--yes").stdout
        assert shell.json("stream", "list") == []
        assert "no stream" in shell("stream", "drop", "trades", code=1).stderr
        shell("stream", "create", "trades", "-a", "volume")
        assert shell.json("query", "list") == []
        shell("query", "add", "a", "--box", "volume=1..")
        shell("query", "drop", "a")
        shell("stream", "drop", "trades")


class TestQueries:
    def test_a_life(self, shell):
        shell(
            "query", "add", "band", "--box", "price=[40..50]", "--key", "IBM", "--owner", "ann",
            "--label", "team=fx", "--silent",
        )  # fmt: skip
        shell("query", "add", "cheap", "--kind", "range", "--box", "price=..10")
        band = shell.json("query", "show", "band")
        assert band["box"] == {"price": "[40..50]"}
        assert (band["owner"], band["labels"], band["silent"]) == ("ann", {"team": "fx"}, True)
        assert eq.open(shell.url).queries()["price_hi"].to_pylist()[0] == 50.00000000000001
        shell("query", "pause", "band", "cheap")
        assert {query["state"] for query in shell.json("query", "list")} == {"paused"}
        shell("query", "resume", "band")
        assert shell.json("query", "show", "band")["state"] == "live"
        assert shell.json("query", "explain", "band")["kind"] == "border"
        assert "border query 'band'" in shell("query", "explain", "band").stdout
        assert "price=[40..50]" in shell("query", "show", "band").stdout
        shell("query", "drop", "band", "nobody", code=1)
        shell("query", "drop", "band", "cheap")
        assert shell.json("query", "list") == []

    @pytest.mark.parametrize(
        ("options", "found"),
        [
            (["--owner", "ann"], ["a"]),
            (["--label", "team=fx"], ["a", "b_1"]),
            (["--label", "team=fx", "--label", "desk=1"], ["b_1"]),
            (["--like", "b%"], ["b_1", "c"][:1]),
            (["--kind", "range"], ["c"]),
            (["--limit", "2"], ["a", "b_1"]),
            (["--owner", "nobody"], []),
        ],
    )
    def test_filters(self, shell, options, found):
        shell("query", "add", "a", "--owner", "ann", "--label", "team=fx")
        shell("query", "add", "b_1", "--label", "team=fx", "--label", "desk=1")
        shell("query", "add", "c", "--kind", "range")
        assert [query["id"] for query in shell.json("query", "list", *options)] == found
        shell("query", "list", *options)

    @pytest.mark.parametrize(
        ("given", "shown"),
        [(None, "enter,leave"), ("leave", "leave"), ("Leave, ENTER", "enter,leave")],
    )
    def test_emit(self, shell, given, shown):
        shell("query", "add", "a", *(("--emit", given) if given else ()))
        (query,) = shell.json("query", "list")
        assert query["emit"] == shown
        assert not [name for name in query if name.startswith("skip")]
        assert shell.json("query", "show", "a")["emit"] == shown
        assert shell.json("sql", "SHOW STANDING QUERIES")[0]["emit"] == shown
        assert shown in shell("query", "list").stdout
        # What is told is kept by the registry.
        assert eq.open(shell.url).queries()["emit"].to_pylist() == [shown]

    def test_emit_that_can_not_be(self, shell):
        for given in ("x", ""):
            told = shell("query", "add", "a", "--emit", given, code=1).stderr
            assert "'enter', 'leave' or both" in told
        shell("query", "add", "a", "--kind", "range", "--emit", "enter", code=2)
        assert shell.json("query", "list") == []

    def test_a_listing_says_what_it_leaves_out(self, shell):
        for name in "abc":
            shell("query", "add", name)
        assert "3 queries, 2 shown" in shell("query", "list", "--limit", 2).stdout

    def test_wide_rows_are_whole_where_nobody_sees_the_terminal(self, shell):
        name = "x" * 300
        shell("query", "add", name)
        assert name in shell("query", "list").stdout

    @pytest.mark.parametrize("name", ['it\'s "me"', "a\nb", "🎈", "[bold]x", "-x"])
    def test_odd_ids(self, shell, name):
        shell("query", "add", "--", name)
        assert [query["id"] for query in shell.json("query", "list")] == [name]
        listing = shell("query", "list").stdout
        assert ("[bold]x" if name == "[bold]x" else "1 query") in listing
        shell("query", "drop", "--", name)

    @pytest.mark.parametrize(
        "box", ["price", "price=40", "=1..2", "price=a..b", "price=[40..50", "price=]1..2["]
    )
    def test_a_bad_box_is_a_usage_error(self, shell, box):
        if box == "price=[40..50":  # the bracket that is missing is the usual one
            shell("query", "add", "x", "--box", box)
        else:
            shell("query", "add", "x", "--box", box, code=2)

    def test_what_the_engine_refuses(self, shell):
        assert "holds no value" in shell("query", "add", "x", "--box", "price=5..5", code=1).stderr
        assert "volume" in shell("query", "add", "x", "--box", "volume=1..2", code=1).stderr
        assert "no live query" in shell("query", "show", "x", code=1).stderr
        shell("query", "add", "x", "--kind", "range", "--silent", code=2)
        shell("query", "add", "x", "--label", "fx", code=2)
        shell("query", "add", "x", "--box", "price=1..2", "--box", "price=1..3", code=2)

    def test_integer_keys(self, shell):
        shell("query", "add", "x", "--key", "7", "--integer-key")
        shell("query", "add", "y", "--key", "8")
        assert [query["key"] for query in shell.json("query", "list")] == [7, 8]
        shell("query", "add", "z", "--key", "IBM", code=2)

    def test_debug_shows_the_traceback(self, shell):
        for line in (["--debug", "query", "drop", "x"], ["query", "drop", "x", "--debug"]):
            result = CliRunner().invoke(app, line, env={"EVERQUERY_REGISTRY": shell.url})
            assert result.exit_code == 1
            assert "Traceback" in result.stderr
            assert result.stderr.splitlines()[-1].startswith("everquery: no live query")


def queries(count):
    return pa.table(
        {
            "id": [f"q{i}" for i in range(count)],
            "key": ["IBM" if i % 2 else None for i in range(count)],
            "price_lo": [float(i) for i in range(count)],
            "price_hi": [float(i + 5) for i in range(count)],
        }
    )


class TestLoad:
    @pytest.mark.parametrize("name", ["q.parquet", "q.feather", "q.arrow", "q.csv", "q.dat"])
    def test_formats(self, shell, tmp_path, name):
        path, table = tmp_path / name, queries(10)
        if name == "q.csv":
            pa.csv.write_csv(table, path)
        elif name in ("q.parquet", "q.dat"):
            pq.write_table(table, path)
        elif name == "q.feather":
            pa.feather.write_feather(table, path)
        else:
            with pa.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table)
        shell("query", "load", path, "--kind", "border")
        listed = shell.json("query", "list")
        assert [query["id"] for query in listed] == table["id"].to_pylist()
        assert listed[3]["key"] == "IBM"
        assert listed[3]["box"] == {"price": "[3..8)"}
        assert listed[2]["key"] is None

    def test_ten_thousand_rows_with_bad_ones(self, shell, tmp_path):
        lines = ["id,key,price_lo,price_hi"]
        for i in range(10_000):
            line = f"q{i},IBM,{i},{i + 5}"
            if i % 1_000 == 10:
                line = f"q{i},IBM,cheap,{i}"
            elif i % 1_000 == 20:
                line = f"q{i},IBM"
            elif i % 1_000 == 30:
                line = f"q{i},IBM,{i},{i - 1}"
            elif i % 1_000 == 40:
                line = f"q{i},IBM,9007199254740993,"
            lines.append(line)
        path, report = tmp_path / "q.csv", tmp_path / "bad.csv"
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines[:5_000]).encode() + b"\n")
        with path.open("a") as file:
            file.write("\n".join(lines[5_000:]))
        load = ["query", "load", path, "--kind", "border", "--errors", report]
        assert "bad, so none is registered" in shell(*load, code=1).stderr
        assert shell.json("query", "list") == []
        done = shell.json(*load, "--on-error", "skip")
        assert (done["registered"], done["skipped"]) == (9_960, 40)
        bad = pa.csv.read_csv(report).to_pylist()
        assert [row["row"] for row in bad[:5]] == [10, 20, 30, 40, 1_010]
        assert bad[-1]["row"] == 9_040
        assert bad[0]["reason"] == (
            "price_lo is 'cheap', which is not a number that float64 holds exactly"
        )
        assert bad[1]["reason"] == "it has 2 columns, not 4"
        assert "not below" in bad[2]["reason"]
        assert bad[3]["id"] == "q40"
        assert len(shell.json("query", "list")) == 9_960

    def test_which_crossings_are_told(self, shell, tmp_path):
        path = tmp_path / "q.csv"
        path.write_text('id,emit,skip_leave\na,enter,\nb,"enter,leave",true\nc,,\nd,exit,\n')
        load = ["query", "load", path, "--kind", "border"]
        told = shell(*load, code=1).stderr
        assert "row 3 ('d'): emit must be enter, leave or enter,leave, or null for both" in told
        shell(*load, "--on-error", "skip")
        listed = shell.json("query", "list")
        assert [(query["id"], query["emit"]) for query in listed] == [
            ("a", "enter"), ("b", "enter"), ("c", "enter,leave"),
        ]  # fmt: skip

    def test_the_kind_is_in_a_column_or_given(self, shell, tmp_path):
        path = tmp_path / "q.csv"
        path.write_text("id,kind\na,range\nb,range\n")
        assert shell.json("query", "load", path)["kind"] == "range"
        shell("query", "load", path, "--kind", "border", code=1)
        path.write_text("id\nc\n")
        shell("query", "load", path, code=2)
        shell("query", "load", path, "--kind", "nope", code=2)

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("q.parquet", b"id,price_lo\na,1\n", "its content looks like CSV"),
            ("q.csv", b"PAR1" + bytes(100), "its content looks like Parquet"),
            ("q.parquet", b"PAR1" + bytes(100), "can't be read"),
            ("q.arrow", b"ARROW1\0\0" + bytes(50), "can't be read"),
            ("q.csv", b"\x1f\x8b" + bytes(50), "can't be read: zlib"),
            ("q.csv", bytes(50), "binary data"),
            ("q.csv", b"", "is empty"),
            ("q.csv", b"id,id\na,b\n", "names a column twice"),
            ("q.csv", b"id,price_lo\na\nb,1,2\n", "it has 1 columns, not 2"),
            ("q.csv", b"id,prise_lo\na,1\n", "did you mean 'price_lo'"),
            ("q.csv", b"id\na\r\nb\n\xff\xfe\n", "q.csv: line 4 is not text in UTF-8"),
            ("q.csv", b"\xff\n", "q.csv: line 1 is not text in UTF-8"),
            ("q.csv", b"id\n", "no rows"),
            ("q.jsonl", b'{"id": "a"}\n', "JSON lines"),
        ],
    )
    def test_bad_files(self, shell, tmp_path, name, content, reason):
        (tmp_path / name).write_bytes(content)
        result = shell("query", "load", tmp_path / name, "--kind", "range", code=1)
        assert reason in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert shell.json("query", "list") == []

    def test_a_file_that_is_not_there_and_a_report_that_can_not_be(self, shell, tmp_path):
        assert "No such file" in shell("query", "load", "no.csv", code=1).stderr
        path = tmp_path / "q.csv"
        path.write_text("id\na\n")
        load = ("query", "load", path, "--kind", "range", "--errors", tmp_path / "no" / "bad.csv")
        assert "can't be written" in shell(*load, code=1).stderr
        assert shell.json("query", "list") == []

    def test_ids_of_any_letters(self, shell, tmp_path):
        names = ["it's", 'say "hi"', "a\nb", "🎈", "nul\0", "\\", " a "]
        pq.write_table(pa.table({"id": names}), tmp_path / "q.parquet")
        shell("query", "load", "q.parquet", "--kind", "range")
        assert [query["id"] for query in shell.json("query", "list")] == names
        pa.csv.write_csv(pa.table({"id": [f"{name}2" for name in names[:4]]}), tmp_path / "q.csv")
        shell("query", "load", "q.csv", "--kind", "range")
        assert [query["id"] for query in shell.json("query", "list")][7:] == [
            f"{name}2" for name in names[:4]
        ]

    def test_integer_keys(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text("id,key\na,7\n")
        shell("query", "load", "q.csv", "--kind", "range", "--integer-keys")
        (tmp_path / "r.csv").write_text("id,key\nb,IBM\n")
        assert "integers" in shell("query", "load", "r.csv", "--kind", "range", code=1).stderr


def test_quarantined_queries_are_listed_and_given_back_14(shell):
    assert shell.json("query", "quarantined") == []
    assert "0 queries" in shell("query", "quarantined").stdout
    shell("query", "add", "band", "--box", "price=40..50")
    registry = eq.open(shell.url)._log.registry
    taken_out = Quarantined("band", "border", "ZeroDivisionError: why", 1)
    registry.quarantine("trades").replace("job", {0: [taken_out], 1: [taken_out]})
    told = shell("query", "quarantined").stdout
    assert "ZeroDivisionError: why" in told
    assert "1 query" in told
    assert [row["shard"] for row in shell.json("query", "quarantined")] == [0, 1]
    refused = shell("query", "quarantined", "--give-back", "other", code=1)
    assert "is not quarantined" in refused.stderr
    told = shell("query", "quarantined", "--give-back", "band").stdout
    assert told == "gave back 1 query\n"
    assert shell.json("query", "quarantined") == []
    assert [row["id"] for row in shell.json("query", "list")] == ["band"]


class TestReplace:
    def write(self, tmp_path, *rows):
        path = tmp_path / "rules.csv"
        path.write_text("\n".join(["id,price_lo,price_hi,owner", *rows, ""]))
        return path

    def test_a_file_takes_the_place_of_what_was_loaded(self, shell, tmp_path):
        load = ["query", "load", self.write(tmp_path, "a,1,2,ann", "b,1,2,", "c,1,2,")]
        load += ["--kind", "border"]
        shell(*load)
        shell("query", "add", "r", "--kind", "range", "--box", "price=1..2")
        self.write(tmp_path, "b,1,2,", "c,1,3,", "d,1,2,")
        assert "is live already" in shell(*load, code=1).stderr
        said = shell(*load, "--replace", "--prune", "--dry-run").stdout
        assert said.splitlines() == [
            "1 added, 1 changed, 1 unchanged, 1 dropped (a)",
            "nothing has changed (--dry-run)",
        ]
        assert "--yes drops" in shell(*load, "--replace", "--prune", code=2).stderr
        assert [row["id"] for row in shell.json("query", "list")] == ["a", "b", "c", "r"]
        done = shell.json(*load, "--replace", "--prune", "--yes")
        names = ("added", "changed", "unchanged", "dropped", "registered", "dry_run")
        assert [done[name] for name in names] == [1, 1, 1, 1, 3, False]
        assert sorted(row["id"] for row in shell.json("query", "list")) == ["b", "c", "d", "r"]

    def test_only_an_owner_s_queries_are_dropped(self, shell, tmp_path):
        load = ["query", "load", self.write(tmp_path, "a,1,2,ann", "b,1,2,bob"), "--kind", "border"]
        shell(*load)
        self.write(tmp_path, "c,1,2,ann")
        shell(*load, "--replace", "--prune", "--owner", "ann", "--yes")
        assert [row["id"] for row in shell.json("query", "list")] == ["b", "c"]

    def test_bad_rows_drop_nothing(self, shell, tmp_path):
        load = ["query", "load", self.write(tmp_path, "a,1,2,", "b,1,2,"), "--kind", "border"]
        shell(*load)
        self.write(tmp_path, "a,2,1,", "b,x,2,")
        shell(*load, "--replace", "--prune", "--yes", code=1)
        shell(*load, "--replace", "--prune", "--yes", "--on-error", "skip")
        assert [row["id"] for row in shell.json("query", "list")] == ["a", "b"]
        self.write(tmp_path, "a,1,2,", "a,1,3,")
        assert "earlier row" in shell(*load, "--replace", code=1).stderr

    @pytest.mark.parametrize("option", ["--prune", "--dry-run"])
    def test_options_that_need_it(self, shell, tmp_path, option):
        shell("query", "load", self.write(tmp_path, "a,1,2,"), "--kind", "border", option, code=2)
