"""A Kafka broker of one node, in a Java process of its own."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from everquery.spark.java import require_java
from tests.servers.jars import jars
from tests.servers.ports import answers, end, free_port, wait_until

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=BROKER://127.0.0.1:{broker}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Kafka:
    """A broker on free loopback ports, with its data in a folder of its own."""

    def __init__(self) -> None:
        self._java = require_java() / "bin" / "java"
        self._jars = jars("broker")
        self._folder = Path(tempfile.mkdtemp(prefix="everquery-kafka-"))
        self._port, controller = free_port(), free_port()
        self._settings = self._folder / "server.properties"
        self._settings.write_text(
            SETTINGS.format(broker=self._port, controller=controller, folder=self._folder)
        )
        self._log = (self._folder / "log").open("wb")
        self._server = None
        self.servers = f"127.0.0.1:{self._port}"
        self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", self._settings)

    def _command(self, main, *arguments):
        return [
            self._java, "-Xmx256m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self._folder}",
            "-cp", f"{self._jars}{os.sep}*", main, *arguments,
        ]  # fmt: skip

    def _run(self, *command) -> str:
        ran = subprocess.run(self._command(*command), capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def start(self) -> None:
        self._server = subprocess.Popen(
            self._command("kafka.Kafka", self._settings),
            stdout=self._log, stderr=self._log, cwd=self._folder, start_new_session=True,
        )  # fmt: skip
        wait_until(lambda: answers(self._port), "Kafka starts", processes=[self._server])

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        self._run(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.servers,
            "--create", "--topic", name, "--partitions", str(partitions),
        )  # fmt: skip

    def stop(self) -> None:
        if self._server is not None:
            end(self._server)
            self._server = None

    def remove(self) -> None:
        self.stop()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
