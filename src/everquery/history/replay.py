"""The past once more: kept steps, one by one or joined, in a shard that has the same keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from everquery.history.chunk import EVENTS, EXPIRE, KeptStep, rows_of
from everquery.history.places import Place
from everquery.shard.recorder import Moment
from everquery.shard.shard import Shard
from everquery.state.accepted import join_events
from everquery.state.said_times import span_in_units

JOINED = 1 << 17  # events up to which steps are joined


def replay_step(shard: Shard, step: KeptStep) -> pa.Table | None:
    """Let a shard take in a step of the past; return the notices."""
    if step.did == EVENTS:
        return shard.replay(step.events, step.moment)
    if step.did == EXPIRE:
        assert step.keys is not None
        return shard.expire_numbers(step.keys)
    assert step.moment.newest is not None
    shard.reset_time(step.moment.newest)
    return None


def joined_steps(steps: Iterable[KeptStep], shard: Shard) -> Iterator[KeptStep]:
    """Yield steps, small ones joined where nobody can tell: batches are invisible.

    That is so where no event of a step is before what time had come to at the end of the step
    before it.
    """
    run: list[KeptStep] = []
    rows = 0
    for step in steps:
        if run and (rows + len(step.events) > JOINED or not _goes_on(run[-1], step, shard)):
            yield _join(run)
            run, rows = [], 0
        run.append(step)
        rows += len(step.events)
    if run:
        yield _join(run)


def _goes_on(before: KeptStep, step: KeptStep, shard: Shard) -> bool:
    if before.did != EVENTS or step.did != EVENTS:
        return False
    if before.moment.flushing or step.moment.flushing or not len(before.events):
        return False
    if shard.stream.time is None or before.moment.newest is None:
        return True
    if before.moment.began is None:
        return False  # lives begin with the first event
    kind = shard.time_type
    grace = 0 if kind is None else span_in_units(shard.stream.grace, kind, shard.stream.time)
    return not len(step.events) or bool(step.events.time[0] >= before.moment.newest - grace)


def _join(run: list[KeptStep]) -> KeptStep:
    if len(run) == 1:
        return run[0]
    return run[-1]._replace(events=join_events([step.events for step in run]))


def split_at(step: KeptStep, position: int, shard: Shard) -> tuple[KeptStep, KeptStep]:
    """Return a step as two, the second from a position on.

    At the end of the first, time has come to its last event, and not beyond the step's own.
    """
    first = rows_of(step.events, 0, position)
    moment = step.moment
    if shard.stream.time is not None and position and moment.newest is not None:
        kind = shard.time_type
        grace = 0 if kind is None else span_in_units(shard.stream.grace, kind, shard.stream.time)
        reached = min(moment.newest, first.time[-1].item() + grace)
        began = moment.began if moment.began is None else min(moment.began, reached)
        known = shard.times.newest
        newest = reached if known is None else max(reached, known)
        moment = Moment(newest, began, False)
    rest = rows_of(step.events, position, len(step.events))
    return step._replace(events=first, moment=moment), step._replace(events=rest)


def steps_before(steps: Iterable[KeptStep], end: Place, shard: Shard) -> Iterator[KeptStep]:
    """Yield the steps up to a place; one in which the place is, up to there."""
    for step in steps:
        if step.number < end.batch:
            yield step
        else:
            if step.number == end.batch and end.position:
                yield split_at(step, end.position, shard)[0]
            return
