"""Spans and labels of queries from the command line."""

import json

import everquery as eq


def run(shell, tmp_path, *options):
    events = tmp_path / "e.jsonl"
    rows = [{"symbol": "IBM", "ts": t, "price": p} for t, p in ((0, 45), (1, 46), (2, 60), (9, 70))]
    events.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return shell("run", events, "--quiet", *options).stdout


def test_spans(shell, tmp_path):
    shell("query", "add", "calm", "--box", "price=40..50", "--dwell", "3", "--ttl", "8")
    shell("query", "add", "few", "--box", "price=..", "--kind", "range", "--throttle", "5")
    shown = shell.json("query", "show", "calm")
    assert (shown["dwell"], shown["ttl"], shown["throttle"]) == ("3", "8", None)
    result = shell("query", "add", "x", "--kind", "range", "--dwell", "5s", code=2)
    assert "range queries have no such option" in result.stderr
    assert "positive" in shell("query", "add", "x", "--ttl", "0", code=1).stderr
    lines = run(shell, tmp_path).splitlines()
    assert lines == [
        "0  match  few  IBM  price=45",
        "5  match  few  IBM  price=60  held_back=2  (throttled)",
        "8  end    calm  (ttl)",
    ]
    assert [row["id"] for row in shell.json("query", "list")] == ["few"]


def test_labels(shell, tmp_path):
    shell("query", "add", "q", "--owner", "ann", "--label", "team=fx", "--kind", "range")
    line = json.loads(run(shell, tmp_path, "--labels", "--json").splitlines()[0])
    assert (line["owner"], line["labels"]) == ("ann", '{"team": "fx"}')
    assert "owner=ann  labels=" in run(shell, tmp_path, "--labels")
    assert "owner" not in run(shell, tmp_path)


def test_spans_of_query_files(shell, tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("id,price_lo,ttl,dwell\na,40,5,\nb,40,,2.5\nc,40,x,\nd,40,0,\n")
    done = shell.json(
        "query", "load", path, "--kind", "border", "--on-error", "skip", "--errors", "bad.csv"
    )
    assert (done["registered"], done["skipped"]) == (2, 2)
    bad = (tmp_path / "bad.csv").read_text()
    assert "ttl is 'x'; it is no span of time" in bad
    assert "ttl is '0'; it must be positive" in bad
    listed = eq.open(shell.url).queries().select(["id", "ttl", "dwell"]).to_pylist()
    assert [tuple(row.values()) for row in listed] == [("a", "5", None), ("b", None, "2.5")]
