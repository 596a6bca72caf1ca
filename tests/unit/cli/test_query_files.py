"""Files of queries of several kinds, with columns of others, and with ids that come twice."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq

MIXED = """\
id,kind,key,price_lo,price_hi,emit,total,repeat,phi,epsilon,attribute
a,border,IBM,40,50,enter,,,,,
b,range,,,10,,,,,,
c,threshold,,40,,,100,true,,,
d,quantile,,,,,,,0.5,0.1,price
e,border,,1,2,,,,,,
"""


def test_queries_of_several_kinds_in_one_file(shell, tmp_path):
    (tmp_path / "q.csv").write_text(MIXED)
    done = shell.json("query", "load", "q.csv")
    assert (done["registered"], done["ignored"]) == (5, [])
    assert done["kind"] == "border, quantile, range, threshold"
    assert shell.json("stream", "show")["position"] == 5
    with eq.open(shell.url) as engine:
        queries = {each["id"]: each for each in engine.queries().to_pylist()}
    assert list(queries) == ["a", "b", "c", "d", "e"]
    assert [queries[name]["kind"] for name in "abcd"] == [
        "border",
        "range",
        "threshold",
        "quantile",
    ]
    assert (queries["a"]["key"], queries["a"]["emit"]) == ("IBM", "enter")
    assert (queries["c"]["total"], queries["c"]["price_lo"]) == (100, 40.0)


def test_one_bad_row_of_one_kind_refuses_all(shell, tmp_path):
    (tmp_path / "q.csv").write_text(MIXED.replace("b,range,,,10", "b,range,,20,10"))
    told = shell("query", "load", "q.csv", code=1).stderr
    assert "row 1 ('b'): price_lo is not below price_hi" in told
    assert shell.json("query", "list") == []
    done = shell.json("query", "load", "q.csv", "--on-error", "skip", "--errors", "bad.csv")
    assert (done["registered"], done["skipped"]) == (4, 1)
    assert '1,"b"' in (tmp_path / "bad.csv").read_text()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("f,bordr,,1,2,,,,,,", "row 5 ('f'): kind is 'bordr'; it takes one of range, border"),
        ("f,,,1,2,,,,,,", "row 5 ('f'): kind is null"),
        ("f,border,,1,2,,7,,,,", "has no column 'total'"),
    ],
)
def test_rows_that_are_of_no_kind_or_have_what_it_has_not(shell, tmp_path, line, reason):
    (tmp_path / "q.csv").write_text(f"{MIXED}{line}\n")
    assert reason in shell("query", "load", "q.csv", code=1).stderr
    assert shell.json("query", "list") == []


def test_kind_must_be_that_of_the_file(shell, tmp_path):
    (tmp_path / "q.csv").write_text(MIXED)
    told = shell("query", "load", "q.csv", "--kind", "border", code=1).stderr
    assert "queries of other kinds than border" in told


def test_columns_of_others_are_ignored_and_named(shell, tmp_path):
    (tmp_path / "q.csv").write_text("id,price_lo,comment,colour\na,40,mine,red\n")
    told = shell("query", "load", "q.csv", "--kind", "range").stderr
    assert "q.csv: columns comment, colour are ignored, as no query has such a field" in told
    (tmp_path / "r.csv").write_text("id,price_lo,comment\nb,40,mine\n")
    assert shell.json("query", "load", "r.csv", "--kind", "range")["ignored"] == ["comment"]


def test_a_column_that_is_nearly_one_of_ours_is_an_error(shell, tmp_path):
    for name in ("prise_lo", "price_low", "labls", "owner_", "volume_lo"):
        (tmp_path / "q.csv").write_text(f"id,{name}\na,40\n")
        assert "has no column" in shell("query", "load", "q.csv", "--kind", "range", code=1).stderr


def test_a_byte_order_mark_and_line_ends_of_windows(shell, tmp_path):
    text = MIXED.replace("\n", "\r\n")
    (tmp_path / "q.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert shell.json("query", "load", "q.csv")["registered"] == 5


class TestRepeatedIds:
    def test_both_lines_are_named(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text("id,price_lo\na,1\nb,2\na,3\n")
        told = shell("query", "load", "q.csv", "--kind", "range", code=1).stderr
        reason = "id occurs in an earlier row of the file (row 0, line 2; this is line 4)"
        assert f"row 2 ('a'): {reason}" in told
        done = shell.json("query", "load", "q.csv", "--kind", "range", "--on-error", "skip")
        assert (done["registered"], done["skipped"]) == (2, 1)
        assert [each["box"] for each in shell.json("query", "list")] == [
            {"price": "1.."}, {"price": "2.."},
        ]  # fmt: skip

    def test_lines_that_are_no_rows(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text('id,price_lo\na,1\n\n"b\nc",2\na,3\n')
        told = shell("query", "load", "q.csv", "--kind", "range", code=1).stderr
        assert "row 2 ('a'): id occurs in an earlier row of the file (row 0)" in told

    def test_across_kinds(self, shell, tmp_path):
        (tmp_path / "q.csv").write_text("id,kind,price_lo\na,range,1\na,border,2\n")
        told = shell("query", "load", "q.csv", code=1).stderr
        assert "row 1 ('a'): id occurs in an earlier row of the file (row 0, line 2" in told

    def test_in_parquet(self, shell, tmp_path):
        table = pa.table({"id": ["a", "b", None, "a"], "price_lo": [1.0, 2.0, 3.0, 4.0]})
        pq.write_table(table, tmp_path / "q.parquet")
        arguments = ("--kind", "range", "--on-error", "skip", "--errors", "bad.csv")
        done = shell.json("query", "load", "q.parquet", *arguments)
        assert (done["registered"], done["skipped"]) == (2, 2)
        listed = (tmp_path / "bad.csv").read_text().splitlines()
        assert listed[1:] == [
            '2,,"id is null"',
            '3,"a","id occurs in an earlier row of the file (row 0)"',
        ]


def test_a_table_of_several_kinds_from_python():
    engine = eq.Engine(eq.Stream("trades", key="symbol", attributes=["price"]))
    table = pa.table(
        {
            "id": ["a", "b", "c", "a"],
            "kind": ["range", "border", "threshold", "border"],
            "price_lo": [1.0, 2.0, 3.0, 4.0],
            "total": pa.array([None, None, 5, None], pa.int64()),
        }
    )
    with pytest.raises(eq.InvalidTableError, match=r"row 3 \('a'\): id occurs in an earlier row"):
        engine.register_table(table)
    assert engine.queries().num_rows == 0
    done = engine.register_table(table, on_error="skip")
    assert (done.registered, done.errors["row"].to_pylist()) == (3, [3])
    assert engine.queries()["id"].to_pylist() == ["a", "b", "c"]
    for bad in (table.drop_columns("kind"), table.drop_columns("id"), table.slice(0, 0), [1]):
        with pytest.raises(eq.InvalidTableError):
            engine.register_table(bad)
    with pytest.raises(eq.InvalidTableError, match="must be strings"):
        engine.register_table(pa.table({"id": ["a"], "kind": [[1]]}))
