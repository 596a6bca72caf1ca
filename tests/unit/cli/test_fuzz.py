"""Whatever a file holds, the command line says in a line what is wrong, or reads it."""

import io
import json
import signal
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import everquery as eq
from everquery.cli import query_load, replay, run
from everquery.cli.app import app

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
SECONDS = 60  # the longest that one file may take: far more than any needs, so a hang is found
ROWS = 50
EVENTS = pa.table(
    {
        "symbol": ["IBM", "Ä🎈", "", None, 'q"\n,'] * (ROWS // 5),
        "ts": pa.array(range(ROWS), pa.timestamp("us")),
        "price": [1.5, 45.0, None, float("inf"), 9e300] * (ROWS // 5),
    }
)
QUERIES = pa.table(
    {
        "id": [f"q{i}" for i in range(ROWS)],
        "key": ["IBM", None, "x", "y", "z"] * (ROWS // 5),
        "price_lo": [float(i) for i in range(ROWS)],
        "price_hi": [i + 5.0 if i % 2 else None for i in range(ROWS)],
        "closed": ["left", "both", None, "right", "neither"] * (ROWS // 5),
        "labels": ['{"team": "fx"}', None] * (ROWS // 2),
    }
)


def as_bytes(table, form):
    """Return a table as the bytes of a file."""
    if form == "jsonl":
        rows = (row | {"ts": str(row["ts"])} for row in table.to_pylist())
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, sink, row_group_size=20)
    elif form == "csv":
        pa.csv.write_csv(table, sink)
    else:
        names = table.column(0).dictionary_encode().unify_dictionaries()
        table = table.set_column(0, table.column_names[0], names)
        start = pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream
        with start(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=20)
    return sink.getvalue()


FORMS = ["parquet", "arrow", "arrows", "csv", "jsonl"]
EVENT_FILES = {form: as_bytes(EVENTS, form) for form in FORMS}
QUERY_FILES = {form: as_bytes(QUERIES, form) for form in FORMS if form != "jsonl"}
edits = st.lists(
    st.tuples(
        st.sampled_from(["put", "insert", "cut", "end"]),
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.binary(min_size=1, max_size=4), st.sampled_from([b"\xff" * 8, b"\0" * 8])),
    ),
    max_size=4,
)


def damaged(content, changes):
    """Return the content with some bytes changed, added or taken away."""
    data = bytearray(content)
    for what, where, new in changes:
        at = int(where * len(data))
        if what == "put":
            data[at : at + len(new)] = new
        elif what == "insert":
            data[at:at] = new
        elif what == "cut":
            del data[at : at + len(new) * 4]
        else:
            del data[at:]
    return bytes(data)


@contextmanager
def no_hang():
    def stop(*_):
        raise AssertionError(f"still at it after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(*line):
    """Run a command; it ends well, or with one line that says why not."""
    with no_hang():
        result = CliRunner().invoke(app, [*line, "-r", "sqlite:///unused.db"])
    assert isinstance(result.exception, (SystemExit, type(None))), repr(result.exception)
    assert result.exit_code in (0, 1)
    assert "Traceback" not in result.output
    if result.exit_code:
        assert result.stderr.splitlines()[-1].startswith("everquery: ")  # notes may stand before


@pytest.fixture(scope="module", autouse=True)
def in_memory():
    """Let every command have an empty engine of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (query_load, run, replay):
            patch.setattr(module, "existing_engine", lambda *_, **__: engine())
        yield


def engine():
    made = eq.Engine(STREAM)
    made.register([eq.Border("band", {"price": (40, 50)}), eq.Range("all", {})])
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("form", FORMS)
@given(changes=edits)
def test_damaged_events(folder, form, changes):
    path = folder / f"e.{form}"
    path.write_bytes(damaged(EVENT_FILES[form], changes))
    check("run", str(path), "--quiet")


@pytest.mark.parametrize("form", QUERY_FILES)
@given(changes=edits, skip=st.booleans())
def test_damaged_queries(folder, form, changes, skip):
    path = folder / f"q.{form}"
    path.write_bytes(damaged(QUERY_FILES[form], changes))
    check(
        "query", "load", str(path), "--kind", "border", "--on-error", "skip" if skip else "refuse"
    )


@given(data=st.binary(max_size=300), form=st.sampled_from([*FORMS, "dat"]))
def test_any_bytes(folder, data, form):
    path = folder / f"b.{form}"
    for head in (b"", b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff", b"symbol,ts,price\n", b"id\n"):
        path.write_bytes(head + data)
        check("replay", str(path), "--json")
        check("query", "load", str(path), "--kind", "range")


def test_files_that_are_whole(folder):
    for form, content in EVENT_FILES.items():
        (folder / f"w.{form}").write_bytes(content)
        result = CliRunner().invoke(app, ["run", str(folder / f"w.{form}"), "-r", "x", "--json"])
        assert json.loads(result.stderr)["events"] == ROWS, form
    for form, content in QUERY_FILES.items():
        (folder / f"w.{form}").write_bytes(content)
        line = ["query", "load", str(folder / f"w.{form}"), "--kind", "border", "-r", "x", "--json"]
        assert json.loads(CliRunner().invoke(app, line).stdout)["registered"] == ROWS, form
