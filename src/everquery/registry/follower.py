"""Follow a log while its registry may be slow, locked or away.

A follower has events to go on with: it waits a moment for an answer, not for a registry that may
come back tomorrow. Until then there is no news, and nothing is lost, because the next answer goes
on from the same position.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NoAnswerError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from everquery.errors import (
    ReaderBusyError,
    RegistryDamagedError,
    RegistryError,
    RegistryLostError,
    UnknownStreamError,
)
from everquery.registry.claims import Claim
from everquery.registry.log import Registry
from everquery.registry.readers import SEEN_SECONDS, LogReader
from everquery.registry.rows import LogRow, logged_change
from everquery.stream import Stream

ANSWER_SECONDS = 1.0
FIRST_SECONDS = 15.0  # a process that has just begun has imports and a connection to make
LATE_SECONDS = 0.02  # what an answer that is late already is waited for
START_SECONDS = 60.0
RETRY_SECONDS = 0.5
WARN_SECONDS = 5.0
REMIND_SECONDS = 60.0
BUSY_SECONDS = 15.0  # for which a run that ends, or was killed, may still hold its claim
MAX_ENTRIES = 20_000

log = logging.getLogger("everquery.registry")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """How far a reader has come.

    Attributes
    ----------
    position : int
        The version of the query set.
    reader : str
        Names the reader in the registry; empty before it has read anything.
    base : int
        The compacted base that it began with.
    """

    position: int = 0
    reader: str = ""
    base: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """The log from one place to another."""

    start: Place
    end: Place
    rows: list[LogRow]


class Follower:
    """Follows the log of one stream from place to place.

    The registry is asked in a thread of its own.

    Parameters
    ----------
    url : str
    stream : str
        Its name.
    answer_seconds : float
        How long `latest` waits for an answer.
    first_seconds : float
        How long it waits for its first one, so that a job that is started again knows of all
        queries that were registered before.
    start_seconds : float
        How long it waits where nothing can go on without an answer.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        answer_seconds: float = ANSWER_SECONDS,
        first_seconds: float = FIRST_SECONDS,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._url, self._stream = url, stream
        self._answer_seconds, self._first_seconds = answer_seconds, first_seconds
        self._start_seconds = start_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="everquery-registry")
        self._registry: Registry | None = None
        self._claim: Claim | None = None
        self._claimed = ""
        self._news: News | None = None
        self._asked: tuple[Place, Future[News | None]] | None = None
        self._noted: Future[None] | None = None
        self._committed = Place()
        self._seen = 0.0
        self._away_since: float | None = None
        self._reminded: float | None = None
        self.head: int | None = None

    def close(self) -> None:
        """Give up the registry, and what it has been asked for."""
        self._thread.submit(self._drop)
        self._thread.shutdown(wait=False)

    # -- what a stream is asked for -----------------------------------------------------------

    def latest(
        self, start: Place, *, queries: int | None = None, furthest: int | None = None
    ) -> Place:
        """Return how far to go from a place; the same place if there is no news or no answer.

        A reader that begins gets all there is, so that no event meets half of the queries, and
        it waits for it. So does one without a limit, or with an end.

        Parameters
        ----------
        start : Place
        queries : int, optional
            The changes in between may name this many queries; a single change that names more
            comes alone.
        furthest : int, optional
            A position not to go beyond.
        """
        self.commit(self._committed)
        self._be(start.reader)

        def ask() -> News | None:
            return self._look(start, queries, furthest) if start.reader else self._begin(furthest)

        begins = not start.reader and self.head is None
        if begins or queries is None or furthest is not None:
            news = self._surely(ask)
        else:
            news = self._perhaps(start, ask)
        if news is None:
            return start
        self._news = news
        return news.end

    def rows(self, start: Place, end: Place) -> list[LogRow]:
        """Return the log between two places that `latest` gave, now or before a failure."""
        self._be(end.reader)
        if self._news is not None and (self._news.start, self._news.end) == (start, end):
            return self._news.rows
        return self._surely(lambda: self._read(start, end))

    def commit(self, place: Place) -> None:
        """Note that nothing before a place will be asked for again.

        Does not wait: a note that is lost only makes compaction keep more.
        """
        now = time.monotonic()
        if not place.reader or (self._noted is not None and not self._noted.done()):
            return
        if place != self._committed or now - self._seen > SEEN_SECONDS:
            self._noted = self._thread.submit(self._note, place, now)

    def _be(self, reader: str) -> None:
        """Become a reader; raise if another process is.

        Two runs on one checkpoint are found out here, before either reads on. A claim that was
        lost with the registry is taken again when that is back; until then nothing waits.
        """
        if self._claimed == reader:
            return
        give_up = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._surely(lambda: self._hold(reader))
                return
            except ReaderBusyError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(LATE_SECONDS)

    def target(self) -> int:
        """Return the head as it is now."""
        return self._surely(lambda: self._reader().head())

    def definition(self) -> Stream:
        """Return the stream."""
        return self._surely(lambda: self._opened().stream(self._stream))

    # -- how the registry is asked ------------------------------------------------------------

    def _surely(self, ask: Callable[[], T]) -> T:
        """Return an answer; try again for a while, and raise if there is none."""
        give_up = time.monotonic() + self._start_seconds
        while True:
            try:
                return self._answered(self._thread.submit(ask).result(self._start_seconds))
            except (RegistryLostError, RegistryDamagedError, ReaderBusyError):
                raise
            except (RegistryError, NoAnswerError) as error:
                self._dropped()
                if time.monotonic() > give_up:
                    raise RegistryError(
                        f"the log of {self._stream!r} can't be read for {self._start_seconds:.0f}"
                        f" seconds now: {error or 'no answer'}"
                    ) from error
                self._warn(error)
                time.sleep(RETRY_SECONDS)

    def _perhaps(self, start: Place, ask: Callable[[], News | None]) -> News | None:
        """Return an answer if there is one soon; an answer that comes later is the next one."""
        asked, patience = self._asked, LATE_SECONDS
        if asked is None or asked[0] != start:
            asked = start, self._thread.submit(ask)
            patience = self._first_seconds if self.head is None else self._answer_seconds
        self._asked = asked
        try:
            news = self._answered(asked[1].result(patience))
        except (RegistryLostError, ReaderBusyError):
            raise
        except NoAnswerError as error:
            self._warn(error)
            return None
        except (RegistryError, UnknownStreamError) as error:
            self._warn(error)
            self._dropped()
            news = None
        self._asked = None
        return news

    def _answered(self, answer: T) -> T:
        if self._reminded is not None:
            log.warning("the registry of %r answers again", self._stream)
        self._away_since = self._reminded = None
        return answer

    def _warn(self, error: Exception) -> None:
        """Say that the registry is away: at once if it says so, and now and then."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        late = isinstance(error, NoAnswerError)
        if self._reminded is None:
            due = not late or now - self._away_since > WARN_SECONDS
        else:
            due = now - self._reminded > REMIND_SECONDS
        if due:
            self._reminded = now
            reason = f"no answer for {now - self._away_since:.0f} s" if late else error
            log.warning(
                "the queries on %r stay as they are until their registry is back: %s",
                self._stream,
                reason,
            )

    # -- in the thread ------------------------------------------------------------------------

    def _begin(self, furthest: int | None) -> News | None:
        reader = self._reader()
        self.head = reader.head()
        if not self.head:
            return None
        name = uuid.uuid4().hex
        self._hold(name)
        base, self.head = reader.begin(name)
        position = self.head if furthest is None else max(base, min(self.head, furthest))
        end = Place(position, name, base)
        return News(Place(), end, self._checked(reader.rows(0, position, base=base)))

    def _look(self, start: Place, queries: int | None, furthest: int | None) -> News | None:
        self._hold(start.reader)
        reader = self._reader()
        self.head = reader.head()
        if self.head < start.position:
            reader.rows(start.position, start.position)  # tells what is wrong
        end = self.head
        if queries is not None:
            end = reader.end_within(start.position, queries=queries, entries=MAX_ENTRIES)
        if furthest is not None:
            end = min(end, furthest)
        if end <= start.position:
            return None
        rows = self._checked(reader.rows(start.position, end))
        return News(start, replace(start, position=end), rows)

    def _checked(self, rows: list[LogRow]) -> list[LogRow]:
        """Return rows of the log if shards can read them: who sends others stops a whole job."""
        stream = self._opened().stream(self._stream)
        for row in rows:
            logged_change(row, stream)
        return rows

    def _read(self, start: Place, end: Place) -> list[LogRow]:
        base = None if start.reader else end.base
        return self._reader().rows(start.position, end.position, base=base)

    def _note(self, place: Place, now: float) -> None:
        try:
            self._reader().commit(place.reader, place.position)
        except (RegistryError, UnknownStreamError):
            return  # the next `latest` tells
        self._committed, self._seen = place, now

    def _hold(self, reader: str) -> None:
        """Claim a reader, or see that it is still claimed."""
        if self._claim is not None:
            if self._claimed == reader and self._claim.holds():
                return
            self._claim.release()
            self._claim = None
        self._claim = self._opened().claim(reader)
        if self._claim is None:
            raise ReaderBusyError(
                f"another process follows the log of {self._stream!r} for this checkpoint: a query"
                " runs on it already. Stop that one, or give this one a checkpoint of its own"
            )
        self._claimed = reader

    def _reader(self) -> LogReader:
        return self._opened().log_reader(self._stream)

    def _opened(self) -> Registry:
        if self._registry is None:
            check_file(self._url)
            self._registry = Registry(self._url, create=False)
        return self._registry

    def _dropped(self) -> None:
        self._thread.submit(self._drop)

    def _drop(self) -> None:
        """Close the registry; the next question opens it anew."""
        if self._claim is not None:
            self._claim.release()
            self._claim = None
        if self._registry is not None:
            self._registry.close()
            self._registry = None


def check_file(url: str) -> None:
    """Raise if a SQLite file is not there: opening it would make an empty one in its place."""
    name = _file_of(url)
    if name is not None and not Path(name).exists():
        raise RegistryError(f"there is no file {name}")


def _file_of(url: str) -> str | None:
    """Return the file of a SQLite URL, or None."""
    try:
        address = make_url(url)
    except ArgumentError:
        return None  # the registry explains
    name = address.database
    if address.get_backend_name() != "sqlite" or (name or ":").startswith((":", "file:")):
        return None
    return name


def absolute_url(url: str) -> str:
    """Return a URL that means the same in processes with other current folders.

    Examples
    --------
    >>> absolute_url("sqlite:////data/queries.db"), absolute_url("postgresql://user@host/database")
    ('sqlite:////data/queries.db', 'postgresql://user@host/database')
    """
    name = _file_of(url)
    if name is None:
        return url
    absolute = make_url(url).set(database=str(Path(name).absolute()))
    return absolute.render_as_string(hide_password=False)
