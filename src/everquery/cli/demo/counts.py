"""What a demo has done so far, in numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.cli.demo.plan import Plan
from everquery.sources.market import query_numbers, repeats


def none_by_kind() -> dict[str, int]:
    """Return a count of none for each kind."""
    return dict.fromkeys(Plan().by_kind(), 0)


def none_by_event() -> dict[str, int]:
    """Return a count of none for each event that the demo's queries tell of."""
    return dict.fromkeys(("enter", "leave", "match", "fire", "change"), 0)


@dataclass(slots=True)
class Tally:
    """What has happened so far, on either runtime.

    Attributes
    ----------
    seconds : dict
        What was spent on what.
    first_result_seconds : float or None
        When the first notices came, on the run's clock.
    run_seconds : float
        Since time counts.
    batches, events, notices : int
    untimed_events, untimed_notices : int
        Those of them from before time counted.
    by_event : dict
        Notices by event, as far as they have been looked at.
    registered, dropped, ended : dict
        Live changes by kind; thresholds that don't repeat end with their fire.
    """

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    first_result_seconds: float | None = None
    run_seconds: float = 0.0
    batches: int = 0
    events: int = 0
    notices: int = 0
    untimed_events: int = 0
    untimed_notices: int = 0
    by_event: dict[str, int] = field(default_factory=none_by_event)
    registered: dict[str, int] = field(default_factory=none_by_kind)
    dropped: dict[str, int] = field(default_factory=none_by_kind)
    ended: dict[str, int] = field(default_factory=none_by_kind)

    def add_batch(self, events: int, notices: int, now: float) -> None:
        """Count a batch that is done."""
        self.batches += 1
        self.events += events
        self.notices += notices
        if self.first_result_seconds is None and notices:
            self.first_result_seconds = now


def ended_by_firing(notices: pa.Table) -> pa.Array:
    """Return the ids of the thresholds that have ended with one of these notices."""
    ids = notices["query_id"].filter(pc.equal(notices["event"], "fire")).cast(pa.string())
    return ids.filter(pa.array(~repeats(query_numbers(ids)))).combine_chunks()


def count_words(words: pa.ChunkedArray) -> dict[str, int]:
    """Return how often each word of a dictionary-encoded column occurs."""
    counts: dict[str, int] = {}
    for chunk in words.chunks:
        numbers = np.bincount(np.asarray(chunk.indices.drop_null()))
        for word, count in zip(chunk.dictionary.to_pylist(), numbers.tolist(), strict=False):
            counts[word] = counts.get(word, 0) + count
    return counts
