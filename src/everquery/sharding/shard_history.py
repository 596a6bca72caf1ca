"""The past of a job's shards: a folder a shard, and in it a file a batch.

Files are named by the steps of their shard, which its state counts. A batch that is done again
takes the same step, accepts the same events and writes the same file: so every event is kept once,
whatever was killed, and a shard that is set back to an earlier version writes over what it had
written after that.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path

from everquery.errors import HistoryError, InvalidQueryError
from everquery.history.backfill import Backfill
from everquery.history.history import History
from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.shard import Shard

log = logging.getLogger("everquery.history")

TIDY = 64  # batches after which files that are no longer kept are looked for


def folder_of(history: str, number: int) -> Path:
    """Return the folder of a shard."""
    return Path(history) / f"shard-{number:03}"


def record(shard: Shard, history: str, number: int) -> History:
    """Let a shard record its next steps; `keep` writes them."""
    shard.passage.recorder = recorder = History(shard, folder_of(history, number))
    return recorder


def keep(shard: Shard, recorder: History, history: str, number: int) -> None:
    """Write what was recorded, and forget what is older than the stream keeps, now and then."""
    shard.passage.recorder = None
    recorder.close()
    if shard.passage.steps % TIDY == 0:
        tidy = History(shard, folder_of(history, number))
        tidy.open()
        tidy.forget()
        tidy.close()
        shard.passage.recorder = None


def fill(shard: Shard, change: Change, history: str | None, number: int) -> bool:
    """Let queries that begin in the past have been there since; tell whether that was possible.

    Without a past, or where it lacks their begin, they begin now, and a warning says so.
    """
    if not isinstance(change, Register | RegisterBlocks) or change.begin is None:
        return False
    if not (change.queries if isinstance(change, Register) else change.blocks):
        return False
    past = None
    if history is not None:
        past = History(shard, folder_of(history, number))
        past.open()
        shard.passage.recorder = None
    backfill = Backfill(nullcontext(), lambda: shard, past, change, change.begin)
    try:
        backfill.finish()
    except (HistoryError, InvalidQueryError) as error:
        log.warning("queries begin at %s, which is not possible here: %s", change.begin, error)
        return False
    finally:
        if past is not None:
            past.close()
    backfill.hand_over()
    return True
