"""Q-Q plots from the command line: their numbers are right, and their pictures are pictures."""

import importlib.util
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from everquery.cli import qq_picture
from everquery.kinds.quantile.qq import spaced

TOOL = Path(__file__).parents[3] / "tools" / "qq_plot.py"
EPSILON = 0.001


@pytest.fixture(scope="module")
def trades():
    """Deals of three symbols, and their volumes, many of which are equal."""
    random = np.random.default_rng(42)
    symbol = random.choice(["AOL", "IBM", "SUN"], 30_000, p=[0.3, 0.6, 0.1])
    volume = np.exp(random.normal(np.where(symbol == "AOL", 6.6, 6.0), 1.2)).round(-1) + 1
    return pa.table({"symbol": symbol, "price": random.random(30_000), "volume": volume})


@pytest.fixture
def here(shell, tmp_path, trades):
    """A shell in a folder with these deals."""
    pa.csv.write_csv(trades, tmp_path / "trades.csv")
    return shell


def plot(shell, *arguments, **how):
    return shell("plot", "qq", *arguments, **how)


KEYS = ["--attribute", "volume", "--key-column", "symbol", "--key", "AOL"]


def values_of(trades, symbol=None, attribute="volume"):
    values = trades[attribute].to_numpy()
    return np.sort(values if symbol is None else values[trades["symbol"].to_numpy() == symbol])


def check(data, name, prefix, exact, epsilon=EPSILON):
    """See that each value has a rank that near, and that its bounds are true."""
    target = data["phi"].to_numpy() * exact.size
    value = data[name].to_numpy()
    first, last = (np.searchsorted(exact, value, side) for side in ("left", "right"))
    first += 1
    assert (first <= last).all(), "a value that no event has"
    best = np.clip(np.ceil(target), first, last)
    spread = np.maximum(epsilon * exact.size, 1)
    assert (np.abs(best - target) <= spread).all()
    low, high = (data[prefix + end].to_numpy() for end in ("rank_low", "rank_high"))
    assert (low <= high).all()
    assert ((first <= high) & (low <= last)).all()
    assert set(data[prefix + "n"].to_pylist()) == {exact.size}


def size_of(path):
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", head[16:24])


