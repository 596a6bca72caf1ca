"""A job in a process of its own, that may be killed.

Run as ``python -m tests.spark.driver FOLDER SOURCE [MASTER]``.

The source is one of `job.SOURCES`. Without a master it runs locally.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from everquery.errors import EverqueryError
from everquery.spark import local_session, spark_settings, wait_for
from everquery.spark.session import LIGHT_JAVA
from tests.servers.ports import end, end_with_parent, wait_until
from tests.spark.job import SOURCES, JobFolder, committed, planned, start
from tests.spark.market import SCHEMA, STREAM

ROOT = Path(__file__).parents[2]


def session(master: str | None):
    """Return a session: on a cluster, or within this process."""
    if master is None:
        return local_session("driver", cores=2, attempts=4, java_options=LIGHT_JAVA)
    settings = {
        **spark_settings(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": LIGHT_JAVA,
        "spark.executor.extraJavaOptions": LIGHT_JAVA,
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(root: str, source: str, master: str | None = None) -> None:
    """Run the job until the process is ended."""
    end_with_parent()
    folder = JobFolder(Path(root), SOURCES[source])
    query = start(session(master), folder, STREAM, SCHEMA, dead_letters=True)
    try:
        wait_for(query)
    except EverqueryError as error:
        sys.exit(f"{type(error).__name__}: {error}")


class Driver:
    """The process of a job, as the tests see it; it leads a group of processes."""

    def __init__(self, folder: JobFolder, master: str | None = None) -> None:
        self.folder = folder
        (folder.root / "temporary").mkdir(exist_ok=True)
        surroundings = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(ROOT / "src"), str(ROOT), *sys.path])),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(folder.root / "temporary"),
        }
        self.errors = folder.root / "driver.log"
        source = next(name for name, each in SOURCES.items() if each == folder.source)
        command = [sys.executable, "-m", "tests.spark.driver", str(folder.root), source]
        with self.errors.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *filter(None, [master])],
                stdout=log, stderr=log, env=surroundings, cwd=folder.root, start_new_session=True,
            )  # fmt: skip

    def wait_until(self, done, what: str, *, seconds: float = 300) -> None:
        """Wait; fail with what the process wrote if it ends."""
        try:
            wait_until(done, what, seconds=seconds, processes=[self.process])
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.errors.read_text()[-5_000:]}") from None

    def wait_for_batch(self, number: int) -> None:
        """Wait until a batch is committed."""
        self.wait_until(lambda: committed(self.folder) >= number, f"batch {number} is done")

    def wait_for_plan(self, number: int) -> None:
        """Wait until a batch is under way, or done already."""
        self.wait_until(lambda: planned(self.folder) >= number, f"batch {number} begins")

    def kill(self) -> None:
        """End the process, its Java and what else it started, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it in good order."""
        end(self.process)


if __name__ == "__main__":
    main(*sys.argv[1:])
