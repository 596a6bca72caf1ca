"""A job in which ranges that begin at 13 make the index raise, while a file is there.

Workers import this module by name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from everquery.kinds.range.index import RangeIndex
from everquery.spark.run_shards import RunShards

_plain = RangeIndex.process


def _process(self, step):
    for rows in self.rows(step.flags):
        if len(rows.low) and np.any(rows.low[0] == 13.0):
            raise ZeroDivisionError("a box at 13")
    return _plain(self, step)


class PoisonedRunShards(RunShards):
    poison: Path

    def handleInputRows(self, key, rows, timerValues) -> Iterator:
        process = _process if self.poison.exists() else _plain
        with mock.patch.object(RangeIndex, "process", process):
            yield from list(super().handleInputRows(key, rows, timerValues))


def poison_stages(monkeypatch, file: Path) -> None:
    """Let `watch` make such jobs."""

    def poisoned(*arguments, **options):
        made = PoisonedRunShards(*arguments, **options)
        made.poison = file
        return made

    monkeypatch.setattr(sys.modules["everquery.spark.watching"], "RunShards", poisoned)
