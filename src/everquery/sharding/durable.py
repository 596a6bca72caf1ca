"""A shard that outlives its process: live arrays in a worker, everything they follow from in cells.

A worker may keep a shard's live arrays from batch to batch only with a token, the pair of a version
and a nonce, that is also in the state. Every attempt at a batch draws a nonce of its own, and the
state keeps those of the versions that led to it. So a worker finds out whether its arrays are the
present ones (the token is the last one), of an earlier version (the journal leads on from there),
or of an attempt that failed (the token is not there: build anew).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bytes, Int32s, Int64s
from everquery.core.names import load_names
from everquery.errors import SnapshotError
from everquery.kinds import KINDS, Kind
from everquery.queries.changes import Change, Pause, RegisterBlocks
from everquery.registry.codec import decode_change, encode_change
from everquery.registry.rows import LogRow, change_of
from everquery.shard import Shard
from everquery.sharding.carried import Carried
from everquery.sharding.host_files import Token, host_folder, read, write
from everquery.sharding.journal import Cells, Contents, Journal
from everquery.sharding.quantile_state import commit_quantiles, follow_quantiles
from everquery.sharding.routing import NO_SECRET, Shards, known_part
from everquery.state.accepted import COLUMNS, Events
from everquery.state.snapshot import differences, pack, stream_header, unpack
from everquery.stream import Stream

LAYOUT = 5  # 4: where time began; 5: the secret by which keys are divided
TOKENS = 64  # versions back from which a worker can catch up
MOST_ENTRIES = 64  # of keys, before they become a new base
MOST_CHANGES = 1_000  # entries of queries, before they become a new base
SHARED = 20_000  # new queries, before all are written to a file of the host
GARBAGE = 50_000  # dropped queries in the journal, before it is written anew

LogPart = tuple[str, bytes]  # an operation, and its payload
# Parts of the journal that the registry's log does not have: how far time was when queries came,
# where their lives begin; and when queries end, where the entries of their coming are gone.
NEWEST, ENDS = "newest", "ends"

_LIVE: OrderedDict[tuple[str, int], DurableShard] = OrderedDict()
_MOST_LIVE = 16


@dataclass(frozen=True, slots=True)
class Job:
    """What is the same for all batches and all shards of a run.

    Attributes
    ----------
    stream : Stream
    shards : int
        Into which the keys are divided.
    time_type : the Arrow type of the stream's times; null without
    carried : the columns of events that are carried into notices
    key_type : the Arrow type of the stream's keys; null if they are not known yet
    wide : int
        Further shards, numbered behind the others, that see the events of all keys, for queries
        that look at all of them together. A stream without key needs none.
    secret : bytes
        By which keys are divided into shards; the registry has it, and so has the checkpoint.
    kinds : tuple of Kind
        All that are known where the job is made: they travel by reference, so that every process
        that gets the job knows them too.
    """

    stream: Stream
    shards: int
    time_type: pa.DataType
    carried: pa.Schema = field(default_factory=lambda: pa.schema([]))
    key_type: pa.DataType = field(default_factory=pa.null)
    wide: int = 0
    secret: bytes = NO_SECRET
    kinds: tuple[Kind, ...] = field(default_factory=lambda: tuple(KINDS.values()))

    @property
    def division(self) -> Shards:
        """Into which shards keys are divided, and how."""
        return Shards(self.shards, self.wide, self.secret)

    @property
    def units(self) -> int:
        """How many shards there are in all."""
        return self.shards + self.wide

    def is_wide(self, number: int) -> bool:
        """Tell whether a shard sees the events of all keys, beside those that they belong to."""
        return number >= self.shards

    def types(self) -> dict[str, str]:
        """Return the types of columns that state depends on."""
        stream = self.stream
        types = {stream.key: self.key_type, stream.time: self.time_type}
        return {
            name: str(kind)
            for name, kind in types.items()
            if name is not None and not pa.types.is_null(kind)
        }


class DurableShard:
    """A shard, and the version of its state.

    Attributes
    ----------
    shard : Shard
    position : int
        How far the registry's log has been followed.
    found : str
        How the live arrays were come by: ``new``, ``kept``, ``caught up``, ``mapped`` from a file
        of this host, or ``rebuilt`` from the cells alone.
    times_before : pair of numbers or None
        The newest time seen before the batch, and the time of the first event that was let out.
    """

    def __init__(self, job: Job, number: int, cells: Cells) -> None:
        self._job = job
        self.number = number
        self.shard = Shard(job.stream, keep_accepted=bool(job.carried.names))
        if job.stream.key is not None and not pa.types.is_null(job.key_type):
            self.shard.keys.type = job.key_type
        self.carried = Carried(job.carried)
        self.position = 0
        self.found = "new"
        self.times_before: tuple[int | float | None, int | float | None] = (None, None)
        self.nonce = ""
        self.version = -1
        self.lineage = uuid4().hex
        self._tokens: list[Token] = []
        self._file: Token | None = None
        self._next_seq: Int64s = np.empty(0, np.int64)
        self._seen: Bytes = np.empty(0, np.uint8)
        self._dropped = 0
        self._numbered = self._unshared = 0  # queries: when last looked, and new since the file
        self._queries = Journal("queries", cells, Contents())
        self._keys = Journal("keys", cells, Contents())
        self._carried = Journal("carried", cells, Contents())
        self._rules = Journal("rules", cells, Contents())
        self._counts = Journal("counts", cells, Contents())
        self._counted = _Counted()
        self._quantiles = Journal("quantiles", cells, Contents())
        self.shard.tells_all_ends = number == 0 or job.is_wide(number)
        self.shard.count_by_batches()
        self.shard.set_time_type(job.time_type)

    @classmethod
    def open(cls, job: Job, number: int, cells: Cells) -> DurableShard:
        """Return a shard as its cells say it is, by the shortest way.

        It is this call's alone until it is committed: a batch that fails leaves nothing behind.

        Raises
        ------
        SnapshotError
            If the cells are of another stream, another number of shards, or a newer everquery.
        """
        head = cells.get("head")
        if head is None:
            return cls(job, number, cells)
        state: dict[str, Any] = json.loads(head)
        _check(state, job, number)
        here = _LIVE.pop((state["lineage"], number), None)
        tokens: list[Token] = [(int(version), nonce) for version, nonce in state["tokens"]]
        queries = Journal("queries", cells, Contents.of_json(state["queries"]))
        keys = Journal("keys", cells, Contents.of_json(state["keys"]))
        carried = Journal("carried", cells, Contents.of_json(state["carried"]))
        rules = Journal("rules", cells, Contents.of_json(state["rules"]))
        counts = Journal("counts", cells, Contents.of_json(state["counts"]))
        quantiles = Journal("quantiles", cells, Contents.of_json(state["quantiles"]))
        file: Token | None = None if state["file"] is None else tuple(state["file"])
        if here is not None and (here.version, here.nonce) == tokens[-1]:
            here.found = "kept"
        else:
            behind = (
                here is not None
                and (here.version, here.nonce) in tokens
                and queries.reaches(here.version)
            )
            if here is None or not behind:
                here = cls(job, number, cells)
            here.found = "caught up" if behind else "rebuilt"
            if (
                file is not None
                and file[0] > here.version
                and queries.reaches(file[0])
                and here._map(state["lineage"], file)
            ):
                here.found = "mapped"
        here._file = file
        here._job = job
        here._queries, here._keys, here._carried, here._rules = queries, keys, carried, rules
        here._counts, here._quantiles = counts, quantiles
        here.shard.set_time_type(job.time_type)
        here._tokens = tokens
        here.lineage = state["lineage"]
        here._follow()
        here.version, here.nonce = tokens[-1]
        here.position = state["position"]
        here.times_before = here.shard.admission.newest, here.shard.admission.began
        return here

    def apply(self, operation: str, payload: bytes) -> None:
        """Apply a part of the log."""
        self.apply_change(self.decoded(operation, payload))

    def apply_change(self, change: Change) -> None:
        """Apply a part of the log that is decoded already."""
        self.shard.apply(known_part(change, self.shard.live))

    def read(self, row: LogRow) -> Change:
        """Return the change of a row of the log that has come a long way."""
        row.check(self._job.stream.name)
        return change_of(row, self._job.stream)

    def decoded(self, operation: str, payload: bytes) -> Change:
        """Return the change that a part of the log holds."""
        return decode_change(operation, payload, self._job.stream)

    def commit(self, log: Sequence[LogPart]) -> None:
        """Write what a batch changed, and keep the live arrays for the next.

        Parameters
        ----------
        log : the parts of the log that were applied
        """
        version = self.version + 1
        self._commit_queries(version, log)
        self._commit_keys(version)
        self._commit_rules(version)
        self._commit_counts(version)
        commit_quantiles(self.shard, self._quantiles, version)
        if self._job.carried.names:
            self._carried.rebase(version, self.carried.save())
        self.version, self.nonce = version, uuid4().hex
        self._share()
        self._tokens = [*self._tokens, (self.version, self.nonce)][-TOKENS:]
        head = {
            "layout": LAYOUT,
            "stream": stream_header(self._job.stream),
            "shards": self._job.shards,
            "wide": self._job.wide,
            "secret": self._job.secret.hex(),
            "shard": self.number,
            "types": self._job.types(),
            "lineage": self.lineage,
            "position": self.position,
            "tokens": self._tokens,
            "file": self._file,
            "queries": self._queries.contents.as_json(),
            "keys": self._keys.contents.as_json(),
            "carried": self._carried.contents.as_json(),
            "rules": self._rules.contents.as_json(),
            "counts": self._counts.contents.as_json(),
            "quantiles": self._quantiles.contents.as_json(),
        }
        self._cells.put("head", json.dumps(head).encode())  # the last thing written
        _LIVE[self.lineage, self.number] = self
        while len(_LIVE) > _MOST_LIVE:
            _LIVE.popitem(last=False)

    # -- files of this host -------------------------------------------------------------------

    def _share(self) -> None:
        """Put the live arrays into a file where enough of them is new, and map that."""
        numbered = len(self.shard.catalog)
        self._unshared += abs(numbered - self._numbered)
        self._numbered = numbered
        if self._unshared < max(SHARED, numbered // 4):
            return
        token = self.version, self.nonce
        folder = host_folder()
        if folder is None:
            return
        try:
            write(folder, self._file_name(self.lineage), token, (self.shard, self.carried))
        except OSError:  # a full disk, say; the cells have everything
            return
        if self._map(self.lineage, token):
            self._file, self._unshared = token, 0

    def _map(self, lineage: str, file: Token) -> bool:
        """Take the live arrays from a file, if it is there."""
        folder = host_folder()
        found = None if folder is None else read(folder, self._file_name(lineage), file)
        if found is not None:
            self.shard, self.carried = found
            self.version, self.nonce = file
            self._numbered = len(self.shard.catalog)
        return found is not None

    def _file_name(self, lineage: str) -> str:
        return f"{lineage}.{self.number}"

    # -- from the cells -----------------------------------------------------------------------

    @property
    def _cells(self) -> Cells:
        return self._queries.cells

    def _follow(self) -> None:
        """Take over all that the journals hold beyond this version."""
        if self.version < self._queries.contents.base:
            self._apply_all(self._queries.base())
        for entry in self._queries.after(self.version):
            self._apply_all(entry)
        self.shard.has_announced()
        if self.version < self._keys.contents.base:
            self._take_keys(self._keys.base())
        for entry in self._keys.after(max(self.version, self._keys.contents.base)):
            self._take_keys(entry)
        if self.version < self._carried.contents.base:
            self.carried.load(self._carried.base())
        if self.version < self._rules.contents.base:
            header, arrays = unpack(self._rules.base())
            self.shard.hygiene.load_named(header, arrays, self.shard.catalog, self.shard.keys)
        self._take_counts()
        follow_quantiles(self.shard, self._quantiles, self.version)
        self.shard.begin_lives()
        self._note_keys()
        self._dropped = self.shard.catalog.dropped

    def _apply_all(self, entry: bytes) -> None:
        for operation, payload in _unpack_log(entry):
            if operation == NEWEST:
                self.shard.admission.newest, self.shard.admission.began = json.loads(payload)
                self.shard.begin_lives()
            elif operation == ENDS:
                self._set_ends(payload)
            else:
                self.apply(operation, payload)
                if operation.startswith("register"):
                    self.shard.settle()  # while it is known when their lives begin

    def _set_ends(self, payload: bytes) -> None:
        _, arrays = unpack(payload)
        self.shard.settle()
        slots = self.shard.catalog.names.find(load_names("ids", arrays))
        self.shard.hygiene.rules.set_ends(slots, arrays["ends"])

    def _take_keys(self, entry: bytes) -> None:
        header, arrays = unpack(entry)
        shard = self.shard
        shard.admission.load(header, arrays)
        numbers = shard.set_keys(header, arrays)
        held = shard.admission.held
        if held is not None:
            columns = {name: getattr(held, name) for name in COLUMNS}
            shard.admission.held = Events(**{**columns, "key": numbers[held.key]})
        shard.events, shard.notices = header["events"], header["notices"]
        shard.dead_letters.set_counts(arrays["letters"])

    def _note_keys(self) -> None:
        """Note what the cells hold of each key, to find out later what has changed."""
        keys = self.shard.keys
        self._next_seq = keys.next_seq[: len(keys)].copy()
        self._seen = keys.seen[: len(keys)].copy()

    # -- into the cells -----------------------------------------------------------------------

    def _commit_queries(self, version: int, log: Sequence[LogPart]) -> None:
        if not log:
            return
        times = NEWEST, json.dumps(self.times_before).encode()
        self._queries.append(version, _pack_log([times, *log]))
        contents = self._queries.contents
        catalog = self.shard.catalog
        contents.garbage += max(0, catalog.dropped - self._dropped)
        if len(contents.entries) > MOST_CHANGES or contents.garbage > max(
            GARBAGE, len(catalog) - catalog.dropped
        ):
            self._queries.rebase(version, _pack_log(_as_log(self.shard, self._job.stream)))
        self.shard.compact()
        self._dropped = catalog.dropped

    def _commit_keys(self, version: int) -> None:
        every = len(self.shard.keys)
        changed = self._changed_keys()
        contents = self._keys.contents
        if 2 * changed.size >= every or len(contents.entries) >= MOST_ENTRIES:
            self._keys.rebase(version, self._saved_keys(np.arange(every, dtype=np.int32)))
        else:
            self._keys.append(version, self._saved_keys(changed))
        self._note_keys()

    def _commit_rules(self, version: int) -> None:
        """Write what waits of queries, if anything does or did."""
        hygiene = self.shard.hygiene
        if hygiene.active or self._rules.contents.base >= 0:
            self._rules.rebase(
                version, pack(*hygiene.save_named(self.shard.catalog, self.shard.keys))
            )

    def _commit_counts(self, version: int) -> None:
        """Write how far the queries are that count."""
        slots, state = self.shard.counts()
        contents = self._counts.contents
        if not slots.size and contents.base < 0:
            return
        before = self._counted
        same = np.array_equal(before.slots, slots)
        changed = np.flatnonzero(before.state != state) if same else np.arange(slots.size)
        self._counted = _Counted(slots, state)
        # Entries name queries by their place among those of the base.
        if not same or 4 * changed.size >= slots.size or len(contents.entries) >= MOST_ENTRIES:
            self._counts.rebase(version, state.tobytes())
        elif changed.size:
            entry = np.stack([changed, state[changed]])
            self._counts.append(version, entry.tobytes())

    def _take_counts(self) -> None:
        """Take over how far the queries are that count; they are those of the base."""
        contents = self._counts.contents
        slots, state = self.shard.counts()
        if self.version < contents.base:
            state = np.frombuffer(self._counts.base(), np.int64).copy()
        for entry in self._counts.after(max(self.version, contents.base)):
            place, value = np.frombuffer(entry, np.int64).reshape(2, -1)
            state[place] = value
        self.shard.set_counts(slots, state)
        self._counted = _Counted(slots, state)

    def _changed_keys(self) -> Int32s:
        keys = self.shard.keys
        known = self._next_seq.size
        changed = np.ones(len(keys), np.bool_)
        changed[:known] = keys.next_seq[:known] != self._next_seq
        changed[:known] |= keys.seen[:known] != self._seen
        held = self.shard.admission.held
        if held is not None:
            changed[held.key] = True
        return np.flatnonzero(changed).astype(np.int32)

    def _saved_keys(self, numbers: Int32s) -> bytes:
        shard = self.shard
        header: dict[str, Any] = {"events": shard.events, "notices": shard.notices}
        arrays: dict[str, Array] = {"letters": shard.dead_letters.counts}
        shard.admission.save(header, arrays)
        arrays["held.key"] = np.searchsorted(numbers, arrays["held.key"])
        shard.keys.save_rows(numbers, header, arrays)
        return pack(header, arrays)


@dataclass(frozen=True, slots=True)
class _Counted:
    """What the cells hold of the queries that count: which, and how far they are."""

    slots: Int32s = field(default_factory=lambda: np.empty(0, np.int32))
    state: Int64s = field(default_factory=lambda: np.empty(0, np.int64))


def check_cells(job: Job, number: int, cells: Cells) -> None:
    """Raise if a shard's cells are of another stream or another number of shards."""
    head = cells.get("head")
    if head is not None:
        _check(json.loads(head), job, number)


