"""Java has little memory, or dies; and what is printed where all goes well: nothing."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

JOB = """
    import os, signal, sys
    from pathlib import Path
    import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    import everquery as eq
    from everquery.errors import EverqueryError
    from everquery.spark import local_session, session_log, stop_session, wait_for, watch
    from everquery.spark.job import StreamingJob
    from everquery.spark.session import LIGHT_JAVA

    STREAM = eq.Stream("s", key="k", attributes=["x"])

    def begin(session, *, events, ranges, **trigger):
        url = "sqlite:///queries.db"
        with eq.Engine(STREAM, registry=url, create=True) as engine:
            engine.register([eq.Range(f"range {i}", {"x": (0, 2)}) for i in range(ranges)])
        Path("in").mkdir()
        keys = (np.arange(events) % 100).astype(str)
        pq.write_table(pa.table({"k": keys, "x": np.ones(events)}), "in/0.parquet")
        frame = session.readStream.schema("k string, x double").parquet("in")
        notices = watch(frame, "s", registry=url, shards=2, wide_shards=0)
        writer = notices.writeStream.option("checkpointLocation", "checkpoint")
        return writer.format("parquet").option("path", "out").trigger(**trigger)

    def told():
        return sum(pq.read_metadata(file).num_rows for file in Path("out").glob("*.parquet"))

    def java():
        return session.sparkContext._gateway.proc.pid
"""


@pytest.fixture
def ran(tmp_path):
    """Run a script in a process and a folder of its own; return what it printed, and its errors."""

    def run(script):
        (tmp_path / "temporary").mkdir()
        surroundings = {
            **os.environ,
            "TMPDIR": str(tmp_path / "temporary"),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(ROOT / "src"), *sys.path])),
        }
        whole = textwrap.dedent(JOB) + textwrap.dedent(script)
        done = subprocess.run(
            [sys.executable, "-c", whole],
            env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), done.stderr

    return run


def test_a_million_notices_in_a_small_heap(ran):
    script = """
        settings = {"spark.driver.memory": "512m"}
        session = local_session(settings=settings, java_options=LIGHT_JAVA)
        wait_for(begin(session, events=250_000, ranges=4, availableNow=True).start())
        print(told())
        stop_session(session)
    """
    assert ran(script)[0] == ["1000000"]


def test_nothing_is_printed_and_the_log_is_gone_at_the_end(ran, tmp_path):
    script = """
        session = local_session(java_options=LIGHT_JAVA)
        log = session_log(session)
        query = begin(session, events=100, ranges=1, processingTime="0 seconds").start()
        query.processAllAvailable()
        query.stop()
        print(told(), log.exists(), "Starting" in log.read_text(), "Received" in log.read_text())
        stop_session(session)
        print(log.exists())
    """
    assert ran(script) == (["100 True True False", "False"], "")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_who_waits_for_a_job_hears_that_java_was_killed(ran, tmp_path):
    script = """
        from threading import Timer
        session = local_session(java_options=LIGHT_JAVA)
        log = session_log(session)
        query = begin(session, events=100, ranges=1, processingTime="0 seconds").start()
        query.processAllAvailable()
        Timer(0.5, os.kill, (java(), signal.SIGKILL)).start()
        try:
            wait_for(query)
        except EverqueryError as error:
            print(type(error).__name__, error)
        stop_session(session)
        print([path.name for path in log.parent.iterdir()])
        session = local_session(java_options=LIGHT_JAVA)  # another one can be had
        print(session.range(3).count())
        stop_session(session)
    """
    (first, *rest), errors = ran(script)
    log = next((tmp_path / "temporary").glob("*/spark.log"))
    assert first == (
        "JavaDiedError Java, in which Spark runs, was killed by SIGKILL, as the system does where"
        f" memory is short. Its log: {log}"
    )
    assert rest == ["['spark.log']", "3"]
    assert errors == ""


def test_a_job_in_the_background_tells_that_java_ran_out_of_memory(ran, tmp_path):
    script = """
        settings = {"spark.driver.memory": "512m"}
        log = Path("java.log").absolute()
        log.write_text("java.lang.OutOfMemoryError: of a run before\\n")
        session = local_session(settings=settings, java_options=LIGHT_JAVA, log=log)
        eater = (  # a task with rows of hundreds of megabytes
            session.range(4).selectExpr("repeat(cast(id as string), 300000000) as c").groupBy("c")
        )
        try:
            with StreamingJob(
                session, begin(session, events=100, ranges=1, processingTime="0 seconds")
            ) as job:
                while job.running():
                    if job.next_batch(0.1) is not None:
                        try:
                            eater.count().collect()
                        except Exception as error:
                            print(type(error).__name__)
        except EverqueryError as error:
            print(error)
        stop_session(session)
        print(log.exists())
    """
    (_, told, kept), _ = ran(script)
    assert told.startswith("Java, in which Spark runs, has ended with exit code 52, after an Out")
    assert "OutOfMemoryError (Java heap space); give it more memory (spark.driver.memory" in told
    assert told.endswith(f"Its log: {tmp_path / 'java.log'}")
    assert kept == "True"


def test_why_java_does_not_start_is_said(ran):
    script = """
        try:
            local_session(java_options="-agentlib:nosuchagent")
        except EverqueryError as error:
            print(" ".join(str(error).split()))
            assert Path(str(error).split("Its log: ")[1]).exists()
    """
    (told,), errors = ran(script)
    assert told.startswith("Spark does not start: [JAVA_GATEWAY_EXITED]")
    assert "nosuchagent" in told
    assert errors == ""
