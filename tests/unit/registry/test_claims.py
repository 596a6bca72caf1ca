"""A claim on a reader of a SQLite registry: one holder at a time, and nothing left behind."""

import os
import subprocess
import sys
import threading
from errno import ENOSYS

import pytest
from filelock import FileLock
from sqlalchemy import create_engine

from everquery.registry.claims import claim


@pytest.fixture
def database(tmp_path):
    database = create_engine(f"sqlite:///{tmp_path / 'q.db'}")
    yield database
    database.dispose()


def test_one_holder_at_a_time(database, tmp_path):
    first = claim(database, "reader")
    assert first.holds()
    assert claim(database, "reader") is None
    other = claim(database, "other")
    assert other is not None
    other.release()
    lock = tmp_path / "q.db.reader.lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    released = threading.Thread(target=first.release)  # by whichever thread closes the registry
    released.start()
    released.join()
    assert not list(tmp_path.glob("*.lock"))
    again = claim(database, "reader")
    assert again is not None
    again.release()


def test_a_claim_ends_with_its_process(database, tmp_path):
    code = (
        "import os; from sqlalchemy import create_engine; "
        "from everquery.registry.claims import claim;"
        f"held = claim(create_engine('sqlite:///{tmp_path / 'q.db'}'), 'reader');"
        "print(held is not None, flush=True); input(); os._exit(9)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "True\n"
        assert claim(database, "reader") is None
        child.communicate("\n")
    assert (tmp_path / "q.db.reader.lock").exists()  # it had no time to tidy up
    after = claim(database, "reader")
    assert after is not None
    after.release()


def test_without_locks_of_files_nothing_is_held(database, tmp_path, monkeypatch):
    def acquire(self, **_):
        raise OSError(ENOSYS, os.strerror(ENOSYS))

    monkeypatch.setattr(FileLock, "acquire", acquire)
    one, two = (claim(database, "reader") for _ in range(2))
    assert one.holds()
    assert two.holds()
    assert not list(tmp_path.glob("*.lock"))


def test_a_registry_in_memory_is_one_process_own():
    database = create_engine("sqlite://")
    assert claim(database, "reader").holds()
    assert claim(database, "reader").holds()
    database.dispose()
