"""A local session has the settings that it should have, and leaves nothing behind."""

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from everquery.errors import SparkError
from everquery.spark import local_session, spark_settings
from everquery.spark.session import _sockets


def test_every_setting_is_one_of_spark(spark):
    entries = spark._jvm.org.apache.spark.internal.config.ConfigEntry
    # These are read by their names, without an entry of their own.
    by_name = {
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "spark.sql.streaming.checkpointFileManagerClass",
    }
    for key, value in spark_settings().items():
        assert spark.conf.get(key) == value
        assert key in by_name or entries.findEntry(key) is not None
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for key in ("checkpointFileManagerClass", "stateStore.providerClass"):
        loader.loadClass(spark.conf.get(f"spark.sql.streaming.{key}"))  # it is there


def test_workers_run_this_python(spark):
    def tell(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"python": [sys.executable]})

    rows = spark.range(1).mapInArrow(tell, "python string").collect()
    assert rows[0].python == sys.executable


def test_a_second_session_is_refused(spark):
    with pytest.raises(SparkError, match="runs in this process already"):
        local_session()


def test_nothing_is_left_behind():
    script = """
        import os
        from everquery.spark import local_session, stop_session
        from everquery.spark.session import LIGHT_JAVA
        session = local_session(java_options=LIGHT_JAVA)
        assert session.range(5).mapInArrow(lambda it: it, "id long").count() == 5
        stop_session(session)
        assert "JAVA_HOME" not in os.environ
        session = local_session(java_options=LIGHT_JAVA)
        print("ran", flush=True)
    """  # the last one is not stopped
    surroundings = {name: os.environ[name] for name in os.environ if name != "JAVA_HOME"}
    with tempfile.TemporaryDirectory() as folder:
        surroundings |= {"TMPDIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            env=surroundings, cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        assert (ran.returncode, ran.stdout) == (0, "ran\n"), ran.stderr
        assert list(Path(folder).iterdir()) == []


def test_no_sockets_where_their_names_were_too_long():
    short, long = Path("/tmp/everquery"), Path("/tmp") / ("long" * 20)
    assert _sockets(short) == {"spark.python.unix.domain.socket.dir": str(short)}
    assert _sockets(long) == {"spark.python.unix.domain.socket.enabled": "false"}
