"""Two processes use a registry while a third damages it: an error or the right queries, always."""

import random
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
from sqlalchemy import text

import everquery as eq
from everquery.registry import Registry

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])

WRITER = """
import sys, time, everquery as eq
engine = eq.Engine("trades", registry=sys.argv[1], lazy=True)
print("ready", flush=True)
number = 0
while True:
    try:
        engine.register(eq.Range(f"w{number}", {}, key="nobody"))
        number += 1
    except eq.RegistryError:
        pass
    time.sleep(0.002)
"""

FOLLOWER = """
import sys, time, pyarrow as pa, everquery as eq
engine = eq.Engine("trades", registry=sys.argv[1], read_only=True)
batch = pa.table({"symbol": ["IBM"], "price": [45.0]})
print("ready", flush=True)
batches = 0
while True:
    notices = engine.process(batch)
    assert set(notices["query_id"].to_pylist()) <= {"kept"}, notices.to_pylist()
    assert notices.num_rows == 1
    batches += 1
    trouble = engine.stats()["registry"]["trouble"] is not None
    print(batches, int(trouble), engine.position, flush=True)
    time.sleep(0.002)
"""


def started(script, url):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_go_on_while_a_third_damages_their_registry_13(registry_url):
    with eq.Engine(STREAM, registry=registry_url) as engine:
        engine.register(eq.Range("kept", {}, key="IBM"))
    writer, follower = started(WRITER, registry_url), started(FOLLOWER, registry_url)
    rng = random.Random(13)
    registry = Registry(registry_url, damaged=True)
    try:
        for _ in range(6):
            wait_for_news(follower, lambda trouble, position: not trouble and position > 1)
            damage(registry, rng)
            wait_for_news(follower, lambda trouble, _: trouble)
            assert writer.poll() is None
            registry.repair()
        wait_for_news(follower, lambda trouble, _: not trouble)
        assert follower.poll() is None
    finally:
        for process in (writer, follower):
            process.kill()
            process.communicate()
        registry.close()
    fresh = eq.open(registry_url)
    assert "kept" in fresh.queries()["id"].to_pylist()
    notices = fresh.process(pa.table({"symbol": ["IBM"], "price": [45.0]}))
    assert notices["query_id"].to_pylist() == ["kept"]


def wait_for_news(follower, wanted, seconds=60):
    """Read what a follower prints until it is what is wanted."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        line = follower.stdout.readline()
        assert line, follower.stderr.read()
        _, trouble, position = map(int, line.split())
        if wanted(trouble, position):
            return
    raise AssertionError("the follower does not come to it")


def damage(registry, rng):
    """Damage the row that is to be read next, whoever reads it, behind what the follower has."""
    with registry._connections.writing() as connection:
        # First, since it makes the writer wait.
        connection.execute(text("UPDATE everquery_streams SET head = head + 1"))
        head = connection.execute(text("SELECT head - 1 FROM everquery_streams")).scalar()
        payload = rng.randbytes(40)
        statement = rng.choice(
            [
                "INSERT INTO everquery_changes VALUES ('trades', :head, 1, 'register', :p, :p)",
                "INSERT INTO everquery_changes VALUES ('trades', :head, 1, 'nonsense', :p, :p)",
            ]
        )
        connection.execute(text(statement), {"head": head, "p": payload})
