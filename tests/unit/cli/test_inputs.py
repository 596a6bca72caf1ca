"""What ``run`` reads: packed files, folders, files that are half written."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

EVENTS = [{"symbol": "IBM", "ts": i, "price": price} for i, price in enumerate([45.0, 55.0, 41.0])]
TOLD = [("enter", 0), ("leave", 1), ("enter", 2)]


@pytest.fixture
def band(shell):
    shell("query", "add", "band", "--box", "price=40..50")
    return shell


def as_csv(events=EVENTS):
    rows = "".join(f"{e['symbol']},{e['ts']},{e['price']}\n" for e in events)
    return ("symbol,ts,price\n" + rows).encode()


def as_lines(events=EVENTS):
    return "".join(json.dumps(each) + "\n" for each in events).encode()


TEXTS = {"csv": as_csv(), "jsonl": as_lines(), "json": json.dumps(EVENTS, indent=1).encode()}


def packed(data, how):
    if how == "gz":
        return gzip.compress(data)
    codec = pa.Codec("zstd")
    return codec.compress(data, asbytes=True)


def told(result):
    notices = [json.loads(line) for line in result.stdout.splitlines()]
    return [(each["event"], each["time"]) for each in notices]


@pytest.mark.parametrize("how", ["gz", "zst"])
@pytest.mark.parametrize("form", TEXTS)
class TestPacked:
    def test_by_any_name(self, band, tmp_path, form, how):
        for name in (f"e.{form}.{how}", f"e.{form}", "e"):
            (tmp_path / name).write_bytes(packed(TEXTS[form], how))
            assert told(band("run", name, "--json")) == TOLD

    def test_cut(self, band, tmp_path, form, how):
        name = f"e.{form}.{how}"
        (tmp_path / name).write_bytes(packed(TEXTS[form] * 200, how)[:-9])
        result = band("run", name, code=1)
        assert f"{name} can't be read" in result.stderr

    def test_queries(self, band, tmp_path, form, how):
        if form != "csv":
            pytest.skip("queries load from CSV")
        (tmp_path / "q.csv").write_bytes(packed(b"id,price_lo\na,1\n", how))
        assert band.json("query", "load", "q.csv", "--kind", "range")["registered"] == 1


def test_several_parts_of_gzip(band, tmp_path):
    lines = as_lines().splitlines(keepends=True)
    (tmp_path / "e.jsonl.gz").write_bytes(b"".join(gzip.compress(line) for line in lines))
    assert told(band("run", "e.jsonl.gz", "--json")) == TOLD


def test_a_cut_file_says_so(band, tmp_path):
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(as_csv())[:-12])
    result = band("run", "e.csv.gz", code=1)
    assert "still being written: take it when it is whole" in result.stderr


def test_parquet_is_not_packed_again(band, tmp_path):
    pq.write_table(pa.Table.from_pylist(EVENTS), tmp_path / "e.parquet")
    (tmp_path / "e.parquet.gz").write_bytes(gzip.compress((tmp_path / "e.parquet").read_bytes()))
    assert "unpack it first" in band("run", "e.parquet.gz", code=1).stderr


class TestFolders:
    def test_files_are_taken_by_name(self, band, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()
        (folder / "c.json").write_bytes(as_lines(EVENTS[2:]))
        (folder / "a.json").write_text(json.dumps(EVENTS[:1]))
        (folder / "b.csv.gz").write_bytes(gzip.compress(as_csv(EVENTS[1:2])))
        for name in (".a.json.crc", "_SUCCESS", ".hidden.csv"):
            (folder / name).write_text("?")
        result = band("run", folder, "--json")
        assert told(result) == TOLD
        assert "left out" not in result.stderr

    def test_others_are_named(self, band, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()
        assert "no file of events in the folder" in band("run", folder, code=1).stderr
        (folder / "a.csv").write_bytes(as_csv())
        for name in ("notes.txt", "b.csv.tmp"):
            (folder / name).write_text("?")
        result = band("run", folder, "--quiet", "--json")
        assert told(result) == TOLD
        assert "2 files left out; the first is b.csv.tmp" in result.stderr

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("b.csv", b"", "b.csv is empty"),
            ("b.parquet", b"PAR1" + bytes(100), "still being written"),
            ("b.json", b'[{"symbol": "IBM"', "b.json begins as a JSON array, but is not JSON"),
        ],
    )
    def test_half_written_files(self, band, tmp_path, name, content, reason):
        folder = tmp_path / "in"
        folder.mkdir()
        (folder / "a.csv").write_bytes(as_csv())
        (folder / name).write_bytes(content)
        assert reason in band("run", folder, code=1).stderr

    @pytest.mark.parametrize(
        ("name", "content", "line"),
        [("a.csv", as_csv()[:-6], 4), ("a.jsonl", as_lines()[:-9], 3)],
    )
    def test_a_line_that_is_cut(self, band, tmp_path, name, content, line):
        (tmp_path / name).write_bytes(content)
        result = band("run", name)
        assert f"{name}: 1 line left out; the first is line {line}: " in result.stderr
        assert "the input ends within this line, so it may be half written" in result.stderr
        assert "2 events, 2 notices" in result.stderr

    def test_a_last_line_without_its_end_is_an_event(self, band, tmp_path):
        (tmp_path / "a.csv").write_bytes(as_csv()[:-1])
        (tmp_path / "a.jsonl").write_bytes(as_lines()[:-1])
        for name in ("a.csv", "a.jsonl"):
            assert told(band("run", name, "--json")) == TOLD


def test_numbers_in_quotes_are_told_as_what_they_are(band, tmp_path):
    values = ['"45.1"', '"dear"', "true"]
    lines = [f'{{"symbol": "IBM", "ts": 1, "price": {value}}}\n' for value in values]
    (tmp_path / "e.jsonl").write_text("".join(lines))
    result = band("run", "e.jsonl")
    quoted = 'e.jsonl row 0, price is "45.1" (text, as it is in quotes: numbers of JSON have none)'
    assert f'{quoted}; e.jsonl row 1, price is "dear"; e.jsonl row 2, price is true\n' in (
        result.stderr
    )
    records = band.json("run", "e.jsonl", "--out", "n.jsonl")["refused_examples"]
    notes = [record.get("note") for record in records["unreadable_attribute"]]
    assert [note is not None for note in notes] == [True, False, False]


class TestDeadLetters:
    @pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
    def test_all_are_in_the_file(self, band, tmp_path, suffix):
        good, bad = tmp_path / "a.csv", tmp_path / "b.csv"
        good.write_bytes(as_csv())
        rows = "IBM,3,45\nIBM,soon,45\n,4,45\nIBM,1,45\n"
        bad.write_text("symbol,ts,price\n" + rows)
        file = tmp_path / f"letters.{suffix}"
        band("run", good, bad, "--out", "n.jsonl", "--dead-letters", file)
        if suffix == "parquet":
            letters = pq.read_table(file).to_pylist()
        elif suffix == "csv":
            letters = pa.csv.read_csv(file).to_pylist()
        else:
            letters = [json.loads(line) for line in file.read_text().splitlines()]
        found = {(each["row"], each["reason"], each["price"]) for each in letters}
        assert found == {(1, "unreadable_time", 45), (2, "null_key", 45), (3, "late", 45)}
        assert {each["input"] for each in letters} == {str(bad)}
        (soon,) = [each for each in letters if each["row"] == 1]
        assert "soon" in soon["detail"]

    def test_more_than_an_engine_keeps(self, band, tmp_path, monkeypatch):
        monkeypatch.setattr("everquery.state.dead_letters.KEPT", 2)
        (tmp_path / "e.csv").write_bytes(as_csv() + b"IBM,soon,1\n" * 50)
        band("run", "e.csv", "--dead-letters", "l.jsonl")
        assert len((tmp_path / "l.jsonl").read_text().splitlines()) == 50

    def test_another_suffix(self, band, tmp_path):
        (tmp_path / "e.csv").write_bytes(as_csv())
        told = band("run", "e.csv", "--dead-letters", "l.txt", code=1).stderr
        assert "dead letters are written as .csv, .parquet or .jsonl" in told
        band("run", "e.csv", "--dead-letters", "l.csv", "--engine", "spark", code=2)


def test_a_run_without_queries_says_so(shell, tmp_path):
    (tmp_path / "e.csv").write_bytes(as_csv())
    result = shell("run", "e.csv", "--quiet")
    assert result.stderr.startswith("everquery: no queries are registered on stream 'trades' in")
    assert result.stderr.count("no queries") == 1
