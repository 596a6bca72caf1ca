"""A shard that outlives its process: live arrays in a worker, and a store to build them from.

A worker may keep a shard's live arrays from batch to batch only with a token, the pair of a version
and a nonce, that is also in the state. Every attempt at a batch draws a nonce of its own, and the
state keeps the tokens of the versions that led to it. So a worker finds out whether its arrays are
the present ones (the token is the last one), of an earlier version (the journals lead on from
there), or of an attempt that failed (the token is not there: build anew).

Each part of the shard has a journal: its whole state at some version, and what later versions
changed. Journals are loaded version by version, all parts of one version before the next. So at
each version, queries and keys have the numbers that they had when it was written. When the journal
of queries gets a new base, all others do too: their older entries could not be loaded any more.

Where events are read from spans, a version may be written as a reference, which names the spans,
instead of what the events changed (`everquery.sharding.references`). The log goes into the journal
of queries all the same. Whoever lacks such a version takes in its log and its events again. The
next version that is none of these writes all parts but the queries whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pyarrow as pa

from everquery.core.framing import NewerError
from everquery.core.invariants import refuse
from everquery.core.parts import Part, Saved, pack_parts, unpack_parts
from everquery.errors import EventsGoneError
from everquery.queries.changes import Change
from everquery.registry.rows import LogRow
from everquery.registry.strangers import read_widely
from everquery.shard import Shard
from everquery.shard.parts import load_parts, parts_of
from everquery.sharding import live
from everquery.sharding.carried import Carried
from everquery.sharding.head import REFERENCES, Head, Token, of_checkpoint
from everquery.sharding.host_files import host_folder, read, write
from everquery.sharding.job import Job
from everquery.sharding.journal import Contents, Journal, Store
from everquery.sharding.logged_queries import LoggedQueries, LogPart
from everquery.sharding.references import PastEvents, Reference, are_full, check_versions, replay
from everquery.sharding.taking import Placed
from everquery.state.stream_header import stream_header

TOKENS = 64  # versions back from which a worker can catch up
SHARED = 20_000  # new queries, before all are written to a file of the host

_KEYS, _QUERIES = "keys", "queries"
_NO_SPANS = (
    "the checkpoint refers to events by the names of their spans, and this job's source has none;"
    " give the source that it was written with (read_files, read_kafka), or begin a new checkpoint"
)


class DurableShard:
    """A shard, and the version of its state.

    Attributes
    ----------
    shard : Shard
    carried : Carried
    position : int
        How far the registry's log has been followed.
    found : str
        Where the live arrays came from: ``new``, ``kept``, ``caught up``, ``mapped`` from a file
        of this host, or ``rebuilt`` from the store alone.
    """

    def __init__(self, job: Job, number: int, store: Store) -> None:
        self._job = job
        self.number = number
        self.position = 0
        self.found = "new"
        self.nonce = ""
        self.version = -1
        self.lineage = uuid4().hex
        self._store = store
        self._tokens: list[Token] = []
        self._file: Token | None = None
        self._numbered = self._unshared = 0  # queries: when last looked, and new since the file
        self._whole_next = False  # whether the next version is to be no reference
        self._attach(*self._empty())
        self._open_journals({})
        self._times_before = self.shard.times

    def _empty(self) -> tuple[Shard, Carried]:
        """Return a shard that knows nothing."""
        job = self._job
        known = job.stream.key is not None and not pa.types.is_null(job.key_type)
        shard = Shard(
            job.stream,
            kinds={kind.name: kind for kind in job.kinds},
            key_type=job.key_type if known else None,
            keep_accepted=bool(job.carried.names),
        )
        shard.passage.tells_all_ends = self.number == 0 or job.is_wide(self.number)
        shard.set_time_type(job.time_type)
        return shard, Carried(job.carried)

    def _attach(self, shard: Shard, carried: Carried) -> None:
        """Have these live arrays from now on."""
        self.shard, self.carried = shard, carried
        self._queries = LoggedQueries(shard, self._job)
        self._parts: list[Part] = [
            self._queries if part.name == _QUERIES else part for part in parts_of(shard)
        ]
        self._parts.append(carried)
        for part in self._parts:
            part.mark_committed()

    def _open_journals(self, contents: dict[str, Contents]) -> None:
        self._journals = {
            part.name: Journal(part.name, self._store, contents.get(part.name) or Contents())
            for part in self._parts
        }
        self._references = Journal(REFERENCES, self._store, contents.get(REFERENCES) or Contents())

    @classmethod
    def open(
        cls, job: Job, number: int, store: Store, past: PastEvents | None = None
    ) -> DurableShard:
        """Return a shard as its store says it is, by the shortest way.

        It is this call's alone until it is committed: a batch that fails leaves nothing behind.

        Parameters
        ----------
        past : PastEvents, optional
            What reads the events of versions that were written by reference.

        Raises
        ------
        SnapshotError
            If the store is damaged, of another stream, another number of shards, or a newer
            everquery.
        EventsGoneError
            If events must be taken in again, and can't be read.
        """
        head = Head.read(job, number, store)
        if head is None:
            return cls(job, number, store)
        if not head.refers or head.stream == stream_header(job.stream):
            return cls._opened(job, number, store, head, past)
        # Steps are replayed with the stream as it was.
        with of_checkpoint():
            then = head.job_then(job)
        here = cls._opened(then, number, store, head, past)
        here._alter(job)
        return here

    @classmethod
    def _opened(
        cls, job: Job, number: int, store: Store, head: Head, past: PastEvents | None
    ) -> DurableShard:
        base = head.journals[_QUERIES].base if _QUERIES in head.journals else -1
        here = live.take(head.lineage, number)
        if here is not None and here._token != head.tokens[-1]:
            behind = here._token in head.tokens and here.version >= base
            here.found = "caught up"
            here = here if behind else None
        elif here is not None:
            here.found = "kept"
        if here is not None and here.shard.stream != job.stream:
            here = None  # the stream has been altered
        if here is None:
            here = cls(job, number, store)
            here.found = "rebuilt"
        file = None if here.found == "kept" else head.file
        if file is not None and file[0] > here.version and file[0] >= base:
            here.found = "mapped" if here._map(head.lineage, file) else here.found
        here._catch_up(job, head, store, past)
        return here

    @property
    def _token(self) -> Token:
        return self.version, self.nonce

    def read(self, row: LogRow) -> Change:
        """Return the change of a row of the log that has come a long way."""
        row.check(self._job.stream.name)
        return read_widely(row, self._job.stream)[0]

    def apply(self, operation: str, payload: bytes) -> None:
        """Apply a part of the log."""
        self.apply_change(self._queries.decoded(operation, payload))

    def apply_change(self, change: Change) -> None:
        """Apply a part of the log that is decoded already."""
        self._queries.apply(change)

    # -- from the store -----------------------------------------------------------------------

    def _catch_up(self, job: Job, head: Head, store: Store, past: PastEvents | None) -> None:
        """Take over all that the store holds beyond this version."""
        self._job, self._store = job, store
        self.shard.set_time_type(job.time_type)
        with of_checkpoint():
            unknown = head.journals.keys() - {REFERENCES, *(part.name for part in self._parts)}
            if unknown:
                raise NewerError(
                    f"has a part {min(unknown)[:80]!r}, which this everquery does not know"
                )
            self._open_journals(head.journals)
            if self._token != head.tokens[-1]:
                check_versions(self._references.contents, head.tokens[-1][0])
                self._load_all()
                self._replay(past)
        self._tokens, self._file = head.tokens, head.file
        self.lineage, self.position = head.lineage, head.position
        self.version, self.nonce = head.tokens[-1]
        self._times_before = self.shard.times

    def _load_all(self) -> None:
        found = []
        referred = {version for version, _, _ in self._references.contents.entries}
        for place, part in enumerate(self._parts):
            for version, entry in self._journals[part.name].after(self.version):
                if version in referred:
                    continue
                # The numbers of keys go by the last base of all keys, which has those of every
                # version before it too.
                first = part.name == _KEYS and version == self._journals[_KEYS].contents.base
                found.append((-1 if first else version, place, entry))
        for _, place, entry in sorted(found, key=lambda each: each[:2]):
            self._load(self._parts[place], entry)
        self.shard.go_on_from_elsewhere()
        for part in self._parts:
            part.mark_committed()

    def _replay(self, past: PastEvents | None) -> None:
        """Take in again the batches that were written by reference."""
        for version, entry in self._references.after(self.version):
            batch = Reference.from_bytes(entry)
            events: Sequence[Placed] = ()
            if batch.spans.names:
                if past is None:
                    raise EventsGoneError(_NO_SPANS)
                events = past.of_shard(batch.spans, self.number, self._job.stream)
            log = self._journals[_QUERIES].of_version(version)
            saved = None if log is None else unpack_parts(log, self._parts)[1].get(_QUERIES)
            replay(batch, self.shard, self.carried, (self._queries, saved), events)
            for part in self._parts:
                part.leave_unnoted()
            self._whole_next = True  # what was taken in again once is not to be a second time

    def _alter(self, job: Job) -> None:
        """Go on with a stream that has been altered."""
        frame = pack_parts({}, [(part, part.whole()) for part in self._parts])
        self._job = job
        self._attach(*self._empty())
        load_parts(self._parts, unpack_parts(frame, self._parts)[1])
        self.shard.go_on_from_elsewhere()
        for part in self._parts:
            part.mark_committed()
        self._whole_next = True

    def _load(self, part: Part, entry: bytes) -> None:
        header, parts = unpack_parts(entry, self._parts)
        if parts.keys() != {part.name}:
            refuse(f"a journal of {part.name!r} holds {sorted(parts)}")
        part.load(parts[part.name])
        queries, keys = self._sizes()
        if part.name != _KEYS and header.get("queries") != queries:
            refuse(f"it is of {header.get('queries')!r} queries, and there are {queries}")
        if type(header.get("keys")) is not int or header["keys"] > keys:
            refuse(f"it is of {header.get('keys')!r} keys, and there are {keys}")

    def _sizes(self) -> tuple[int, int]:
        return self.shard.queries.living, self.shard.known_keys

    # -- into the store -----------------------------------------------------------------------

    def commit(self, log: Sequence[LogPart], reference: Reference | None = None) -> None:
        """Write what a batch changed, and keep the live arrays for the next.

        Parameters
        ----------
        log : the parts of the log that were applied
        reference : Reference, optional
            The batch by reference, where it may be written so.
        """
        version = self.version + 1
        self._queries.note(log, self._times_before)
        changed = self._queries.changes()
        everything = changed is not None and self._is_full(self._queries)
        before = self._references.contents
        if everything or self._whole_next or are_full(before):
            reference = None
        for part in self._parts:
            if part is self._queries:
                saved = part.whole() if everything else changed
            elif reference is not None:
                saved = None
                part.leave_unnoted()
            elif everything or before.entries:  # of those it was not noted what they changed
                saved = part.whole()
                if before.entries:
                    part.mark_committed()
            else:
                saved = part.changes()
            if saved is not None:
                self._write(part, version, saved)
        if reference is not None:
            self._references.append(version, reference.to_bytes())
            self._references.contents.outdated += reference.counts.arrived
        elif before.entries:
            self._references.clear()
        self._whole_next = False
        self.version, self.nonce = version, uuid4().hex
        self._share()
        self._tokens = [*self._tokens, self._token][-TOKENS:]
        journals = {name: journal.contents for name, journal in self._journals.items()}
        if self._references.contents.entries:
            journals[REFERENCES] = self._references.contents
        stream = stream_header(self._job.stream)
        head = Head(stream, self.lineage, self.position, self._tokens, self._file, journals)
        head.write(self._job, self.number, self._store)  # the last thing written
        live.keep(self)

    def _is_full(self, part: Part) -> bool:
        return part.should_rebase(self._journals[part.name].contents.size())

    def _write(self, part: Part, version: int, saved: Saved) -> None:
        journal = self._journals[part.name]
        if not saved.whole and self._is_full(part):
            saved = part.whole()
        queries, keys = self._sizes()
        header = {"holds": "journal", "queries": queries, "keys": keys}
        content = pack_parts(header, [(part, saved)])
        if saved.whole:
            journal.rebase(version, content)
        else:
            journal.append(version, content)
            journal.contents.outdated += saved.outdated

    # -- files of this host -------------------------------------------------------------------

    def _share(self) -> None:
        """Put the live arrays into a file where enough of them is new, and map that."""
        numbered = len(self.shard.queries)
        self._unshared += abs(numbered - self._numbered)
        self._numbered = numbered
        if self._unshared < max(SHARED, numbered // 4):
            return
        folder = host_folder()
        if folder is None:
            return
        found = self.shard, self.carried
        try:
            write(folder, self._file_name(self.lineage), self._token, found, [self._job.stream])
        except OSError:  # a full disk, say; the store has everything
            return
        if self._map(self.lineage, self._token):
            self._file, self._unshared = self._token, 0

    def _map(self, lineage: str, file: Token) -> bool:
        """Take the live arrays from a file, if it is there."""
        folder = host_folder()
        if folder is None:
            return False
        name, given = self._file_name(lineage), [self._job.stream]
        found = read(folder, name, file, self._empty(), given)
        if found is None:
            return False
        self._attach(*found)
        self.version, self.nonce = file
        self._numbered = len(self.shard.queries)
        return True

    def _file_name(self, lineage: str) -> str:
        return f"{lineage}.{self.number}"
