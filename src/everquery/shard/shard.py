"""A shard: changes and events in, notices out. No I/O, no clock, no global state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Int32s, Int64s
from everquery.core.crew import ALONE, Crew
from everquery.errors import TornEngineError, UnknownQueryError
from everquery.index.kind import Explained
from everquery.kinds import KINDS, Kind
from everquery.kinds.answer import Asked
from everquery.queries.changes import Change
from everquery.queries.spec import Key
from everquery.shard.asking import ask_kind, ask_query, asked_by
from everquery.shard.contents import Contents
from everquery.shard.intake import Intake
from everquery.shard.integrity import Integrity
from everquery.shard.layout import Layout
from everquery.shard.one_event import Told, told_in_order
from everquery.shard.passage import Passage
from everquery.shard.query_set import QuerySet
from everquery.shard.recorder import Moment
from everquery.shard.stats import stats_of
from everquery.shard.teller import Teller
from everquery.shard.upkeep import Upkeep
from everquery.state.accepted import Events
from everquery.state.dead_letters import DeadLetters
from everquery.state.events import Arrivals
from everquery.state.partial import Partial
from everquery.stream import Stream


class Times(NamedTuple):
    """How far time has come.

    Attributes
    ----------
    newest : number or None
        The newest time seen.
    began : number or None
        The time of the first event that was let out.
    """

    newest: int | float | None
    began: int | float | None


class Shard:
    """The queries and the state of one part of the work.

    A batch goes through `Intake` and the `Passage`, and its notices through the `Teller`;
    changes go to the `QuerySet`, and `Upkeep` keeps the structures small.

    Parameters
    ----------
    stream : Stream
    kinds : mapping from name to Kind, optional
        Those that queries may be of; all that are known, if it is not said.
    key_type : Arrow type, optional
        That of keys, where it is known before the first query or event.
    labelled : bool
        Whether notices tell the owner and the labels of their queries.
    all_columns : bool
        Whether notices have the columns of all kinds, and not only of those seen so far.
    keep_accepted : bool
        Keep the accepted events of the last batch in `accepted`.
    crew : Crew
        The threads that divide the work of a step.
    answering : bool
        Whether answers are read here, so that kinds keep what these are made of.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        kinds: Mapping[str, Kind] | None = None,
        key_type: pa.DataType | None = None,
        labelled: bool = False,
        all_columns: bool = True,
        keep_accepted: bool = False,
        crew: Crew = ALONE,
        answering: bool = False,
    ) -> None:
        self.stream = stream
        self.contents = Contents.of(stream, KINDS if kinds is None else kinds, crew)
        for index in self.contents.indexes.values():
            index.answering = answering
        if key_type is not None:
            self.contents.keys.type = key_type
        self._integrity = Integrity()
        self.queries = QuerySet(self.contents, self._integrity)
        self.upkeep = Upkeep(self.contents, self.queries, self._integrity)
        self._intake = Intake(self.contents)
        self.teller = Teller(
            self.contents, self.queries, labelled=labelled, all_columns=all_columns
        )
        self.passage = Passage(
            self.contents, self.queries, self._intake, self.teller, keep_accepted=keep_accepted
        )
        self.quotas: dict[str | None, int] = {}  # where no registry has them

    # -- changes ------------------------------------------------------------------------------

    def apply(self, change: Change, *, following: bool = False) -> None:
        """Change the query set; it takes effect before the next batch.

        Parameters
        ----------
        following : bool
            The change is read from a log, which does not know yet of all queries that ended here,
            and may name some that a repair has lost.

        Raises
        ------
        DuplicateQueryError, UnknownQueryError
            If an id is live already, or is not; nothing has changed then.
        """
        self.queries.apply(change, following=following)

    def check(self, change: Change) -> None:
        """Raise what `apply` would raise, and change no query."""
        self.queries.check(change)

    @property
    def torn(self) -> bool:
        """Whether something failed while state was changing."""
        return self._integrity.torn

    def whole(self) -> Shard:
        """Return this shard; raise if something failed while its state was changing."""
        if self.torn:
            raise TornEngineError(
                "an earlier call failed while it was changing this engine, and what it knows of"
                f" {self.stream.name!r} is not whole any more; restore a snapshot, and go on with"
                " the events after it"
            )
        return self

    # -- events -------------------------------------------------------------------------------

    def process(
        self,
        batch: pa.RecordBatch | pa.Table,
        now: Callable[[pa.DataType], int | float] | None = None,
    ) -> pa.Table:
        """Take in a batch of events; return the notices that it and the changes before it cause.

        Parameters
        ----------
        now : function, optional
            Returns what the clock says, in times of a type.

        Raises
        ------
        InvalidBatchError
            If the column of keys or times is missing, or one is of a wrong type; nothing has
            changed then.
        """
        return self.process_parts([self._intake.decoded(batch, now)])

    def process_parts(self, parts: Sequence[Arrivals], order: Int64s | None = None) -> pa.Table:
        """Take in a batch that is decoded already, in parts that arrived in this order.

        Parameters
        ----------
        order : int64, optional
            The order in which the rows of all parts, one behind the other, are to be taken.
        """
        self.queries.number_waiting()  # lives begin before the events
        parts = self._intake.check(parts)
        with self._integrity.changing():
            return self.passage.step(self._intake.take(parts, order))

    def push(
        self, key: int, time: int | float, values: Sequence[float], weight: int
    ) -> tuple[pa.Table | None, Events, list[Told]] | None:
        """Take in one event; None, and nothing changes, if it can't be taken alone.

        It is as if `process` had been given a batch of it, where it is plain: see `OneEvent`.
        Returns what is announced of new queries, the event, and what is told of it.

        Parameters
        ----------
        key : int
            Its number.
        """
        passage, one_event = self.passage, self.passage.one_event
        if self.teller.untold:
            return None
        passage.stepper.begin()
        if not one_event.possible() or one_event.is_late(key, time):
            return None
        with self._integrity.changing():
            announced = passage.stepper.announce()
            event = one_event.arrive(key, time, values, weight)
            told = told_in_order(passage.take_one(event))
            self.teller.told += len(told)
            passage.stepped_one(event)
            return self.teller.write(announced) if announced else None, event, told

    def set_time_type(self, kind: pa.DataType) -> None:
        """Fix the type of the stream's times, once it is known."""
        self._intake.set_time_type(kind)

    def advance(self, newest: int | float) -> pa.Table:
        """Move the newest time seen without an event; return the notices that this causes."""
        self.queries.number_waiting()  # lives begin before time moves
        with self._integrity.changing():
            return self.passage.step(self.contents.admission.arrivals_by(newest))

    def flush(self) -> pa.Table:
        """Let out everything that the grace holds back; return the notices.

        What waits for others to vouch for its time is refused: nobody will.
        """
        admission = self.contents.admission
        admission.flushing = True
        try:
            with self._integrity.changing():
                admission.guard.give_up()
                self._intake.refuse_ahead()
                return self.passage.step(admission.no_events())
        finally:
            admission.flushing = False

    def reset_time(self, newest: int | float) -> None:
        """Set the newest time seen back; see `everquery.Engine.reset_time`."""
        if self._intake.may_reset_time(newest):
            self.queries.number_waiting()  # their lives began before
            with self._integrity.changing():
                self.passage.reset_time(newest)

    def expire(self, keys: Iterable[Key]) -> pa.Table:
        """Forget keys now; return their leaves."""
        table = self.contents.keys
        numbers = np.array(sorted({table.find(key) for key in keys} - {-1}), np.int32)
        return self.expire_numbers(numbers)

    def expire_numbers(self, numbers: Int32s) -> pa.Table:
        """Forget keys, given by their numbers, now; return their leaves."""
        with self._integrity.changing():
            return self.passage.expire(numbers)

    def replay(self, events: Events, moment: Moment) -> pa.Table:
        """Take in the events of a step that another shard accepted before; return the notices.

        Keys have their numbers here already, and events their order: neither grace nor lateness
        is looked at again. They get their `seq` anew, which is the same as it was.
        """
        self.queries.number_waiting()  # lives begin before the events
        with self._integrity.changing():
            return self.passage.replay(events, moment)

    def schema(self) -> pa.Schema:
        """Return the schema of the notices."""
        return self.layout().schema

    def layout(self) -> Layout:
        """Return how notices look."""
        return self.teller.layout()

    # -- what it knows ------------------------------------------------------------------------

    def key_number(self, key: Key) -> int:
        """Return the number of a key that events or queries have had, or -1."""
        return self.contents.keys.known_number(key)

    @property
    def key_type(self) -> pa.DataType | None:
        """The type of keys; None before a query or an event has told it."""
        return self.contents.keys.type

    @property
    def time_type(self) -> pa.DataType | None:
        """The type of times; None before the first batch."""
        return self.contents.admission.time_type

    @property
    def times(self) -> Times:
        """How far time has come."""
        return Times(self.contents.admission.newest, self.contents.admission.began)

    @property
    def arrived(self) -> int:
        """How many events have arrived so far."""
        return self.contents.admission.arrived

    @property
    def partial(self) -> Partial:
        """How many accepted events lack a value."""
        return self.contents.admission.partial

    @property
    def held_arrivals(self) -> Int64s:
        """The numbers of the events that are held back, in order of arrival."""
        held = self.contents.admission.held
        return np.empty(0, np.int64) if held is None else held.arrived

    @property
    def known_keys(self) -> int:
        """How many keys are known."""
        return len(self.contents.keys)

    @property
    def earlier_events(self) -> tuple[Int32s, Int64s]:
        """Key number and `seq` of events that notices may name besides each key's last one."""
        return self.contents.keys.sights.named()

    @property
    def key_names(self) -> pa.Array:
        """All keys, by the numbers that `accepted` has."""
        return self.contents.keys.arrow()

    @property
    def dead_letters(self) -> DeadLetters:
        """The events that were refused."""
        return self.contents.dead_letters

    def stats(self) -> dict[str, Any]:
        """Return counts of queries by kind, bytes by structure, events, notices, dead letters."""
        self.queries.settle()
        return {
            **stats_of(self.contents),
            "events": self.passage.events,
            "notices": self.teller.told,
        }

    # -- questions ----------------------------------------------------------------------------

    def explain(self, query_id: str) -> tuple[str, Explained]:
        """Return the kind of a live query, and how it is evaluated."""
        self.queries.settle()
        slot = int(self.queries.slots_of(pa.array([str(query_id)], pa.string()))[0])
        kind = self.contents.kind_of(slot)
        self.contents.indexes[kind].prepare(self.contents)
        explained = self.contents.indexes[kind].explain(slot)
        if explained is None:
            raise UnknownQueryError(f"query {query_id!r} is in no index")
        return kind, explained

    def ask(self, question: str, query_id: str, **said: Any) -> Any:  # noqa: ANN401 - as the kind answers
        """Return the answer of a live query to a question of its kind."""
        return ask_query(self.contents, self.queries, question, query_id, said)

    def asked(self, question: str) -> Asked:
        """Return what the answers to a question may use, for who asks about two streams."""
        self.queries.settle()
        return asked_by(self.contents, question)

    def ask_kind(self, question: str, **said: Any) -> Any:  # noqa: ANN401 - as above
        """Return the answer to a question about all queries of the kind that answers it."""
        self.queries.settle()
        return ask_kind(self.contents, question, said)

    # -- state that comes from elsewhere ------------------------------------------------------

    @contextmanager
    def as_of(self, times: Times) -> Iterator[None]:
        """Let queries be registered as if it were this time: their lives begin then."""
        admission = self.contents.admission
        before = self.times
        admission.newest, admission.began = times
        self.contents.begin_lives()
        yield
        admission.newest, admission.began = before

    def go_on_from_elsewhere(self) -> None:
        """Go on from state that was loaded: all announcements were made where it was saved."""
        self.queries.announced_elsewhere()
        self.contents.begin_lives()
