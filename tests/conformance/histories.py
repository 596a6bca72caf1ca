"""How a history is played on a runner, and on its brute-force twin."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import everquery as eq
from everquery.errors import InvalidBatchError, UnknownQueryError
from everquery.kinds import KINDS
from everquery.testing import BruteForce, Notice, assert_same_notices, notices_of
from everquery.testing.strategies import History, as_batch
from tests.conformance.pushed import Pushed


def ends_of(history: History, new_runner: Any, drawn: list[int]) -> list[int]:
    """Return where batches end: where they were drawn, or behind each event."""
    return list(range(len(history.events))) if new_runner is Pushed else drawn


def in_one_shard(new_runner: Any) -> bool:
    """Tell whether all queries of a runner are in one shard."""
    return new_runner in (eq.Engine, Pushed)


STEPS = ("process", "advance", "flush", "expire")


def steps(history: History, batch_ends: list[int]) -> Iterator[tuple[str, Any]]:
    """Yield changes and batches in order; batches end where asked and wherever a change happens."""
    n = len(history.events)
    begin = 0
    # A batch comes with what the clock says.
    for end in sorted({0, n, *(end for end in batch_ends if end < n), *history.changes}):
        if end > begin:
            yield "process", (history.events[begin:end], history.now(begin))
        yield from history.changes.get(end, [])
        begin = end
    yield "process", ([], history.now(n))  # what the last changes announce


def play(
    history: History,
    runner: Any,
    batch_ends: list[int],
    *,
    restart: Callable[[Any], Any] = lambda runner: runner,
) -> pa.Table:
    """Return the notices of a history; `restart` turns the runner after a batch into the next."""
    tables = []
    for method, argument in steps(history, batch_ends):
        if method in STEPS:
            if method == "process":
                rows, now = argument
                clock = {} if now is None else {"now": now}
                tables.append(runner.process(as_batch(rows, history.stream), **clock))
            else:
                tables.append(getattr(runner, method)(*([] if argument is None else [argument])))
            runner = restart(runner)
            continue
        if method == "compact":
            getattr(runner, method, lambda: None)()
            continue
        if method == "replace":
            runner.register(argument, replace=True)
            continue
        # A query may have ended by itself, and time may not have come as far as it is to be set
        # back to, which who drew the history does not know.
        with contextlib.suppress(UnknownQueryError, InvalidBatchError):
            getattr(runner, method)(argument)
    return pa.concat_tables(tables, promote_options="permissive")


def rows_by_key(notices: pa.Table) -> dict[Any, list[dict[str, Any]]]:
    """Return each key's notices as rows, in order; between keys no order is promised.

    Those of queries that look across keys are by themselves, in any order: see `assert_same`.
    """
    rows: dict[Any, list[dict[str, Any]]] = {}
    for row in notices.to_pylist():
        loose = KINDS[row["kind"]].spec.across_keys
        rows.setdefault(("loose", row["key"]) if loose else row["key"], []).append(row)
    return {
        key: sorted(found, key=repr) if isinstance(key, tuple) else found
        for key, found in rows.items()
    }


def without_changes(notices: pa.Table, history: History) -> pa.Table:
    """Leave out what is told at most once a batch, as of its end."""
    every = [argument for changes in history.changes.values() for _, argument in changes]
    found = {
        query.id
        for query in every
        if isinstance(query, eq.Query) and KINDS[query.kind].once_a_batch(query)
    }
    query_id = notices["query_id"].cast(pa.string())
    left_out = pa.array(sorted(found), pa.string())
    return notices.filter(pc.invert(pc.is_in(query_id, value_set=left_out)))


def assert_same(actual: list[Notice], expected: list[Notice], *, in_one_shard: bool) -> None:
    """Assert that two runs told the same, in the same order within each key.

    Where there are several shards, a query that looks at all keys together is in another one than
    the queries of the keys that it tells of: what it tells comes in no order with theirs.
    """
    if not in_one_shard:
        actual, expected = _loose(actual), _loose(expected)
    assert_same_notices(actual, expected)


def _loose(notices: list[Notice]) -> list[Notice]:
    kinds = [kind for kind in KINDS.values() if kind.spec.across_keys]
    across_keys = {outcome.event for kind in kinds for outcome in kind.index.outcomes}

    def is_loose(notice: Notice) -> bool:
        if notice.event == "end":
            return notice.key is None
        return notice.event in across_keys and bool(notice.further)  # others have no figures

    loose = sorted(filter(is_loose, notices), key=repr)
    kept = [notice for notice in notices if not is_loose(notice)]
    return kept + [replace(notice, key=("loose", notice.key)) for notice in loose]


def play_notices(history: History, runner: Any, batch_ends: list[int], **options) -> list[Notice]:
    """Return the notices of a history as comparable objects."""
    return notices_of(play(history, runner, batch_ends, **options), history.stream)


def play_twin(history: History, batch_ends: list[int]) -> tuple[list[Notice], BruteForce]:
    """Return what the brute-force twin says, and the twin."""
    twin = BruteForce(history.stream)
    notices = []
    for method, argument in steps(history, batch_ends):
        if method == "process":
            rows, now = argument
            notices += twin.process(rows, now=now)
        elif method in STEPS:
            notices += getattr(twin, method)(*([] if argument is None else [argument]))
        elif method == "reset_time":
            with contextlib.suppress(InvalidBatchError):
                twin.reset_time(argument)
        elif method in ("register", "replace") or (method != "compact" and twin.is_live(argument)):
            getattr(twin, method)(argument)
    return notices, twin
