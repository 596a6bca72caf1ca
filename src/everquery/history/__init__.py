"""The kept past of a stream, from which queries that begin in the past are filled.

A `History` is the recorder of a `Shard`: ``shard.passage.recorder = History(shard)``. An engine on
a stream with ``keep`` has one (``engine._history``, None without ``keep``); ``Engine(stream,
history="folder")`` also has it in Parquet files. Its interface:

- ``history.place``: where the next event will stand, a `Place` (batch, position). Every step of
  the shard is a batch, from 0 on, also ``advance``, ``flush``, ``expire`` and ``reset_time``.
- ``history.oldest``: the place of the oldest kept event.
- ``history.read(begin=None, end=None)``: the `Chunk`s that hold the events between two places,
  whole and the oldest first. ``chunk.events()`` has the accepted events in the order in which the
  shard took them, as columns: ``key`` (numbers, whose names are ``shard.key_names``), ``time``,
  ``seq``, ``values`` of shape (attributes, events), ``weight``. ``chunk.batches()`` and
  ``chunk.positions()`` are their places, ``chunk.steps()`` the steps one by one, and ``chunk.mark``
  what was known of keys and time before the first event.
- ``history.table(begin=None, end=None)``: the same events as an Arrow table.
- ``history.held()``: how much is held, from where to where, its bytes, and what is lost.
- ``history.renumberings``: grows when keys got other numbers. Chunks that were read before have
  the old ones.
- ``history.place_at(time)``: the place of the first event that is not before a time.

What is held may be more than `keep` asks for, by up to one chunk, and never less. Nothing here has
a lock: the engine's is enough, and chunks never change.
"""

from everquery.history.chunk import Chunk, KeptStep
from everquery.history.history import History
from everquery.history.kept_past import Held
from everquery.history.places import OLDEST, Place
from everquery.history.retention import keeps
from everquery.history.stored_chunk import Gap

__all__ = ["OLDEST", "Chunk", "Gap", "Held", "History", "KeptStep", "Place", "keeps"]
