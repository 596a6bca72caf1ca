"""Real databases: SQLite in a file, and a PostgreSQL server on a free loopback port."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def server_programs() -> Path | None:
    """Return the folder with initdb and postgres, or None."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("postgres")
    folders += [Path(found).resolve().parent] if found else []
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def wait_for(url: str, server: subprocess.Popen) -> None:
    """Return when the server answers."""
    for _ in range(300):
        assert server.poll() is None, "the PostgreSQL server ended"
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the PostgreSQL server does not answer")


@pytest.fixture(scope="session")
def postgres():
    """Return the URL of a fresh PostgreSQL server; stop it at the end."""
    programs = server_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server here (Debian: apt-get install postgresql)")
    # PostgreSQL refuses to run as root.
    account = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="everquery-postgres-"))
    if account:
        shutil.chown(folder, "nobody", "nogroup")
    data, port = folder / "data", free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    subprocess.run(
        [programs / "initdb", "-D", data, "-A", "trust", "-U", "everquery", "--no-sync"],
        check=True, **quiet, **account,
    )  # fmt: skip
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder,
         "-c", "fsync=off"],
        **quiet, **account,
    )  # fmt: skip
    try:
        url = f"postgresql://everquery@127.0.0.1:{port}/postgres"
        wait_for(url, server)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def registry_url(request, tmp_path):
    """Return the URL of an empty registry."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'queries.db'}"
    url = request.getfixturevalue("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        name = f"test_{abs(hash(request.node.name)) % 10**12}"
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name}")
    return url.rsplit("/", 1)[0] + f"/{name}"
