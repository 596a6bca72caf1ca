"""Files of queries: the columns of a CSV have the types of the fields they are about."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.queries.table import check_table
from everquery.sources import files, query_files
from everquery.sources.query_files import read_queries

STREAM = eq.Stream("trades", key="symbol", attributes=["price", "volume"])
CSV = """id,attribute,phi,epsilon,last,by_key,key
a,price,0.99,0.005,500000,true,
b,volume,1,1e-2,,false,IBM
c,price,.5,0.1,,,
"""


def read(path):
    return read_queries(path, progress=lambda _done, _total: None)


def check(table):
    def none(ids):
        return np.zeros(len(ids), np.bool_)

    return check_table(table, eq.Quantile, STREAM, already_live=none, repeated=none)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text(CSV)
    return path


def test_a_csv_of_quantiles(file):
    rows = read(file)
    assert rows.errors.num_rows == 0
    checked = check(rows.table)
    assert checked.errors.num_rows == 0
    found = {}
    for block in checked.blocks:
        for i, query_id in enumerate(block.ids.to_pylist()):
            numbers = [block.numbers[name][i] for name in ("phi", "epsilon", "last")]
            found[query_id] = (block.attributes, *numbers, bool(block.options["by_key"][i]))
    assert found == {
        "a": ((0,), 0.99, 0.005, 500_000, True),
        "b": ((1,), 1.0, 0.01, 0, False),
        "c": ((0,), 0.5, 0.1, 0, False),
    }


def test_a_parquet_file_of_quantiles(file, tmp_path):
    path = tmp_path / "q.parquet"
    pq.write_table(read(file).table, path)
    assert sum(map(len, check(read(path).table).blocks)) == 3


def test_a_csv_without_any_window(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("id,attribute,phi,epsilon,last,by_key\na,price,0.5,0.1,,\n")
    (block,) = check(read(path).table).blocks
    assert block.numbers["last"].tolist() == [0]
    assert block.options["by_key"].tolist() == [False]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x,price,much,0.1,,,", "phi is 'much', which is not a number"),
        ("x,price,0.5,small,,,", "epsilon is 'small', which is not a number"),
        ("x,price,0.5,0.1,many,,", "last is 'many', which is not a number"),
        ("x,price,0.5,0.1,,often,", "by_key is 'often', which is not true or false"),
    ],
)
def test_cells_of_another_type(file, row, reason):
    file.write_text(CSV + row + "\n")
    rows = read(file)
    (error,) = rows.errors.to_pylist()
    assert (error["row"], error["id"]) == (3, "x")
    assert reason in error["reason"]
    assert rows.table["id"].to_pylist() == ["a", "b", "c"]
    assert rows.table["attribute"].type == pa.string()


def test_bad_rows_are_all_counted_and_good_ones_numbered_14(tmp_path, monkeypatch):
    monkeypatch.setattr(query_files, "MOST_ERRORS", 50)
    monkeypatch.setattr(files, "BLOCK_BYTES", 4_096)
    path = tmp_path / "q.csv"
    lines = ["id,price_lo,price_hi", ""]
    good, unread = [], 0
    for row in range(3_000):
        if row % 5 == 2:
            good.append(row)
            lines.append(f'"q\n{row}",1,2')  # a value with a line break
        elif row % 5 == 3:
            unread += 1
            lines.append(f"q{row},much,2\n")  # and an empty line behind it
        else:
            lines.append(f"q{row}")
    path.write_text("\n".join(lines))
    rows = read(path)
    assert rows.rows.to_pylist() == good
    assert rows.table["id"].to_pylist() == [f"q\n{row}" for row in good]
    assert rows.bad == 3_000 - len(good)
    assert rows.errors["row"].to_pylist() == [r for r in range(90) if r % 5 not in (2, 3)][:50]


def test_bad_cells_are_counted_beyond_those_that_are_listed_14(file, monkeypatch):
    monkeypatch.setattr(query_files, "MOST_ERRORS", 2)
    file.write_text(CSV + "".join(f"x{i},price,much,0.1,many,,\n" for i in range(5)))
    rows = read(file)
    assert rows.bad == 5
    assert rows.errors["row"].to_pylist() == [3, 4]
    assert rows.rows.to_pylist() == [0, 1, 2]
