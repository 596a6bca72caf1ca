"""A PostgreSQL server that can be stopped and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.servers.ports import free_port, wait_until

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def programs() -> Path | None:
    """Return the folder with initdb and postgres, or None."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("postgres")
    folders += [Path(found).resolve().parent] if found else []
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Postgres:
    """A server on a free loopback port, with its data in a folder of its own.

    With a password it lets nobody in who does not know it.
    """

    def __init__(self, *, password: str = "") -> None:
        # PostgreSQL refuses to run as root.
        self._account = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        self._folder = Path(tempfile.mkdtemp(prefix="everquery-postgres-"))
        if self._account:
            shutil.chown(self._folder, "nobody", "nogroup")
        self._port = free_port()
        self._server = None
        self.url = self.url_with(password)
        secret = self._folder / "password"
        secret.write_text(password or "none")
        if self._account:
            shutil.chown(secret, "nobody", "nogroup")
        self._run(
            "initdb", "-D", self._folder / "data", "-A", "scram-sha-256" if password else "trust",
            "-U", "everquery", "--no-sync", "--pwfile", secret,
        )  # fmt: skip

    def url_with(self, password: str) -> str:
        """Return the server's URL with a password, right or wrong."""
        account = f"everquery:{password}" if password else "everquery"
        return f"postgresql://{account}@127.0.0.1:{self._port}/postgres"

    def _command(self, *arguments):
        return [programs() / arguments[0], *arguments[1:]], {
            **QUIET,
            **self._account,
            "cwd": self._folder,
        }

    def _run(self, *arguments):
        command, options = self._command(*arguments)
        subprocess.run(command, check=True, **options)

    def start(self) -> None:
        command, options = self._command(
            "postgres", "-D", self._folder / "data", "-p", str(self._port), "-h", "127.0.0.1",
            "-k", self._folder, "-c", "fsync=off",
        )  # fmt: skip
        self._server = subprocess.Popen(command, **options)
        wait_until(self._answers, "PostgreSQL starts", processes=[self._server])

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server, whoever is connected."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(timeout=30)
            self._server = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