def forget_live() -> None:
    """Drop all live arrays of this process; the cells have everything."""
    _LIVE.clear()


def _check(state: dict[str, Any], job: Job, number: int) -> None:
    if state["layout"] != LAYOUT:
        raise SnapshotError(
            f"the checkpoint has layout {state['layout']}, and this everquery writes {LAYOUT};"
            " start with a new checkpoint, or go on with the everquery that wrote it"
        )
    said = differences(state["stream"], job.stream)
    if said:
        raise SnapshotError(
            f"the checkpoint is of another stream ({said}); give the stream that it is of, or"
            " start with a new checkpoint"
        )
    if state["wide"] != job.wide:
        raise SnapshotError(
            f"the checkpoint has {state['wide']} wide shards, and this run has {job.wide}; give the"
            " same number, which stays for the life of a checkpoint, or start with a new one"
        )
    if state["secret"] != job.secret.hex():
        raise SnapshotError(
            "the checkpoint's keys are divided by another registry's secret; go on with the"
            " registry that it was begun with, or start with a new checkpoint"
        )
    if (state["shards"], state["shard"]) != (job.shards, number):
        raise SnapshotError(
            f"the checkpoint is of {state['shards']} shards, and this run has {job.shards}; give"
            " the same number, which stays for the life of a checkpoint, or start with a new one"
        )
    types = job.types()
    for name, kind in state["types"].items():
        if types.get(name, kind) != kind:
            raise SnapshotError(
                f"column {name!r} has type {types[name]}, and had {kind} when the checkpoint was"
                " written; cast it to that type, or start with a new checkpoint"
            )


def _as_log(shard: Shard, stream: Stream) -> Iterable[LogPart]:
    """Yield the log that leads to the queries of a shard."""
    blocks = tuple(block.in_order() for block, _ in shard.blocks())
    changes: tuple[Change, ...] = (RegisterBlocks(blocks), Pause(shard.paused_ids()))
    for change in changes:
        for operation, _, payload in encode_change(change, stream):
            yield operation, payload
    slots, ends = shard.hygiene.rules.ends()
    if slots.size:
        arrays: dict[str, Array] = {"ends": ends}
        shard.catalog.names.save("ids", arrays, slots)
        yield ENDS, pack({}, arrays)


def _pack_log(log: Iterable[LogPart]) -> bytes:
    parts = []
    for operation, payload in log:
        name = operation.encode()
        parts += [bytes([len(name)]), name, len(payload).to_bytes(8, "little"), payload]
    return b"".join(parts)


def _unpack_log(data: bytes) -> Iterable[LogPart]:
    at = 0
    while at < len(data):
        named = at + 1 + data[at]
        size = int.from_bytes(data[named : named + 8], "little")
        yield data[at + 1 : named].decode(), data[named + 8 : named + 8 + size]
        at = named + 8 + size
