"""The disk is full for a while: the query fails, and goes on exactly when there is room again."""

import os
import resource
import subprocess

import pytest

from tests.servers.ports import wait_until
from tests.spark.job import SOURCES, JobFolder, assert_exact, files_read, process_all, start
from tests.spark.market import SCHEMA, STREAM, Owners, events

SIZE = 8 << 20
LEFT = (0, 12_000, 40_000)  # bytes: none, enough to begin a batch, enough for some of its state


class Job:
    def __init__(self, spark, root, source):
        self.spark = spark
        self.folder = JobFolder(root, source)
        self.owners = Owners(self.folder.registry)
        self.owners.register(60)
        self.written = 0
        self.start()

    def start(self):
        self.query = start(self.spark, self.folder, STREAM, SCHEMA, dead_letters=True)

    def feed(self):
        self.owners.change()
        self.folder.write(self.written, events(self.written))
        self.written += 1

    def feed_and_wait(self):
        self.feed()
        process_all(self.query, self.folder)

    def ended(self):
        """Tell whether the query has failed, or has done all it was given."""
        return not self.query.isActive or len(files_read(self.folder)) == self.written


@pytest.fixture(params=["checkpoint", pytest.param("notices", marks=pytest.mark.slow)])
def small_disk(request, tmp_path):
    """Return a small disk of its own for a part of a job."""
    disk = tmp_path / request.param
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", disk], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no disk can be mounted without rights; the slow test below needs none")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk, left):
    room = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - left)))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_disk_that_is_full_for_a_while(spark, tmp_path, small_disk, source):
    job = Job(spark, tmp_path, source)
    failed = 0
    try:
        for left in LEFT:
            job.feed_and_wait()
            fill(small_disk, left)
            job.feed()
            wait_until(job.ended, "the query fails, or gets by")
            failed += not job.query.isActive
            (small_disk / "ballast").unlink()
            if not job.query.isActive:
                job.start()
            job.feed_and_wait()
    finally:
        job.query.stop()
    assert failed
    assert_exact(job.folder, STREAM, least=500)


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of other processes are Linux's"
)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_no_file_can_grow_for_a_while(spark, tmp_path, source):
    """All files of Spark at once, wherever they are: also those of shuffles and local state."""
    job = Job(spark, tmp_path, source)
    java = spark.sparkContext._gateway.proc.pid
    before = resource.prlimit(java, resource.RLIMIT_FSIZE)
    failed = 0
    try:
        for bytes_a_file in (0, 500, 3_000):
            job.feed_and_wait()
            resource.prlimit(java, resource.RLIMIT_FSIZE, (bytes_a_file, before[1]))
            job.feed()
            wait_until(job.ended, "the query fails, or gets by")
            resource.prlimit(java, resource.RLIMIT_FSIZE, before)
            failed += not job.query.isActive
            if not job.query.isActive:
                job.start()
            job.feed_and_wait()
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, before)
        job.query.stop()
    assert failed
    assert_exact(job.folder, STREAM, least=500)
