"""A network in a process of its own, that may be killed; run as ``python -m`` with its folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from everquery.spark import local_session
from everquery.spark.session import LIGHT_JAVA
from tests.servers.ports import end_with_parent
from tests.spark.networks import PLANT, Files, load

ROOT = Path(__file__).parents[2]


def main(root: str) -> None:
    """Run the network over all files that are there."""
    end_with_parent()
    folder, network = Path(root), load(PLANT)
    session = local_session("network", cores=2, attempts=4, java_options=LIGHT_JAVA)
    watched = network.watch(session, Files.found(folder / "files").frames(session))
    write = {name: folder / "told" / name for name in network.outputs}
    watched.start(folder / "checkpoint", write, availableNow=True).wait()


def started(root: Path) -> subprocess.Popen:
    """Return such a process; it leads a group of processes."""
    paths = os.pathsep.join(dict.fromkeys([str(ROOT / "src"), str(ROOT), *sys.path]))
    (root / "temporary").mkdir(exist_ok=True)
    surroundings = {
        **os.environ,
        "PYTHONPATH": paths,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(root / "temporary"),
    }
    with (root / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.network_driver", str(root)],
            stdout=log, stderr=log, env=surroundings, cwd=root, start_new_session=True,
        )  # fmt: skip


def kill(process: subprocess.Popen) -> None:
    """End the process, its Java and what else it started, at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