class TestNumbers:
    def test_two_keys(self, here, tmp_path, trades):
        done = plot(here, "trades.csv", *KEYS, "--against", "IBM", "--data", "qq.csv")
        data = pa.csv.read_csv(tmp_path / "qq.csv")
        assert data.column_names == [
            "phi", "value", "rank_low", "rank_high", "n",
            "against", "against_rank_low", "against_rank_high", "against_n",
        ]  # fmt: skip
        assert data["phi"].to_pylist() == spaced(0, 1, 200)
        check(data, "value", "", values_of(trades, "AOL"))
        check(data, "against", "against_", values_of(trades, "IBM"))
        assert not (tmp_path / "qq.png").exists()
        assert done.stdout.startswith(
            "qq.csv: 200 ranks of AOL (trades.csv), 8,974 events, against IBM"
        )
        assert not done.stderr

    def test_a_key_against_all_of_them_in_parquet(self, here, tmp_path, trades):
        plot(here, "trades.csv", *KEYS, "--data", "qq.parquet", "--epsilon", 0.01, "--points", 37)
        data = pq.read_table(tmp_path / "qq.parquet")
        assert data.num_rows == 37
        check(data, "value", "", values_of(trades, "AOL"), 0.01)
        check(data, "against", "against_", values_of(trades), 0.01)

    def test_all_against_a_key(self, here, tmp_path, trades):
        options = ["-a", "volume", "--key-column", "symbol", "--against", "SUN"]
        plot(here, "trades.csv", *options, "--data", "qq.csv")
        data = pa.csv.read_csv(tmp_path / "qq.csv")
        check(data, "value", "", values_of(trades))
        check(data, "against", "against_", values_of(trades, "SUN"))

    def test_two_files(self, here, tmp_path, trades):
        pq.write_table(trades.slice(0, 5_000), tmp_path / "before.parquet")
        plot(here, "before.parquet", "trades.csv", "-a", "price", "--data", "qq.csv")
        data = pa.csv.read_csv(tmp_path / "qq.csv")
        check(data, "value", "", values_of(trades.slice(0, 5_000), attribute="price"))
        check(data, "against", "against_", values_of(trades, attribute="price"))

    def test_two_keys_of_two_files(self, here, tmp_path, trades):
        pq.write_table(trades.slice(0, 5_000), tmp_path / "before.parquet")
        plot(
            here, "before.parquet", "trades.csv", *KEYS, "--against", "AOL", "--data", "qq.csv"
        )  # fmt: skip
        data = pa.csv.read_csv(tmp_path / "qq.csv")
        check(data, "value", "", values_of(trades.slice(0, 5_000), "AOL"))
        check(data, "against", "against_", values_of(trades, "AOL"))

    def test_a_part_of_the_ranks(self, here, tmp_path, trades):
        zoom = ["--from", 0.9, "--to", 0.95, "--points", 50]
        plot(here, "trades.csv", *KEYS, *zoom, "--data", "qq.csv")
        data = pa.csv.read_csv(tmp_path / "qq.csv")
        assert data["phi"].to_pylist() == [round(0.9 + i / 1_000, 3) for i in range(1, 51)]
        check(data, "value", "", values_of(trades, "AOL"))

    def test_integer_keys(self, shell, tmp_path):
        rows = [{"k": i % 2, "x": float(i)} for i in range(100)]
        (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = ["-a", "x", "--key-column", "k", "--key", 0, "--against", 1, "--points", 4]
        plot(shell, "e.jsonl", *options, "--integer-keys", "--data", "qq.csv")
        data = pa.csv.read_csv(tmp_path / "qq.csv")
        assert data["value"].to_pylist() == [24, 48, 74, 98]
        assert data["against"].to_pylist() == [25, 49, 75, 99]

    def test_a_summary_in_json(self, here, tmp_path):
        done = here.json("plot", "qq", "trades.csv", *KEYS, "--against", "IBM", "--points", 9)
        assert (done["output"], done["data"], done["points"]) == ("qq.png", None, 9)
        assert (done["value"], done["against"]) == ("AOL (trades.csv)", "IBM (trades.csv)")
        assert done["epsilon"] <= EPSILON
        assert done["refused"] == done["unreadable_lines"] == 0
        assert (tmp_path / "qq.png").exists()

    def test_bad_events_are_told_and_left_out(self, shell, tmp_path):
        (tmp_path / "e.csv").write_text("k,x\na,1\na,\na,many\nb,3\nb\na,nan\na,inf\n")
        options = ["-a", "x", "--key-column", "k", "--key", "a", "--points", 2]
        done = plot(shell, "e.csv", *options, "--data", "qq.csv")
        assert "1 event refused" in done.stderr
        assert "2 events with unknown values (x 2)" in done.stderr
        assert "1 line left out" in done.stderr
        data = pa.csv.read_csv(tmp_path / "qq.csv")
        assert data["value"].to_pylist() == [1, np.inf]
        assert data["against"].to_pylist() == [3, np.inf]
        plot(shell, "e.csv", *options)  # infinities are left out of the picture


class TestPictures:
    def test_the_whole(self, here, tmp_path):
        done = plot(here, "trades.csv", *KEYS, "--against", "IBM", "--output", "a.png")
        assert size_of(tmp_path / "a.png") == (506, 506)
        assert done.stdout.startswith("a.png: 200 ranks")

    def test_a_part_beside_the_whole(self, here, tmp_path):
        options = ["--from", 0.9, "--log", "--data", "qq.csv", "--quiet"]
        done = plot(here, "trades.csv", *KEYS, *options, "-o", "a.png")
        assert size_of(tmp_path / "a.png") == (1_012, 506)
        assert pa.csv.read_csv(tmp_path / "qq.csv")["phi"][0].as_py() == 0.9005
        assert done.output == ""

    @pytest.mark.parametrize(("name", "magic"), [("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
    def test_other_formats(self, here, tmp_path, name, magic):
        plot(here, "trades.csv", *KEYS, "-o", name)
        assert (tmp_path / name).read_bytes().startswith(magic)

    def test_names_are_drawn_as_they_are(self, shell, tmp_path):
        (tmp_path / "e.jsonl").write_text(
            "".join(json.dumps({"k": k, "$x_": i}) + "\n" for k in ("$a_{", "株\n") for i in (1, 2))
        )
        keys = ["--key-column", "k", "--key", "$a_{", "--against", "株\n"]
        plot(shell, "e.jsonl", "-a", "$x_", *keys)
        assert size_of(tmp_path / "qq.png") == (506, 506)

    def test_the_picture_of_the_docs(self, tmp_path):
        spec = importlib.util.spec_from_file_location("qq_plot", TOOL)
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        data = tool.plot(tmp_path, events=60_000)
        assert size_of(tmp_path / "qq.png") == (1_012, 506)
        deals = pa.concat_tables(tool.deals(60_000))
        check(data, "value", "", values_of(deals, "AOL"))
        check(data, "against", "against_", values_of(deals, "IBM"))

    def test_matplotlib_is_not_needed_before_a_picture_is(self):
        lines = "import sys; import everquery.cli.app; sys.exit('matplotlib' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0


class TestTrouble:
    def test_without_matplotlib_there_are_numbers(self, here, tmp_path, monkeypatch):
        monkeypatch.setattr(qq_picture, "find_spec", lambda name: None)
        told = plot(here, "trades.csv", *KEYS, code=1).stderr
        assert "pip install 'everquery[plot]'" in told
        plot(here, "trades.csv", *KEYS, "--data", "qq.csv")
        assert (tmp_path / "qq.csv").exists()

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--key", "DELL"], "trades.csv has no event of key 'DELL' with a volume to rank"),
            (["--against", "DELL"], "trades.csv has no event of key 'DELL' with a volume to rank"),
            (["-a", "volumes"], "trades.csv has no event of key 'AOL' with a volumes to rank"),
            (["--key-column", "sym"], "needs column 'sym', and trades.csv has it not at all"),
            (["-a", "symbol", "--key-column", "price"], "with a symbol to rank"),
            (["-o", "nowhere/qq.png"], "nowhere/qq.png can't be written: No such file"),
            (["--data", "nowhere/qq.csv"], "nowhere/qq.csv can't be written"),
            (["--data", "nowhere/qq.parquet"], "nowhere/qq.parquet can't be written"),
        ],
    )
    def test_refused_in_one_line(self, here, tmp_path, arguments, said):
        told = plot(here, "trades.csv", *KEYS, *arguments, code=1).stderr
        assert said in told
        assert len(told.splitlines()) == 1
        assert not list(tmp_path.glob("qq.*"))

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--from", -0.1], "shares from 0 to 1"),
            (["--to", 1.1], "shares from 0 to 1"),
            (["--from", 0.9, "--to", 0.9], "the smaller first"),
            (["--from", "nan"], "shares from 0 to 1"),
            (["--points", 0], "--points"),
            (["--epsilon", 0.00001], "--epsilon"),
            (["--epsilon", "nan"], "--epsilon"),
            (["--output", "qq.gif"], "--output"),
            (["--data", "qq.txt"], "--data"),
            (["--against", "AOL"], "compared with itself"),
            (["--integer-keys"], "'AOL' is not an integer"),
            (["b.csv", "c.csv"], "no more"),
        ],
    )
    def test_wrong_command_lines(self, here, tmp_path, arguments, said):
        assert said in plot(here, "trades.csv", *KEYS, *arguments, code=2).stderr
        assert not list(tmp_path.glob("qq.*"))

    def test_keys_need_a_column_and_a_comparison_needs_two(self, here):
        told = plot(here, "trades.csv", "-a", "volume", "--key", "AOL", code=2).stderr
        assert "say which column has the keys" in told
        assert "compared with itself" in plot(here, "trades.csv", "-a", "volume", code=2).stderr

    def test_files_without_events(self, here, tmp_path):
        (tmp_path / "empty.csv").write_text("")
        (tmp_path / "header.csv").write_text("symbol,volume\n")
        (tmp_path / "other.jsonl").write_text('{"symbol": "AOL"}\n')
        for name, said in (
            ("empty.csv", "empty.csv is empty"),
            ("header.csv", "header.csv has no event with a volume to rank"),
            ("other.jsonl", "other.jsonl"),
            ("none.csv", "none.csv can't be read: No such file"),
        ):
            told = plot(here, "trades.csv", name, "-a", "volume", code=1).stderr
            assert said in told
            assert len(told.splitlines()) == 1

    def test_keys_of_another_type(self, shell, tmp_path):
        pq.write_table(pa.table({"k": [1, 2], "x": [1.0, 2.0]}), tmp_path / "e.parquet")
        keys = ["-a", "x", "--key-column", "k", "--key", "1"]
        assert "come as int64" in plot(shell, "e.parquet", *keys, code=1).stderr
        plot(shell, "e.parquet", *keys, "--integer-keys")

    def test_nothing_to_draw(self, shell, tmp_path):
        (tmp_path / "e.csv").write_text("k,x\na,inf\nb,-inf\nc,0\nd,1\n")
        keys = ["e.csv", "-a", "x", "--key-column", "k", "--points", 1]
        told = plot(shell, *keys, "--key", "a", "--against", "b", code=1).stderr
        assert "all of these quantiles are infinite" in told
        told = plot(shell, *keys, "--key", "c", "--against", "d", "--log", code=1).stderr
        assert "logarithmic axes are for values above 0, and 0.0 is among" in told
