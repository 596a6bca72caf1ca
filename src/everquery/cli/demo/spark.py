"""The demo on Spark: a market as files, a million queries, notices to Parquet.

A second process registers and drops queries in the registry meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from everquery.cli.demo.counts import none_by_kind
from everquery.cli.demo.helpers import Feeder, LiveChanges
from everquery.cli.demo.plan import THRESHOLD, Plan
from everquery.cli.demo.registrar import Task
from everquery.cli.demo.run import COMPILING, Look, Run, Step
from everquery.cli.demo.stages import stages
from everquery.cli.notice_files import NoticeFiles
from everquery.cli.this_process import Clock, broken_off
from everquery.engine import Engine
from everquery.sharding.warm_up import warm_up
from everquery.sources.market import market_stream, query_numbers
from everquery.sources.market_files import MarketFiles

if TYPE_CHECKING:
    from everquery.spark.job import StreamingJob
    from everquery.spark.metrics import Batch

AHEAD = 8  # files that the market is ahead of the job, at most
KEPT = 3 * AHEAD  # files that stay, to compare with what Spark alone takes for them
LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 60.0  # for what is under way when the time is over
TYPES = pa.schema(
    [
        ("symbol", pa.string()),
        ("ts", pa.timestamp("us")),
        ("price", pa.float64()),
        ("shares", pa.int64()),
    ]
)
ROUNDS = 10  # portions of live changes


class SparkRun(Run):
    """The demo on Spark in local mode; `recent` are the notices of the newest file.

    Time counts from the end of the first batch, which has built the indexes.

    Parameters
    ----------
    plan : Plan
    folder : Path
        Gets the registry, the market's files, notices, the checkpoint and Spark's log.
    keep : bool
        Whether all files of the market stay.
    cores : int
    clock : function
        Returns seconds.

    Attributes
    ----------
    batches : list of Batch
        All of them.
    lags : list of float
        Seconds from the writing of a file to the end of the batch that read it, a batch.
    effect_seconds : list of float
        How long live changes took to have effect.
    no_op_rate : float or None
        Events a second that Spark alone takes through Python and back, once the job has ended.
    """

    engine_name = "spark"
    closing = Step(
        "stopping", "stopping: the batch that runs is finished, and Spark alone reads its files"
    )

    def __init__(self, plan: Plan, folder: Path, *, keep: bool, cores: int, clock: Clock) -> None:
        super().__init__(plan, clock=clock)
        self.folder = folder
        self.keep = keep
        self.cores = cores
        self.batches: list[Batch] = []
        self.lags: list[float] = []
        self.effect_seconds: list[float] = []
        self.log = folder / "spark.log"
        self.notices = folder / "notices"
        self.url = f"sqlite:///{folder / 'queries.db'}"
        self.no_op_rate: float | None = None
        self._laps: dict[str, float] = {}
        self._refused = self._rebuilt = 0
        self._told = NoticeFiles(self.notices)
        self._recent = pa.table({})
        self._looked = -1  # how many batches had been done
        self._events = folder / "market"
        self._events.mkdir(parents=True)
        self._files = MarketFiles(
            self._events,
            self.market,
            events=plan.batch_size,
            fluctuations=plan.fluctuations,
            most=plan.events,
        )
        self._starter = ThreadPoolExecutor(1)
        self._session: Future[Any] | None = None
        self._job: StreamingJob | None = None
        self._feeder = Feeder(self._files, is_ahead=self._is_ahead, clock=clock)
        self._changes: LiveChanges | None = None
        self._mark = clock()

    # -- before the first batch -----------------------------------------------------------------

    def prepare(self) -> Iterator[Step]:
        """Start Java, compile or load the loops, register the queries, and start the job."""
        from everquery.spark.session import local_session

        # In a thread: Java starts while this process compiles, and Ctrl-C stays ours.
        self._session = self._starter.submit(
            local_session,
            "everquery demo",
            cores=self.cores,
            partitions=1,  # one worker has all shards, and reads the files for them
            log=self.log,
        )
        yield Step("compiling", COMPILING)
        with broken_off():
            warm_up(market_stream(), pa.timestamp("us"))
        self._lap("compile")
        with Engine(market_stream(), registry=self.url, create=True) as engine:
            yield from self._register(engine, f" in {self.url}")
        self._lap("register")
        yield Step("starting", f"waiting for Spark ({self.cores} cores, local mode)")
        spark = self._session.result()
        self._lap("start")
        yield Step(
            "indexing",
            "starting the job: the first batch brings the queries to the shards and indexes them",
        )
        self._feeder.start()
        self._job = self._start(spark)
        every = (self.plan.seconds or ROUNDS) / (2 * ROUNDS)
        task = Task(self.url, self.plan, rounds=ROUNDS, every=every)
        self._changes = LiveChanges(task, log=self.log, clock=self.clock)

    def _lap(self, name: str) -> None:
        now = self.clock()
        self._laps[f"to {name}"] = now - self._mark
        self._mark = now

    def _start(self, spark: Any) -> StreamingJob:  # noqa: ANN401 - a session of pyspark
        from everquery.spark import read_files, watch
        from everquery.spark.job import StreamingJob

        trades = read_files(
            spark,
            market_stream(),
            [self._events],
            schema=TYPES,
            journal=self.folder / "market.jsonl",
        )
        # All queries have keys: no shard needs to see the events of all of them.
        written = watch(
            trades, "trades", registry=self.url, shards=1, wide_shards=0, folder=self.notices
        )
        writer = written.writeStream.queryName("everquery demo").format("noop")
        return StreamingJob(
            spark, writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        )

    # -- the run ----------------------------------------------------------------------------------

    def run(self) -> Iterator[bool]:
        """Take the job's batches until the plan's limit, and what was under way then."""
        assert self._job is not None
        assert self._changes is not None
        began: float | None = None
        over: float | None = None
        while self._job.running():
            batch = self._job.next_batch(LOOK_SECONDS)
            now = self.clock()
            if batch is not None:
                self._count(batch, now)
                if began is None:
                    began = now
                    self._lap("first batch")
                    self._changes.begin()
            if self._changes.told is not None:
                self.tally.registered = self._changes.told["registered"]
                self.tally.dropped = self._changes.told["dropped"]
            if began is not None:
                self.tally.run_seconds = now - began
            yield batch is not None
            if over is None and self._is_over(self._changes):
                over = now
                self._feeder.stop()
            drained = not self._waiting and not self._changes.waiting
            if over is not None and (drained or now - over > PATIENCE_SECONDS):
                break

    def _is_over(self, changes: LiveChanges) -> bool:
        plan, tally = self.plan, self.tally
        if plan.events is not None and tally.events >= plan.events:
            return True
        if plan.seconds is None or not tally.batches or tally.run_seconds < plan.seconds:
            return False
        # The second process shares the cores; it may need longer.
        return changes.done or tally.run_seconds > plan.seconds + PATIENCE_SECONDS

    def _count(self, batch: Batch, now: float) -> None:
        tally, first = self.tally, not self.batches
        self.batches.append(batch)
        tally.add_batch(batch.events, batch.notices, now)
        self._refused += batch.refused
        self._rebuilt += batch.rebuilt
        oldest = self._feeder.taken(tally.events + self._refused)
        if first:
            tally.untimed_events, tally.untimed_notices = tally.events, tally.notices
        elif oldest is not None:
            self.lags.append(now - oldest)
        if self._changes is not None:
            self.effect_seconds += self._changes.took_effect(batch.position, now)
        if not self.keep:
            self._files.forget(tally.events + self._refused, KEPT)

    @property
    def _waiting(self) -> int:
        """How many events have been written and not been processed."""
        return max(0, self._files.written - self.tally.events - self._refused)

    def _is_ahead(self) -> bool:
        return self._waiting >= AHEAD * self.plan.batch_size

    # -- what it tells ----------------------------------------------------------------------------

    def look(self) -> Look:
        """Return what Spark and the shards say of the last batch."""
        batch = self.batches[-1]
        return Look(
            doing="on Spark",
            events={
                "a batch": f"{batch.events:,}",
                "trigger": f"{batch.seconds * 1e3:,.0f} ms",
                "lag": f"{_last(self.lags):.2f} s",
                "batches": f"{self.tally.batches:,}",
                "refused": f"{self._refused:,}",
            },
            queries={
                "log position": f"{batch.position:,}",
                "in effect": f"{_last(self.effect_seconds):.2f} s",
            },
        )

    def recent(self) -> pa.Table:
        """Return the notices of the newest file that can be read; count those of all files."""
        if self._looked != self.tally.batches:
            self._looked = self.tally.batches
            self._told.read_new()
            self.tally.by_event = self._told.by_event
            self._recent = self._newest() or self._recent
        # The second process does not hear of fires: it may drop a query that has ended.
        dropped = self.tally.dropped[THRESHOLD]
        ids = pa.array(self._told.ended, pa.string())
        ended = int((query_numbers(ids) >= dropped).sum())
        self.tally.ended = none_by_kind() | {THRESHOLD: ended}
        return self._recent

    def _newest(self) -> pa.Table | None:
        try:
            newest = max(self.notices.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
            return pq.read_table(newest)
        except (ValueError, OSError, pa.ArrowException):
            return None  # none yet, or one that is being written

    def numbers(self) -> dict[str, Any]:
        """Return what the batches behind the first took, and what on."""
        timed = self.batches[1:]
        return {
            "plan": {"cores": self.cores},
            "refused": self._refused,
            "log_position": max((batch.position for batch in self.batches), default=0),
            "rebuilt": self._rebuilt,
            "seconds": {
                **self._laps,
                **self.tally.seconds,
                "trigger_median": _median([batch.seconds for batch in timed]),
                "trigger_longest": max((batch.seconds for batch in timed), default=0.0),
                "lag_median": _median(self.lags),
                "change_in_effect_median": _median(self.effect_seconds),
            },
            "stages": stages(timed, shards=1),
            **self._compared(timed),
        }

    def _compared(self, timed: list[Batch]) -> dict[str, float]:
        """Return what triggers took beside those of a job that does nothing."""
        rates = [batch.events / batch.seconds for batch in timed if batch.events]
        if self.no_op_rate is None or not rates:
            return {}
        return {
            "no_op_events_per_second": self.no_op_rate,
            "trigger_rate_of_no_op": median(rates) / self.no_op_rate,
        }

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the market, the second process, the job and Spark, in this order."""
        from everquery.spark import stop_session
        from everquery.spark.no_op import no_op_rate

        if self._feeder.is_alive():
            self._feeder.stop()
        if self._changes is not None:
            self._changes.stop()
        try:
            if self._job is not None:
                with self._job:
                    self._job.stop(seconds=PATIENCE_SECONDS)
                if self._session is not None and self.tally.batches > 1:
                    self.no_op_rate = no_op_rate(
                        self._session.result(), self._files.newest(KEPT), AHEAD
                    )
        finally:
            self._job = None
            if self._session is not None and self._session.exception() is None:
                stop_session(self._session.result())
            self._session = None
            self._starter.shutdown()
            self._looked = -1  # files may have come with the end


def _last(values: list[float]) -> float:
    return values[-1] if values else 0.0


def _median(values: list[float]) -> float:
    return median(values) if values else 0.0
