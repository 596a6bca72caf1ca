"""A shard: changes and events in, notices out. No I/O, no clock, no global state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.crew import ALONE, Crew
from everquery.errors import TornEngineError, UnknownQueryError
from everquery.index.kind import NO_SLOTS, Explained
from everquery.kinds import KINDS, Kind
from everquery.queries.changes import Change
from everquery.queries.spec import Key
from everquery.shard.alert_rules import StepRecord, apply_rules
from everquery.shard.asking import ask_kind, ask_query
from everquery.shard.contents import Contents
from everquery.shard.intake import Intake
from everquery.shard.integrity import Integrity
from everquery.shard.layout import Layout, Layouts
from everquery.shard.one_event import POSITION, OneEvent, Told, told_in_order
from everquery.shard.order import Found, in_order
from everquery.shard.query_set import QuerySet
from everquery.shard.record import Notices, join_notices
from everquery.shard.stats import stats_of
from everquery.shard.step import Stepper
from everquery.shard.upkeep import Upkeep
from everquery.shard.writing import Names, write_notices
from everquery.state.accepted import Accepted, Events
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

    A batch goes through `Intake`, `Admission`, `Stepper`, the rules of alerts and the writing;
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
    ) -> None:
        self.stream = stream
        self.contents = Contents.of(stream, KINDS if kinds is None else kinds, crew)
        if key_type is not None:
            self.contents.keys.type = key_type
        self._integrity = Integrity()
        self.queries = QuerySet(self.contents, self._integrity)
        self.upkeep = Upkeep(self.contents, self.queries, self._integrity)
        self._intake = Intake(self.contents)
        self._stepper = Stepper(self.contents, self.queries)
        self._one_event = OneEvent(self.contents, self.queries, self._stepper)
        self.labelled = labelled
        self.all_columns = all_columns
        self.quotas: dict[str | None, int] = {}  # where no registry has them
        self.events = 0
        self.notices = 0
        self.accepted: Events | None = None
        self.tells_all_ends = True  # also of queries for all keys, which other shards have too
        self._keep_accepted = keep_accepted
        self._layouts = Layouts(stream, self.contents.kinds, labelled=labelled)

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
            return self._step(self._intake.take(parts, order))

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
        if not self._one_event.possible() or self._one_event.is_late(key, time):
            return None
        with self._integrity.changing():
            announced = self._stepper.announce()
            events = self._one_event.arrive(key, time, values, weight)
            told = told_in_order(self._take_one(events, key))
            self.notices += len(told)
            return self._write(announced) if announced else None, events, told

    def _take_one(self, events: Events, key: int) -> Found:
        found = self._one_event.take(events, key)
        self.events += 1
        done = self._done()
        if done.size:
            self.queries.end(done)
        return found

    def set_time_type(self, kind: pa.DataType) -> None:
        """Fix the type of the stream's times, once it is known."""
        self._intake.set_time_type(kind)

    def advance(self, newest: int | float) -> pa.Table:
        """Move the newest time seen without an event; return the notices that this causes."""
        self.queries.number_waiting()  # lives begin before time moves
        with self._integrity.changing():
            return self._step(self.contents.admission.arrivals_by(newest))

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
                return self._step(admission.no_events())
        finally:
            admission.flushing = False

    def reset_time(self, newest: int | float) -> None:
        """Set the newest time seen back; see `everquery.Engine.reset_time`."""
        if self._intake.may_reset_time(newest):
            self.queries.number_waiting()  # their lives began before
            with self._integrity.changing():
                self._intake.reset_time(newest)

    def expire(self, keys: Iterable[Key]) -> pa.Table:
        """Forget keys now; return their leaves."""
        table = self.contents.keys
        with self._integrity.changing():
            announced = self._stepper.announce()
            nothing = self.contents.admission.accept_nothing()
            numbers = np.array(sorted({table.find(key) for key in keys} - {-1}), np.int32)
            numbers = numbers[table.seen[numbers] != 0]
            return self._finish(announced, nothing, [], numbers, table.last_time[numbers])

    def _step(self, arrivals: Events) -> pa.Table:
        if len(arrivals) == 1 and self._goes_alone(arrivals):
            announced = self._stepper.announce()
            found = self._take_one(arrivals, int(arrivals.key[0]))
            answered = [in_order(arrivals, 1, POSITION, found)] if found else []
            return self._write([*announced, *answered])
        admission = self.contents.admission
        announced = self._stepper.announce()
        accepted = admission.admit(arrivals, with_before=self._stepper.watches_time())
        self.contents.begin_lives()
        self._intake.refuse_late(accepted.late)
        answered = self._stepper.answer(accepted)
        admission.remember(accepted)
        self._stepper.pass_time(accepted)
        admission.pass_time()
        self.events += accepted.grouped.position.size
        if self._keep_accepted:
            self.accepted = accepted.events.take(accepted.grouped.position >> 1)
        return self._finish(announced, accepted, answered, *admission.silent_keys())

    def _goes_alone(self, event: Events) -> bool:
        return (
            not self._keep_accepted
            and self._one_event.possible()
            and self._one_event.is_plain(event)
        )

    def _finish(
        self,
        announced: list[Notices],
        accepted: Accepted,
        answered: list[Notices],
        silent_key: Int32s,
        silent_time: Array,
    ) -> pa.Table:
        """Let silent keys expire, apply the rules of queries, and return the notices."""
        contents = self.contents
        silent = self._stepper.expire(silent_key, silent_time)
        done = self._done()
        if not contents.hygiene.active:
            self.queries.end(done)
            return self._write([*announced, *answered, *silent])
        step = StepRecord(
            announced,
            answered,
            silent,
            accepted,
            silent_key,
            silent_time,
            contents.admission.now,
            len(contents.keys),
            done,
            self.tells_all_ends,
            self._stepper.reached,
        )
        catalog = contents.catalog
        told, ended = apply_rules(
            step, contents.hygiene, catalog.kind, catalog.flags, contents.outcomes
        )
        self.queries.end(ended)
        return self._write(told)

    def _done(self) -> Int32s:
        """Return the queries that have ended by what they told."""
        done = NO_SLOTS
        for index in self.contents.indexes.values():
            slots = index.done()
            if slots.size:
                done = np.concatenate([done, slots])
        return done

    def _write(self, told: list[Notices]) -> pa.Table:
        if not any(map(len, told)):
            return self.layout().no_notices
        contents = self.contents
        notices = join_notices(told)
        self.notices += len(notices)
        layout = self.layout()
        names = Names(contents.catalog, contents.keys)
        return write_notices(
            notices, names, contents.outcomes, layout.figures, layout.schema, contents.crew
        )

    def schema(self) -> pa.Schema:
        """Return the schema of the notices."""
        return self.layout().schema

    def layout(self) -> Layout:
        """Return how notices look."""
        kinds = self.contents.kinds if self.all_columns else self.queries.kinds_seen
        return self._layouts.layout(self.time_type, self.key_type, tuple(kinds))

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
        return {**stats_of(self.contents), "events": self.events, "notices": self.notices}

    # -- questions ----------------------------------------------------------------------------

    def explain(self, query_id: str) -> tuple[str, Explained]:
        """Return the kind of a live query, and how it is evaluated."""
        self.queries.settle()
        slot = int(self.queries.slots_of(pa.array([str(query_id)], pa.string()))[0])
        kind = self.contents.kind_of(slot)
        explained = self.contents.indexes[kind].explain(slot)
        if explained is None:
            raise UnknownQueryError(f"query {query_id!r} is in no index")
        return kind, explained

    def ask(self, question: str, query_id: str, **said: Any) -> Any:  # noqa: ANN401 - as the kind answers
        """Return the answer of a live query to a question of its kind."""
        return ask_query(self.contents, self.queries, question, query_id, said)

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
