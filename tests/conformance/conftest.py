"""The runtimes under test; every test of this folder runs on each of them."""

import os
from functools import partial
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, settings

import everquery as eq
from everquery.index import access_paths
from everquery.kinds import KINDS, register
from everquery.kinds.threshold import segment as threshold_segment
from everquery.queries.known import KNOWN
from everquery.sharding import durable, references
from tests.conformance.pushed import Pushed
from tests.conformance.sharded import ShardedRunner
from tests.conformance.toy.kind import KIND as TOY

# A batch takes Spark a fraction of a second and a start seconds, so there are few examples, with
# queries of all kinds together; the rest is slow. A failure is told as it was found.
EXAMPLES = {"few": 2, "many": int(os.environ.get("EVERQUERY_SPARK_EXAMPLES", "20"))}
FAILURES = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
SEEDS = 1


@pytest.hookimpl(tryfirst=True)  # in front of the hook that reads the marks
def pytest_collection_modifyitems(items):
    for item in items:
        chosen = getattr(item, "callspec", None) and item.callspec.params
        few = bool(chosen) and len(chosen.get("kinds", KINDS)) < len(KINDS)
        if few and str(chosen.get("new_runner")).startswith("sharded"):
            item.add_marker(pytest.mark.slow)  # what differs from one process is the same for all
        refers = bool(chosen) and chosen.get("new_runner") == "sharded, by reference"
        if refers and item.path.name not in ("test_kinds.py", "test_live_changes.py"):
            item.add_marker(pytest.mark.slow)  # only how state is written differs
        if few and chosen.get("new_runner") == "pushed" and "brute_force" not in item.name:
            item.add_marker(pytest.mark.slow)
        if chosen and chosen.get("new_runner") == "pushed" and item.path.name == "test_duckdb.py":
            item.add_marker(pytest.mark.slow)  # a million calls
        if chosen and str(chosen.get("new_runner")).startswith("spark"):
            item.add_marker(pytest.mark.spark)
            if chosen["new_runner"] != "spark":
                item.add_marker(pytest.mark.slow)  # only how events come in differs
            rules = item.path.name in ("test_hygiene.py", "test_worlds.py")
            many = rules and item.originalname != "test_equals_brute_force"
            if few or many or chosen.get("seed", 0) >= SEEDS or "sql" in chosen:
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Draw few examples where they run on Spark."""
    if not (item.get_closest_marker("spark") and hasattr(item.obj, "hypothesis")):
        return (yield)
    name = "_hypothesis_internal_use_settings"
    before = getattr(item.obj, name)
    examples = EXAMPLES["many" if item.get_closest_marker("slow") else "few"]
    setattr(item.obj, name, settings(before, max_examples=examples, phases=FAILURES))
    try:
        return (yield)
    finally:
        setattr(item.obj, name, before)


@pytest.fixture(scope="package", autouse=True)
def toy():
    """Register a kind that is defined in these tests; other tests do not know it."""
    register(TOY)
    yield
    del KINDS[TOY.name], KNOWN[TOY.name]


@pytest.fixture(
    params=[
        "embedded",
        "pushed",
        "sharded",
        "sharded, by reference",
        "spark",
        "spark, one reads",
        "spark, two read",
    ],
    scope="session",
)
def new_runner(request):
    """Return what makes a fresh runner of a stream."""
    if request.param == "embedded":
        yield eq.Engine
    elif request.param == "pushed":
        yield Pushed
    elif request.param == "sharded":
        yield ShardedRunner
    elif request.param == "sharded, by reference":
        yield partial(ShardedRunner, by_reference=True)
    else:
        spark = request.getfixturevalue("spark")
        from tests.spark.job import SOURCES
        from tests.spark.runner import SparkRunner

        source = SOURCES[request.param.partition(", ")[2] or "frame"]

        # Short, and gone at the end: every example has a folder with a registry and a checkpoint. A
        # task of a query that was stopped may still write to the last one.
        with TemporaryDirectory(prefix="everquery-runner-", ignore_cleanup_errors=True) as root:
            yield partial(SparkRunner, spark=spark, root=root, source=source)
            SparkRunner.stop()


@pytest.fixture(scope="package", autouse=True)
def small_is_large(tmp_path_factory):
    """Let a few queries be enough for what else takes many: files of the host, tracking."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("host")))
        patch.setattr(durable, "SHARED", 3)
        patch.setattr(references, "MOST_BATCHES", 4)
        patch.setattr(access_paths, "FEWEST_INDEXED", 1)
        for name in ("BUILD_NS", "EVENT_NS", "SIGNAL_NS"):
            patch.setattr(threshold_segment, name, 1.0)
        yield
