"""Answers over the past that a job keeps, read without stopping it.

A job writes what its shards accepted to Parquet files, which never change once they are there. They
are read as they are now, and the same code answers that answers in an engine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everquery.engine.several import SeveralStreams
from everquery.errors import InvalidStreamError
from everquery.history import History
from everquery.registry import Registry
from everquery.shard import Shard
from everquery.stream import Stream

if TYPE_CHECKING:
    from os import PathLike

UNFINISHED = ".part"


def invoke(
    registry: str | Registry,
    query_id: str,
    *,
    history: str | PathLike[str] | Mapping[str, str],
    stream: str | None = None,
    **said: Any,  # noqa: ANN401 - those of `Engine.invoke`
) -> pa.Table:
    """Return the answer of a select query over the past that a job keeps, while the job goes on.

    Parameters
    ----------
    registry : str or Registry
    query_id : str
    history : path, or paths by stream for a join
        Where the job keeps the past of its stream; or the folder of an engine.
    stream : str, optional
        The query's stream, if the registry has several.
    said
        ``limit``, ``after``, ``since`` and ``partial`` of `everquery.Engine.invoke`.

    Returns
    -------
    pyarrow.Table
        As of the last event that is in the files. Rows are in order of time, or of their places
        where the stream has none.
    """
    opened = Registry(registry) if isinstance(registry, str) else registry
    if isinstance(history, Mapping):
        folders = {name: Path(folder) for name, folder in history.items()}
    else:
        folders = {opened.stream(stream).name: Path(history)}
    for name, folder in folders.items():
        if not folder.is_dir():
            raise InvalidStreamError(f"the history of stream {name!r} is {folder}, no folder")
    names = list(folders)
    engine = SeveralStreams(names, registry=opened, read_only=True)
    with engine:
        for name, folder in folders.items():
            events = kept_events(opened.stream(name), folder)
            if events is not None:
                engine.process(events, stream=name)
                engine.flush(stream=name)  # the grace has let them out before
        return engine.invoke(query_id, **said)


def kept_events(stream: Stream, folder: Path) -> pa.Table | None:
    """Return all events that a folder keeps, each once, in order; None if there are none."""
    tables = []
    with tempfile.TemporaryDirectory() as beside:
        for number, each in enumerate(_shard_folders(folder)):
            # Links: whoever reads clears up what was left unfinished, and a job writes there now.
            linked = Path(beside) / str(number)
            linked.mkdir()
            for path in each.iterdir():
                if path.is_file() and path.suffix != UNFINISHED:
                    (linked / path.name).symlink_to(path.resolve())
            past = History(Shard(stream), linked)
            past.open()
            table = past.table()
            shards = pa.repeat(pa.scalar(number), table.num_rows)
            tables.append(table.append_column("everquery.shard", shards))
    tables = [table for table in tables if table.num_rows]
    if not tables:
        return None
    events = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
    order = [stream.time] if stream.time is not None else []
    keys = [(name, "ascending") for name in (*order, "batch", "position", "everquery.shard")]
    return _each_once(events.sort_by(keys), stream).select(list(stream.columns()))


def _shard_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of a job's shards, or the one that is given."""
    shards = sorted(each for each in folder.iterdir() if each.is_dir())
    yield from shards or [folder]


def _each_once(events: pa.Table, stream: Stream) -> pa.Table:
    """Leave out events that a shard of all keys keeps, and one of their key too."""
    seq = events["seq"].to_numpy()
    key = np.zeros(seq.size, np.int64)
    if stream.key is not None:
        encoded = events[stream.key].cast(pa.string()).combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        key = np.asarray(encoded.indices).astype(np.int64)
    _, first = np.unique(np.stack([key, seq]), axis=1, return_index=True)
    return events.take(pa.array(np.sort(first)))
