"""All that must hold of a snapshot, part by part: what a part refers to is checked before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from everquery.kinds.threshold.spec import Threshold
from everquery.shard.checks.headers import check_header, check_times
from everquery.shard.checks.invariants import Array, Column, Contents, check_none
from everquery.shard.checks.letters import check_letters
from everquery.shard.checks.names import check_ids, check_keys, check_texts
from everquery.shard.checks.parts import (
    KEYS,
    KIND_NAMES,
    check_held,
    check_queries,
    check_rows,
    read_time_type,
)
from everquery.shard.checks.quantiles import check_quantiles
from everquery.shard.checks.rules import check_rules
from everquery.stream import Stream

THRESHOLDS = {
    "threshold.total": Column("int64", ("thresholds",), least=1),
    "threshold.left": Column("int64", ("thresholds",), least=1),
}


def check_snapshot(header: dict[str, Any], arrays: Mapping[str, Array], stream: Stream) -> None:
    """Raise if a snapshot holds what an engine of this stream could not have written.

    Raises
    ------
    SnapshotError
    """
    check_header(header, stream)
    sizes = {"attributes": len(stream.attributes), "keyed stream": int(stream.key is not None)}
    contents = Contents(arrays, sizes)
    kind = read_time_type(contents, stream)
    check_times(header, kind)
    check_keys(contents, header["key_type"], keyed=stream.key is not None)
    contents.check(KEYS)
    check_ids(contents)
    check_queries(contents)
    check_texts(contents)
    check_held(contents, header, kind)
    check_letters(contents, stream, kind)
    check_rows(contents, header)
    if header.get("hygiene"):
        check_rules(contents, kind)
    _check_thresholds(contents)
    check_quantiles(contents, header)
    contents.check_all_seen()


def _check_thresholds(contents: Contents) -> None:
    """Raise if counts of thresholds can't be."""
    kinds = contents["queries.kind"]
    number = KIND_NAMES.index(Threshold.kind)
    contents.sizes["thresholds"] = int(np.count_nonzero(kinds == number))
    if not contents.sizes["thresholds"] and not contents.has("threshold.total"):
        return  # older ones know of no thresholds
    contents.check(THRESHOLDS)
    left = contents["threshold.left"]
    check_none(left > contents["threshold.total"], "threshold.left", left, "more than the total")
