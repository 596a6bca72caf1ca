"""Functions that are called with the notices of some queries, once a batch is done."""

from __future__ import annotations

import inspect
import json
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Bools, Int32s, Int64s
from everquery.engine.notice import Notice, notices_of
from everquery.errors import InvalidQueryError
from everquery.shard import Shard

log = logging.getLogger("everquery.engine")

Selector = str | Mapping[str, str]
"""A query's id, or labels, all of which a query must have."""

SOME = 1_000  # notices that become objects at a time


class Callback:
    """A function that is called; made by `Engine.on`.

    Attributes
    ----------
    callbacks : Callbacks
        All those of the engine.
    query_id : str or None
        The query, or the composite, that it is for; None where labels say it.
    labels : dict from str to str
        The labels that its queries have.
    function : callable
    active : bool
        Whether it is still called.
    failed : int
        How many of its calls raised.
    """

    def __init__(
        self,
        callbacks: Callbacks,
        query_id: str | None,
        labels: dict[str, str],
        function: Callable[[Notice], object],
    ) -> None:
        self.callbacks = callbacks
        self.query_id = query_id
        self.labels = labels
        self.function = function
        self.failed = 0
        self.active = True

    def off(self) -> None:
        """Call it no more, also not with notices that wait."""
        self.callbacks.remove(self)


class Callbacks:
    """The functions that an engine calls, and the notices that they are yet to be called with.

    Attributes
    ----------
    failed : int
        How many calls raised.
    last_failure : str or None
        What the last of them raised.
    """

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()
        self._changing = Lock()
        self._waiting: deque[Iterator[tuple[Callback, Notice]]] = deque()
        self._calling = Lock()
        self.failed = 0
        self.last_failure: str | None = None

    def __len__(self) -> int:
        """Return how many functions are called."""
        return len(self._callbacks)

    def add(self, selector: Selector, function: Callable[[Notice], object]) -> Callback:
        """Call a function from the next notice on."""
        query_id, labels = _read(selector)
        if not callable(function):
            raise InvalidQueryError(f"{function!r} is no function that can be called with a notice")
        if inspect.iscoroutinefunction(function):
            raise InvalidQueryError(
                f"{function!r} is a coroutine function, which nobody would await; give a plain one,"
                " which may hand the notice to the loop with loop.call_soon_threadsafe"
            )
        callback = Callback(self, query_id, labels, function)
        with self._changing:
            self._callbacks = (*self._callbacks, callback)
        return callback

    def remove(self, callback: Callback) -> None:
        """Call a function no more."""
        with self._changing:
            callback.active = False
            self._callbacks = tuple(each for each in self._callbacks if each is not callback)

    def take(self, notices: pa.Table, shard: Shard) -> None:
        """Take the notices that somebody listens to; to be called while the shard stays as it is.

        Of the others no object is made: who listens is found by slot.
        """
        if not self._callbacks or not notices.num_rows:
            return
        ids = notices["query_id"].chunk(0)
        slots: Int32s = np.asarray(ids.indices)
        there = np.zeros(len(ids.dictionary), np.bool_)
        there[slots] = True
        told = np.flatnonzero(there[: len(shard.contents.catalog)])
        listening = _Listening(told, ids.dictionary.take(pa.array(told)), shard)
        wanted = np.zeros(len(ids.dictionary), np.bool_)
        pairs: list[tuple[Callback, Int64s]] = []
        for callback in self._callbacks:
            wanted[told] = listening.to(callback)
            rows = np.flatnonzero(wanted[slots])
            if rows.size:
                pairs.append((callback, rows))
        if pairs:
            self._waiting.append(_calls(notices, pairs))

    def call(self) -> None:
        """Call the functions with what waits, in order; to be called outside the engine's lock.

        If that is being done already, by another thread or by whoever called the function that
        called the engine, it is done there.
        """
        while self._waiting:
            if not self._calling.acquire(blocking=False):
                return
            try:
                while self._waiting:
                    found = next(self._waiting[0], None)
                    if found is None:
                        self._waiting.popleft()
                    elif found[0].active:
                        self._call(*found)
            finally:
                self._calling.release()

    def _call(self, callback: Callback, notice: Notice) -> None:
        try:
            callback.function(notice)
        except Exception as error:  # whatever it raises is its own affair
            self.failed += 1
            callback.failed += 1
            self.last_failure = f"{type(error).__name__}: {error}".rstrip(": ")
            if str(callback.failed).strip("0") == "1":  # 1, 10, 100, ...: a log has an end
                log.warning(
                    "a callback raised, %s time(s) so far, the last with a notice of query %r;"
                    " the notice is not lost to others",
                    f"{callback.failed:,}",
                    notice["query_id"],
                    exc_info=error,
                )


class _Listening:
    """Who listens to which of the queries that a batch tells of."""

    def __init__(self, slots: Int64s, ids: pa.Array, shard: Shard) -> None:
        self._slots = slots.astype(np.int32)
        self._ids = ids
        self._catalog = shard.contents.catalog

    def to(self, callback: Callback) -> Bools:
        """Tell which of the queries a callback is for."""
        if callback.query_id is not None:
            return self._equal(self._ids, callback.query_id) | self._equal(
                self._catalog.texts_of("part_of", self._slots), callback.query_id
            )
        if not callback.labels:
            return np.ones(self._slots.size, np.bool_)
        texts = self._catalog.texts_of("labels", self._slots)
        if texts is None:
            return np.zeros(self._slots.size, np.bool_)
        distinct = texts.dictionary_encode()
        wanted = callback.labels.items()
        matches = [wanted <= json.loads(text).items() for text in distinct.dictionary.to_pylist()]
        found: Bools = np.array([*matches, False])[
            np.asarray(distinct.indices.fill_null(len(matches)))
        ]
        return found

    def _equal(self, texts: pa.Array | None, text: str) -> Bools:
        if texts is None:
            return np.zeros(self._slots.size, np.bool_)
        return np.asarray(pc.fill_null(pc.equal(texts, text), False))


def _calls(
    notices: pa.Table, pairs: list[tuple[Callback, Int64s]]
) -> Iterator[tuple[Callback, Notice]]:
    """Yield who is to be called with what, in the order of notices, then of callbacks."""
    rows = np.concatenate([rows for _, rows in pairs])
    who = np.repeat(np.arange(len(pairs)), [rows.size for _, rows in pairs])
    order = np.argsort(rows, kind="stable")
    rows, who = rows[order], who[order]
    for first in range(0, rows.size, SOME):
        some, place = np.unique(rows[first : first + SOME], return_inverse=True)
        found = notices_of(notices.take(pa.array(some)))
        for which, at in zip(who[first : first + SOME].tolist(), place.tolist(), strict=True):
            yield pairs[which][0], found[at]


def _read(selector: Any) -> tuple[str | None, dict[str, str]]:  # noqa: ANN401 - to find out
    if isinstance(selector, str) and selector:
        return selector, {}
    if isinstance(selector, Mapping):
        labels = dict(selector)
        if all(isinstance(text, str) for pair in labels.items() for text in pair):
            return None, labels
    raise InvalidQueryError(
        f'{selector!r} names no queries; give the id of one, or labels such as {{"team": "fx"}}'
    )
