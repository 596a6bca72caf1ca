"""Real databases: SQLite in a file, and a PostgreSQL server on a free loopback port."""

import psycopg
import pytest

from tests.registries import new_registry
from tests.servers.postgres import Postgres, programs


def started(**options):
    if programs() is None:
        pytest.skip("no PostgreSQL server here (Debian: apt-get install postgresql)")
    server = Postgres(**options)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres():
    """Return the URL of a fresh PostgreSQL server; stop it at the end."""
    for server in started():
        yield server.url


@pytest.fixture
def own_postgres():
    """Return a PostgreSQL server that a test may stop and start."""
    yield from started()


@pytest.fixture(scope="module")
def strict_postgres():
    """Return a PostgreSQL server that wants a password, for the tests of a module to stop."""
    yield from started(password="s3cret")


@pytest.fixture(params=["sqlite", "postgresql"])
def registry_url(request, tmp_path):
    """Return the URL of an empty registry."""
    if request.param == "sqlite":
        return new_registry(f"sqlite:///{tmp_path / 'queries.db'}")
    url = request.getfixturevalue("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        name = f"test_{abs(hash(request.node.name)) % 10**12}"
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name}")
    return new_registry(url.rsplit("/", 1)[0] + f"/{name}")
