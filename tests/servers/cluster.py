"""A standalone Spark cluster: a master and workers of one core each, on loopback."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from everquery.spark.java import require_java
from tests.servers.ports import end, free_port, wait_until

WORKERS = 2
MEMORY = "700m"


class Cluster:
    """A master and its workers, each leading a group of processes."""

    def __init__(self, workers: int = WORKERS, memory: str = MEMORY) -> None:
        self._workers, self._memory = workers, memory
        self._folder = Path(tempfile.mkdtemp(prefix="everquery-cluster-"))
        self._home = Path(pyspark.__file__).parent
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(require_java()),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Djava.io.tmpdir={self._folder}",
            "PYSPARK_PYTHON": sys.executable,
        }
        self._port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"spark://127.0.0.1:{self._port}"

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [self._home / "bin" / "spark-class", *arguments],
                stdout=log, stderr=log, cwd=self._folder, env=self._environment,
                start_new_session=True,
            )  # fmt: skip
        return self._processes[name]

    def log(self, name: str) -> str:
        """Return what the master or a worker has written."""
        return (self._folder / f"{name}.log").read_text()

    def start(self) -> None:
        self._start(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1",
            "--port", str(self._port), "--webui-port", "0",
        )  # fmt: skip
        self._wait_for_log("master", "New state: ALIVE")
        for number in range(self._workers):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        name = f"worker{number}"
        self._start(
            name, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1",
            "--webui-port", "0", "--cores", "1", "--memory", self._memory,
            "--work-dir", str(self._folder / name), self.url,
        )  # fmt: skip
        self._wait_for_log(name, "Successfully registered with master")

    def kill_executors(self, number: int) -> list[int]:
        """End the executors of a worker at once, but not the worker; return their ids."""
        worker = self._processes[f"worker{number}"].pid
        executors = [
            child for child in _children(worker) if b"ExecutorBackend" in _command_line(child)
        ]
        for executor in executors:
            os.kill(executor, signal.SIGKILL)
        return executors

    def kill_worker(self, number: int) -> None:
        """End a worker and its executors at once, as a machine that fails does."""
        end(self._processes.pop(f"worker{number}"), seconds=0)

    def _wait_for_log(self, name: str, line: str) -> None:
        process = self._processes[name]
        wait_until(lambda: line in self.log(name), f"{name} starts", processes=[process])

    def remove(self) -> None:
        end(*self._processes.values())
        shutil.rmtree(self._folder, ignore_errors=True)


def _children(parent: int) -> list[int]:
    """Return the processes that another one has started, at first or second hand."""
    found = []
    for tasks in Path(f"/proc/{parent}/task").glob("*/children"):
        for child in map(int, tasks.read_text().split()):
            found += [child, *_children(child)]
    return found


def _command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""
