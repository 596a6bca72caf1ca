"""``everquery warm-up``: what it compiles, where that goes, and what it says if it can't."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest
from typer.testing import CliRunner

from everquery.cli import warm_up
from everquery.cli.app import app
from everquery.core import kernel_cache
from everquery.core.kernel_folders import PACKAGE
from everquery.core.name_loops import hash_names

jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

COMMAND = "from everquery.cli.app import main; main()"

# A first process: queries of all kinds, events, and what each loop had to compile for them.
FIRST_PROCESS = """
import json
import everquery as eq, pyarrow as pa, numpy as np
from everquery.core import kernel_cache

compiled = []
kernel_cache.KernelCache.save_overload = lambda self, *_: compiled.append(self._name)
for attributes, key, time in ((["p"], "s", "t"), (["p", "v"], "s", None), (["p"], None, None)):
    stream = eq.Stream("trades", key=key, time=time, attributes=attributes)
    box = dict.fromkeys(attributes, (1.0, 3.0))
    queries = [eq.Range("r", box), eq.Threshold("t", box, total=5), eq.Border("b", box)]
    queries += [eq.Quantile("q", "p", phi=0.5, epsilon=0.05)]
    if time:
        queries += [eq.Border("d", box, dwell="5us")]
        queries += [eq.Range("l", box, ttl="100us", throttle="10us")]
    with eq.Engine(stream) as engine:
        engine.register(queries)
        for batch in range(3):
            place = np.arange(100)
            columns = {name: place * 7 % 11 / 1.5 for name in attributes}
            if key:
                columns["s"] = [f"k{i % 4}" for i in place]
            if time:
                columns["t"] = pa.array(place + 100 * batch).cast(pa.timestamp("us"))
            engine.process(pa.table(columns))
        engine.deregister("r")
        eq.Engine(stream).restore(engine.snapshot())
print(json.dumps(compiled))
"""


def run(command, package=PACKAGE, arguments=(), **environment):
    return subprocess.run(
        [sys.executable, "-c", command, *arguments],
        env={"PYTHONPATH": str(package.parent), "HOME": "/dev/null", **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@jit
def test_it_fails_in_one_line_where_nothing_can_be_written():
    done = run(COMMAND, arguments=["warm-up"], EVERQUERY_CACHE_DIR="/dev/null/kernels")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("everquery: compiled loops can't be kept (")
    assert "/dev/null" in line
    assert "EVERQUERY_CACHE_DIR" in line


def test_it_fails_if_a_loop_could_not_be_written(monkeypatch):
    monkeypatch.setattr(warm_up, "_compile", lambda: None)
    monkeypatch.setattr(kernel_cache.TRAFFIC, "unwritten", "No space left on device")
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr


@jit
def test_it_says_where_the_loops_are(monkeypatch):
    def compile_one():
        out = np.zeros(1, np.uint64)
        hash_names(np.zeros(1, np.uint8), np.zeros(2, np.int64), np.zeros(2, np.uint64), out)

    monkeypatch.setattr(warm_up, "_compile", compile_one)
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    assert "everquery-kernels-" in line
    assert all(str(folder) in line for folder in kernel_cache.TRAFFIC.used)


@jit
@pytest.mark.slow
def test_a_first_process_compiles_nothing_in_a_warm_installation_that_it_can_only_read():
    root = Path(tempfile.mkdtemp(prefix="everquery-test-"))
    folders = [root]
    try:
        ignored = shutil.ignore_patterns("__pycache__")
        package = Path(shutil.copytree(PACKAGE, root / "everquery", ignore=ignored))
        done = run(COMMAND, package, ["warm-up"])
        assert done.returncode == 0, done.stderr
        assert str(package) in done.stdout
        folders = [path for path in (package, *package.rglob("*")) if path.is_dir()]
        for path in package.rglob("*"):
            path.chmod(path.stat().st_mode & ~0o222)
        before = sorted(package.rglob("*.*"))
        first = run(FIRST_PROCESS, package, PYTHONDONTWRITEBYTECODE="1")
        assert first.returncode == 0, first.stderr
        assert json.loads(first.stdout.splitlines()[-1]) == []
        assert "Warning" not in first.stderr
        assert sorted(package.rglob("*.*")) == before
    finally:
        for path in folders:
            path.chmod(0o700)
        shutil.rmtree(root)
