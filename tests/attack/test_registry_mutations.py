"""A registry whose rows are changed: an error that says so or the right answers, never a crash.

With digests as they were, every change must be found. With digests that were made anew, as by
somebody who may write to the database, rows must hold queries that could have been registered.
"""

import os
from dataclasses import dataclass

import psycopg

from everquery.errors import EverqueryError
from everquery.registry.digests import digest_of
from tests.attack import registry_rows as rows
from tests.attack.harness import attack, rounds


def with_old_digests(registries, chance):
    changed = rows.copied(chance.choice(registries), forged=False)
    rows.change(changed, chance)
    return (changed,)


def with_new_digests(registries, chance):
    changed = rows.copied(chance.choice(registries), forged=True)
    rows.change(changed, chance)
    return (changed,)


def judge(registries):
    """Return what came of opening registries: that of the one that was changed, or several."""
    words = {judge_one(registry) for registry in registries}
    return words.pop() if len(words) == 1 else "several"


def judge_one(registry):
    """Return what came of opening a registry; whatever is raised but for our errors is raised."""
    try:
        queries, notices = rows.answers(registry.url)
    except EverqueryError:
        if not registry.changed:
            raise
        return "refused"
    right = queries.equals(registry.expected[0]) and notices.equals(registry.expected[1])
    assert right or registry.forged, "other answers, and no error"
    return "right" if right else "valid"


def judge_repair(registries):
    """Repair registries; then they must be whole, and open."""
    for registry in registries:
        _judge_repair(registry)
    return "repaired"


def _judge_repair(registry):
    from everquery.engine import unreadable_streams
    from everquery.registry import Registry

    judge_one(registry)
    opened = Registry(registry.url, damaged=True)
    try:
        opened.find_damage()
        opened.repair()
        left = opened.find_damage()
    finally:
        opened.close()
    assert all(damage.what == "stream" for damage in left), left
    for stream in (rows.STREAM, rows.PLAIN):
        opened = Registry(registry.url)
        opened.create_stream(stream)  # again, if it was taken away
        opened.close()
    opened = Registry(registry.url, damaged=True)
    opened.repair()  # what of its log was damaged besides
    left = opened.find_damage()
    opened.close()
    # A row with another stream's name and a digest to match is that stream's.
    assert left == [] or (registry.forged and all(each.what == "stream" for each in left)), left
    assert registry.forged or unreadable_streams(registry.url) == []


def test_a_change_that_the_digests_do_not_know_is_found():
    outcome = attack(rows.make_registries, with_old_digests, judge, rounds(120), 1)
    outcome.check()
    assert outcome.counts["refused"] > outcome.counts["right"]


def test_a_change_with_new_digests_is_refused_or_valid():
    outcome = attack(rows.make_registries, with_new_digests, judge, rounds(120), 1_000_001)
    outcome.check()
    assert outcome.counts["refused"] > 0
    assert outcome.counts["valid"] > 0


def test_whatever_is_damaged_can_be_repaired():
    outcome = attack(rows.make_registries, with_old_digests, judge_repair, rounds(40), 2_000_001)
    outcome.check()


def test_whatever_is_forged_can_be_repaired():
    outcome = attack(rows.make_registries, with_new_digests, judge_repair, rounds(40), 3_000_001)
    outcome.check()


# -- PostgreSQL --------------------------------------------------------------------------------


def make_on_server(url):
    """Return a registry that is whole, in a database of this worker's own on a server."""
    name = f"attack_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    own = f"{url.rsplit('/', 1)[0]}/{name}"
    rows.fill(own)
    return ServerRegistry(own, rows.answers(own))


@dataclass
class ServerRegistry:
    url: str
    expected: tuple
    forged: bool = False
    changed: bool = False


def on_server(registry, chance):
    """Change a row of a copy of the tables, with its old digest or a new one."""
    forged = chance.random() < 0.5
    with psycopg.connect(registry.url) as connection:
        for table in ("everquery_changes", "everquery_bases"):
            kept = f"{table}_kept"
            connection.execute(f"CREATE TABLE IF NOT EXISTS {kept} AS SELECT * FROM {table}")
            connection.execute(f"DELETE FROM {table}")
            connection.execute(f"INSERT INTO {table} SELECT * FROM {kept}")
        name = chance.choice(["everquery_changes", "everquery_bases"])
        place = rows.TABLES[name][1]
        found = connection.execute(
            f"SELECT * FROM {name} WHERE stream = 'trades' ORDER BY {place}"
        ).fetchall()
        row = dict(zip(rows.TABLES[name], chance.choice(found), strict=True))
        new = {**row, "payload": rows.flipped(row["payload"], chance)}
        if row["operation"] == "register blocks" and chance.random() < 0.8:
            changed = rows.repacked(row["payload"], lambda plain: rows.flipped(plain, chance))
            new["payload"] = changed
        if forged:
            position = new.get("first", 75)
            at = position, new.get("number", 0), new.get("count", 0)
            new["digest"] = digest_of("trades", *at, new["operation"], new["payload"])
        changes = chance.choice([["payload", "digest"]] * 4 + [[place], []])
        where = f"WHERE stream = 'trades' AND {place} = {row[place]}"
        if not changes:
            connection.execute(f"DELETE FROM {name} {where}")
        elif changes == [place]:
            connection.execute(f"UPDATE {name} SET {place} = {place} + 1000 {where}")
        else:
            connection.execute(
                f"UPDATE {name} SET payload = %s, digest = %s {where}",
                (new["payload"], new["digest"]),
            )
    unchanged = new["payload"] == row["payload"] and len(changes) == 2
    return ServerRegistry(registry.url, registry.expected, forged, changed=not unchanged)


def test_on_a_server(postgres):
    outcome = attack(
        make_on_server, on_server, judge_one, rounds(60), 5_000_001, arguments=(postgres,)
    )
    outcome.check()
    assert outcome.counts["refused"] > outcome.counts["right"]
