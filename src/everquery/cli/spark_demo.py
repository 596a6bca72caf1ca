"""What the demo does on Spark: a market as files, a million queries, notices to Parquet.

A second process registers and drops queries in the registry meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from everquery.cli.demo_job import CHUNK, Plan, none_by_kind
from everquery.cli.demo_registrar import Task
from everquery.cli.notice_files import NoticeFiles
from everquery.cli.this_process import Clock
from everquery.engine import Engine
from everquery.kinds.threshold.spec import Threshold
from everquery.sharding.warm_up import warm_up
from everquery.sources import (
    Market,
    MarketFiles,
    market_queries,
    market_stream,
    query_numbers,
)

if TYPE_CHECKING:
    from everquery.spark.job import StreamingJob
    from everquery.spark.metrics import Batch

AHEAD = 2  # files that the market is ahead of the job, at most
LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 60.0  # for what is under way when the time is over
SCHEMA = "symbol string, ts timestamp_ntz, price double, shares long"
ROUNDS = 10


@dataclass(slots=True)
class Tally:
    """What has happened so far.

    Attributes
    ----------
    seconds : dict
        What each step of the preparation took.
    first_result_seconds : float or None
        When the first notices came, on the job's clock.
    run_seconds : float
        Since the first batch was done, which builds the indexes.
    batches : list
        All of them.
    events, notices, refused, rebuilt : int
        In all batches.
    timed_events, timed_notices : int
        In those behind the first.
    lags : list of float
        Seconds from the writing of a file to the end of the batch that read it, a batch.
    registered, dropped : dict
        By the second process, by kind.
    effect_seconds : list of float
        How long changes took to have effect.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    first_result_seconds: float | None = None
    run_seconds: float = 0.0
    batches: list[Batch] = field(default_factory=list)
    events: int = 0
    notices: int = 0
    refused: int = 0
    rebuilt: int = 0
    timed_events: int = 0
    timed_notices: int = 0
    lags: list[float] = field(default_factory=list)
    registered: dict[str, int] = field(default_factory=none_by_kind)
    dropped: dict[str, int] = field(default_factory=none_by_kind)
    effect_seconds: list[float] = field(default_factory=list)


