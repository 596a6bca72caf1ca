"""The way of a step through the shard: admission, indexes, rules, notices, and its record."""

from __future__ import annotations

import pyarrow as pa

from everquery.core.arrays import Array, Int32s
from everquery.shard.alert_rules import StepRecord, apply_rules
from everquery.shard.contents import Contents
from everquery.shard.intake import Intake
from everquery.shard.one_event import POSITION, OneEvent
from everquery.shard.order import Found, in_order
from everquery.shard.query_set import QuerySet
from everquery.shard.record import Notices
from everquery.shard.recorder import Moment, Recorder, accepted_events, copy_of_one
from everquery.shard.step import Stepper
from everquery.shard.teller import Teller
from everquery.state.accepted import Accepted, Events


class Passage:
    """Takes events, time and forgotten keys through the shard, one step after the other.

    Parameters
    ----------
    contents : Contents
    queries : QuerySet
    intake : Intake
    teller : Teller
    keep_accepted : bool
        Keep the accepted events of the last step in `accepted`.

    Attributes
    ----------
    events : int
        How many events were accepted.
    steps : int
        How often events, time or keys that are forgotten were taken in.
    accepted : Events or None
    recorder : Recorder or None
        Who keeps the past.
    tells_all_ends : bool
        Also those of queries for all keys, which other shards have too.
    """

    def __init__(
        self,
        contents: Contents,
        queries: QuerySet,
        intake: Intake,
        teller: Teller,
        *,
        keep_accepted: bool,
    ) -> None:
        self._contents = contents
        self._queries = queries
        self._intake = intake
        self._teller = teller
        self.stepper = Stepper(contents, queries)
        self.one_event = OneEvent(contents, self.stepper)
        self.events = 0
        self.steps = 0
        self.recorder: Recorder | None = None
        self.accepted: Events | None = None
        self.tells_all_ends = True
        self._keep_accepted = keep_accepted

    def step(self, arrivals: Events) -> pa.Table:
        """Take in events; return the notices that they and the changes before them cause."""
        self.stepper.begin()
        if len(arrivals) == 1 and self._goes_alone(arrivals):
            announced = self.stepper.announce()
            found = self.take_one(arrivals)
            answered = [in_order(arrivals, 1, POSITION, found)] if found else []
            told = self._teller.write([*announced, *answered])
            self.stepped_one(arrivals)
            return told
        announced = self.stepper.announce()
        watching = self.stepper.watches_time()
        accepted = self._contents.admission.admit(arrivals, with_before=watching)
        return self._answer(announced, accepted)

    def replay(self, events: Events, moment: Moment) -> pa.Table:
        """Take in the events of a step that another shard accepted before; return the notices."""
        admission = self._contents.admission
        admission.newest, admission.flushing = moment.newest, moment.flushing
        self.stepper.begin()
        announced = self.stepper.announce()
        admission.began = moment.began
        accepted = admission.accept(events, with_before=self.stepper.watches_time())
        told = self._answer(announced, accepted)
        admission.flushing = False
        return told

    def expire(self, numbers: Int32s) -> pa.Table:
        """Forget keys; return their leaves."""
        keys = self._contents.keys
        self.stepper.begin()
        announced = self.stepper.announce()
        nothing = self._contents.admission.accept_nothing()
        numbers = numbers[keys.seen[numbers] != 0]
        told = self._finish(announced, nothing, [], numbers, keys.last_time[numbers])
        self.steps += 1
        if self.recorder is not None:
            self.recorder.expire(numbers, self._moment())
        return told

    def reset_time(self, newest: int | float) -> None:
        """Set the newest time seen back."""
        self._intake.reset_time(newest)
        self.steps += 1
        if self.recorder is not None:
            self.recorder.reset(newest, self._moment())

    def take_one(self, event: Events) -> Found:
        """Let the indexes see one event that goes alone; return what they find."""
        found = self.one_event.take(event, int(event.key[0]))
        self.events += 1
        done = self.stepper.done()
        if done.size:
            self._queries.end(done)
        return found

    def stepped_one(self, event: Events) -> None:
        """Note that a step with one event is over."""
        self.steps += 1
        if self.recorder is not None:
            self.recorder.take(copy_of_one(event), self._moment())

    def _goes_alone(self, event: Events) -> bool:
        return (
            not self._keep_accepted and self.one_event.possible() and self.one_event.is_plain(event)
        )

    def _answer(self, announced: list[Notices], accepted: Accepted) -> pa.Table:
        """Let the indexes see accepted events, and finish the step."""
        admission = self._contents.admission
        self._contents.begin_lives()
        self._intake.refuse_late(accepted.late)
        answered = self.stepper.answer(accepted)
        admission.remember(accepted)
        self.stepper.pass_time(accepted)
        admission.pass_time()
        self.events += accepted.grouped.position.size
        if self._keep_accepted:
            self.accepted = accepted.events.take(accepted.grouped.position >> 1)
        told = self._finish(announced, accepted, answered, *admission.silent_keys())
        if self.stepper.tells_changes():
            changed = [self._teller.write([each]) for each in self.stepper.net_changes()]
            told = pa.concat_tables([told, *changed])
        self.steps += 1
        if self.recorder is not None:
            self.recorder.take(accepted_events(accepted), self._moment())
        return told

    def _finish(
        self,
        announced: list[Notices],
        accepted: Accepted,
        answered: list[Notices],
        silent_key: Int32s,
        silent_time: Array,
    ) -> pa.Table:
        """Let silent keys expire, apply the rules of queries, and return the notices."""
        contents = self._contents
        silent = self.stepper.expire(silent_key, silent_time)
        done = self.stepper.done()
        if not (contents.hygiene.active or self.stepper.reached):
            self._queries.end(done)
            return self._teller.write([*announced, *answered, *silent])
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
            self.stepper.reached,
        )
        catalog = contents.catalog
        told, ended = apply_rules(
            step, contents.hygiene, catalog.kind, catalog.flags, contents.outcomes
        )
        self._queries.end(ended)
        return self._teller.write(told)

    def _moment(self) -> Moment:
        admission = self._contents.admission
        return Moment(admission.newest, admission.began, admission.flushing)
