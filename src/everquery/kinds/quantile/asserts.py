"""Asserts about what quantile queries were told, by exact ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def assert_true_quantiles(
    notices: pa.Table,
    queries: pa.Table,
    rows: Mapping[Any, npt.NDArray[np.float64]],
    told: dict[tuple[str, Any], float],
) -> None:
    """Assert that after a batch all quantile queries know a value that does, by exact ranks.

    Parameters
    ----------
    notices : pyarrow.Table
        Those of the batch.
    queries : pyarrow.Table
        All that are live, with the columns of `Engine.register_table`.
    rows : mapping from key to values
        All rows so far, in order, by key, or of None.
    told : dict from (query, key) to value
        What was told before the batch; what it tells is put in.
    """
    newest = {}
    for notice in notices.to_pylist():
        if notice["event"] == "change":
            named = notice["query_id"], notice["key"] if notice["key"] in rows else None
            newest[named] = notice
            told[named] = notice["value"]
    sorted_rows: dict[tuple[Any, int], npt.NDArray[np.float64]] = {}
    for query in queries.to_pylist():
        keys = list(rows) if query.get("by_key") else [query.get("key")]
        for key in keys:
            last = query.get("last") or 0
            if key not in rows:
                continue
            if (key, last) not in sorted_rows:
                sorted_rows[key, last] = np.sort(rows[key][-last:])
            _assert_true(query, key, sorted_rows[key, last], told, newest)


def _assert_true(
    query: dict[str, Any],
    key: object,
    rows: npt.NDArray[np.float64],
    told: dict[tuple[str, Any], float],
    newest: dict[tuple[str, Any], dict[str, Any]],
) -> None:
    n = rows.size
    if (query["id"], key) not in told:
        raise AssertionError(f"query {query['id']!r} was told nothing of key {key!r}, {n} rows")
    value = told[query["id"], key]
    first = int(np.searchsorted(rows, value)) + 1
    last = max(int(np.searchsorted(rows, value, "right")), first)
    target, spread = query["phi"] * n, query["epsilon"] * n
    quantile = math.ceil(target - 1e-9)
    nearest = min(max(target, first), last)
    if abs(nearest - target) > spread and not first <= quantile <= last:
        raise AssertionError(
            f"query {query['id']!r}, phi {query['phi']}, epsilon {query['epsilon']}, of {n} rows:"
            f" {value} has the ranks {first} to {last}, not {target - spread} to {target + spread}"
        )
    notice = newest.get((query["id"], key))
    if notice is None:
        return
    if notice["n"] != n or notice["rank_low"] > last or notice["rank_high"] < first:
        raise AssertionError(f"a notice says what is not so: {notice}; ranks {first} to {last}")
