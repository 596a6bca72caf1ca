"""What ``everquery network run`` does with batches, and where it writes what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from everquery.errors import UnwritableFileError
from everquery.network.control import Followed
from everquery.network.runtime.run import Run


class Lines:
    """Rows as JSON lines on standard output."""

    def write(self, output: str, rows: pa.Table) -> None:
        """Print rows of an output."""
        for row in rows.to_pylist():
            plain = {name: _plain(value) for name, value in row.items()}
            typer.echo(json.dumps({"output": output, **plain}, ensure_ascii=False, default=str))


def _plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


class Files:
    """Rows as Parquet files in a folder.

    An output that comes back with other columns, after it was detached, has a file of its own:
    ``tops.2.parquet``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, list[pq.ParquetWriter]] = {}

    def __enter__(self) -> Files:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableFileError(f"{self._folder} can't be made: {error}") from None
        return self

    def write(self, output: str, rows: pa.Table) -> None:
        """Add rows of an output to its file."""
        own = self._writers.setdefault(output, [])
        if not own or own[-1].schema != rows.schema:
            name = f"{output}.{len(own) + 1}.parquet" if own else f"{output}.parquet"
            own.append(pq.ParquetWriter(self._folder / name, rows.schema))
        own[-1].write_table(rows)

    def __exit__(self, *_: object) -> None:
        for own in self._writers.values():
            for writer in own:
                writer.close()


class Journey:
    """A run on its way through batches, and the control folder that it follows, if any.

    Attributes
    ----------
    counts : dict of str to int
        Rows of each output, also of those that were detached.
    """

    def __init__(self, running: Run, writer: Lines | Files) -> None:
        self._running, self._writer = running, writer
        self._batches = 0
        self.counts = dict.fromkeys(running.network.outputs, 0)
        self.followed: Followed | None = None

    def take(self, batches: Mapping[str, Any]) -> None:
        """Make the changes that have come, then send batches through the network."""
        self.look()
        self._tell(self._running.process(batches).items())
        self._batches += 1

    def finish(self) -> None:
        """End the streams."""
        self.look()
        self._tell(self._running.finish().items())

    def look(self) -> bool:
        """Make the changes that have come; False: nothing is to stop."""
        if self.followed is not None:
            self._tell(self.followed.follow(self._batches))
        return False

    def _tell(self, outputs: Iterable[tuple[str, pa.Table]]) -> None:
        for name, rows in outputs:
            self.counts[name] = self.counts.get(name, 0) + rows.num_rows
            if rows.num_rows:
                self._writer.write(name, rows)