class SparkDemo:
    """The demo: the loops `prepare` and `run`, which may be left at any step, then `close`.

    Parameters
    ----------
    plan : Plan
        `changes` are those of the whole run.
    folder : Path
        Gets the registry, the market's files, notices, the checkpoint and Spark's log.
    cores : int
    clock : function
        Returns seconds.
    """

    def __init__(self, plan: Plan, folder: Path, *, cores: int, clock: Clock) -> None:
        self.plan = plan
        self.clock = clock
        self.folder = folder
        self.cores = cores
        self.tally = Tally()
        self.log = folder / "spark.log"
        self.notices = folder / "notices"
        self.told = NoticeFiles(self.notices)
        self.url = f"sqlite:///{folder / 'queries.db'}"
        self._events = folder / "market"
        self._events.mkdir(parents=True)
        market = Market(symbols=plan.symbols, seed=plan.seed)
        self._symbols = market.symbols
        self.market = MarketFiles(
            self._events,
            market,
            events=plan.batch_size,
            fluctuations=plan.fluctuations,
            most=plan.events,
        )
        self._starter = ThreadPoolExecutor(1)
        self._session: Future[Any] | None = None
        self._job: StreamingJob | None = None
        self._feeder: _Feeder | None = None
        self._registrar: _Registrar | None = None
        self._mark = clock()

    # -- before the first batch -----------------------------------------------------------------

    def prepare(self) -> Iterator[tuple[str, int]]:
        """Get everything ready; yield what is done next, and how many queries there are so far."""
        from everquery.spark.session import LIGHT_JAVA, local_session

        # In a thread: Java starts while this process compiles, and Ctrl-C stays ours.
        self._session = self._starter.submit(
            local_session,
            "everquery demo",
            cores=self.cores,
            log=self.log,
            java_options=LIGHT_JAVA,
        )
        yield "compile", 0
        warm_up(market_stream(), pa.timestamp("us"))
        self._lap("compile")
        for done in self._register():
            yield "register", done
        self._lap("register")
        yield "start", self.plan.queries
        spark = self._session.result()
        self._lap("start")
        yield "index", self.plan.queries
        self._feeder = _Feeder(self)
        self._feeder.start()
        self._job = self._start(spark)
        self._registrar = _Registrar(self)

    def _lap(self, name: str) -> None:
        now = self.clock()
        self.tally.seconds[name] = now - self._mark
        self._mark = now

    def _register(self) -> Iterator[int]:
        done = 0
        with Engine(market_stream(), registry=self.url) as engine:
            for kind, count in self.plan.by_kind().items():
                for first in range(0, count, CHUNK):
                    size = min(CHUNK, count - first)
                    table = market_queries(
                        size,
                        kind,
                        symbols=self._symbols,
                        width=self.plan.width,
                        seed=self.plan.seed,
                        first=first,
                    )
                    engine.register_table(table, kind=kind)
                    done += size
                    yield done

    def _start(self, spark: Any) -> StreamingJob:  # noqa: ANN401 - a session of pyspark
        from everquery.spark import watch
        from everquery.spark.job import StreamingJob

        trades = spark.readStream.schema(SCHEMA).parquet(str(self._events))
        # All queries have keys: no shard needs to see the events of all of them.
        notices = watch(trades, "trades", registry=self.url, shards=self.cores, wide_shards=0)
        writer = notices.writeStream.queryName("everquery demo").format("parquet")
        writer = writer.option("path", str(self.notices))
        return StreamingJob(
            spark, writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        )

    # -- the run ----------------------------------------------------------------------------------

    def run(self) -> Iterator[Batch | None]:
        """Yield each batch as it is done, and None now and then, until the plan's limit.

        Time counts from the end of the first batch, which has built the indexes.
        """
        assert self._job is not None
        assert self._feeder is not None
        assert self._registrar is not None
        began: float | None = None
        over: float | None = None
        while self._job.running():
            batch = self._job.next_batch(LOOK_SECONDS)
            now = self.clock()
            if batch is not None:
                self._count(batch, now, first=began is None)
                if began is None:
                    began = now
                    self._lap("first batch")
                    self._registrar.begin()
            self._hear()
            if began is not None:
                self.tally.run_seconds = now - began
            yield batch
            if over is None and self._is_over():
                over = now
                self._feeder.stop()
            if over is not None and (self._is_drained() or now - over > PATIENCE_SECONDS):
                break

    def _is_over(self) -> bool:
        plan, tally = self.plan, self.tally
        assert self._registrar is not None
        if plan.events is not None and tally.events >= plan.events:
            return True
        if plan.seconds is None or not tally.batches or tally.run_seconds < plan.seconds:
            return False
        # The second process shares the cores; it may need longer.
        return self._registrar.done or tally.run_seconds > plan.seconds + PATIENCE_SECONDS

    def _is_drained(self) -> bool:
        assert self._registrar is not None
        caught_up = self.tally.events + self.tally.refused >= self.market.written
        return caught_up and not self._registrar.waiting

    def _count(self, batch: Batch, now: float, *, first: bool) -> None:
        assert self._feeder is not None
        tally = self.tally
        tally.batches.append(batch)
        tally.events += batch.events
        tally.notices += batch.notices
        tally.refused += batch.refused
        tally.rebuilt += batch.rebuilt
        if not first:
            tally.timed_events += batch.events
            tally.timed_notices += batch.notices
        if tally.first_result_seconds is None and batch.notices:
            tally.first_result_seconds = now
        oldest = self._feeder.taken(tally.events + tally.refused)
        if oldest is not None and not first:
            tally.lags.append(now - oldest)
        if self._registrar is not None:
            tally.effect_seconds += self._registrar.took_effect(batch.position, now)

    def _hear(self) -> None:
        """Take over what the second process has told."""
        assert self._registrar is not None
        told = self._registrar.told
        if told is not None:
            self.tally.registered = told["registered"]
            self.tally.dropped = told["dropped"]

    @property
    def waiting(self) -> int:
        """How many events have been written and not been processed."""
        return max(0, self.market.written - self.tally.events - self.tally.refused)

    def ended(self) -> dict[str, int]:
        """Return how many queries have ended by firing, as the files tell, and were not dropped.

        The second process does not hear of fires: it may drop a query that has ended.
        """
        dropped = self.tally.dropped[Threshold.kind]
        ids = pa.array(self.told.ended, pa.string())
        return none_by_kind() | {Threshold.kind: int((query_numbers(ids) >= dropped).sum())}

    def latest(self) -> pa.Table | None:
        """Return the notices of the newest file, if there is one that can be read."""
        try:
            newest = max(self.notices.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
            return pq.read_table(newest)
        except (ValueError, OSError, pa.ArrowException):
            return None  # none yet, or one that is being written

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the market, the second process, the job and Spark, in this order."""
        from everquery.spark import stop_session

        if self._feeder is not None:
            self._feeder.stop()
        if self._registrar is not None:
            self._registrar.stop()
        try:
            if self._job is not None:
                with self._job:
                    self._job.stop(seconds=PATIENCE_SECONDS)
        finally:
            self._job = None
            if self._session is not None and self._session.exception() is None:
                stop_session(self._session.result())
            self._session = None
            self._starter.shutdown()


class _Feeder(Thread):
    """Writes the market's files, never many ahead of the job."""

    def __init__(self, demo: SparkDemo) -> None:
        super().__init__(name="everquery-market", daemon=True)
        self._demo = demo
        self._over = Event()
        self._written: deque[tuple[int, float]] = deque()  # events so far, and when

    def run(self) -> None:
        demo = self._demo
        while not self._over.is_set() and not demo.market.done:
            if demo.waiting >= AHEAD * demo.plan.batch_size:
                self._over.wait(LOOK_SECONDS / 10)
                continue
            demo.market.write()
            self._written.append((demo.market.written, demo.clock()))

    def taken(self, events: int) -> float | None:
        """Note how many events have been processed; return when the oldest new one was written."""
        oldest = None
        while self._written and self._written[0][0] <= events:
            _, when = self._written.popleft()
            oldest = when if oldest is None else oldest
        return oldest

    def stop(self) -> None:
        """Write no further file."""
        self._over.set()
        self.join()


class _Registrar:
    """The second process, and what it tells."""

    def __init__(self, demo: SparkDemo) -> None:
        self._clock = demo.clock
        self.told: dict[str, Any] | None = None
        self._open: deque[tuple[int, float]] = deque()  # no effect yet: position, and when
        self.done = not demo.plan.changes
        self._process: subprocess.Popen[str] | None = None
        if self.done:
            return
        plan = demo.plan
        task = Task(
            url=demo.url,
            queries=plan.queries,
            symbols=plan.symbols,
            changes=plan.changes,
            width=plan.width,
            seed=plan.seed,
            rounds=ROUNDS,
            every=(plan.seconds or ROUNDS) / (2 * ROUNDS),
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "everquery.cli.demo_registrar", task.as_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=demo.log.open("ab"),
            text=True,
        )
        Thread(target=self._listen, name="everquery-registrar", daemon=True).start()

    def begin(self) -> None:
        """Let it change queries from now on."""
        if self._process is not None:
            assert self._process.stdin is not None
            print("go", file=self._process.stdin, flush=True)

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if self.told is not None:  # the first line only says where it begins
                self._open.append((told["position"], self._clock()))
            self.told = told
        self.done = True

    @property
    def waiting(self) -> bool:
        """Whether changes have been made that have no effect yet."""
        return bool(self._open)

    def took_effect(self, position: int, now: float) -> list[float]:
        """Note the version of the query set of a batch; return how long changes took to get in."""
        seconds = []
        while self._open and self._open[0][0] <= position:
            seconds.append(now - self._open.popleft()[1])
        return seconds

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(LOOK_SECONDS * 50)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
