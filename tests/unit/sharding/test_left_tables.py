"""Tables that are left in files: small ones are sent, and files that nobody wants are removed."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from everquery.sharding import left_tables
from everquery.sharding.left_tables import STALE_SECONDS, clear_up, leave, pick_up

LEAST_BYTES = 1 << 12
LARGE = pa.table({"x": np.arange(LEAST_BYTES // 8), "n": pa.array([None] * (LEAST_BYTES // 8))})
SMALL = pa.table({"x": np.arange(LEAST_BYTES // 8 - 1)})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return the folder that the processes of this host share."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(left_tables, "_left", {})
    monkeypatch.setattr(left_tables, "LEAST_BYTES", LEAST_BYTES)
    return tmp_path / "everquery"


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_table_is_picked_up_once(folder):
    name = leave(LARGE)
    assert files(folder) == [name]
    found = pick_up(name)
    assert files(folder) == []
    assert found.equals(LARGE)  # it stays mapped
    with pytest.raises(FileNotFoundError):
        pick_up(name)


@pytest.mark.parametrize("table", [SMALL, LARGE.slice(0, 0), pa.table({})])
def test_small_ones_are_sent(folder, table):
    assert leave(table) is None
    assert not folder.exists() or files(folder) == []


def test_without_a_shared_folder_all_are_sent(folder, monkeypatch):
    folder.mkdir(mode=0o755)
    assert leave(LARGE) is None  # others could write there
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert leave(LARGE) is None
    with pytest.raises(FileNotFoundError):
        pick_up("a.table")


def test_without_room_it_is_sent_and_nothing_is_left(folder, monkeypatch):
    class FullDisk:
        def __init__(self, path, mode):
            with Path(path).open(mode) as file:
                file.write(b"begun")
            raise OSError(28, os.strerror(28))

    monkeypatch.setattr(left_tables.pa, "OSFile", FullDisk)
    assert leave(LARGE) is None
    assert files(folder) == []


@pytest.mark.parametrize("name", ["../a.table", "/etc/passwd", "sub/a.table"])
def test_names_that_lead_elsewhere_are_refused(folder, name):
    (folder.parent / "a.table").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="no table was left"):
        pick_up(name)
    assert (folder.parent / "a.table").exists()


def test_what_is_left_outlives_the_next_task_and_not_for_ever(folder):
    """The worker is free for its next task before the names of its tables have been handed on."""
    first, second = leave(LARGE), leave(LARGE)
    clear_up(1_000.0)
    third = leave(LARGE)
    clear_up(1_000.0 + STALE_SECONDS / 2)
    assert files(folder) == sorted([first, second, third])
    assert pick_up(first).equals(LARGE)
    clear_up(1_000.0 + STALE_SECONDS)
    assert files(folder) == [third]  # its own time has not come
    clear_up(1_000.0 + 2 * STALE_SECONDS)
    assert files(folder) == []
    assert left_tables._left == {}


def test_what_was_picked_up_is_forgotten(folder):
    for _ in range(3):
        pick_up(leave(LARGE))
        clear_up(0.0)
    assert left_tables._left == {}


def test_files_of_others_stay(folder):
    name = leave(LARGE)
    left_tables._left.clear()  # as in another process
    for now in (0.0, STALE_SECONDS, 2 * STALE_SECONDS):
        clear_up(now)
    assert files(folder) == [name]
