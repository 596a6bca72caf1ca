"""The head of a shard's state: of which job it is, how far it is, and what its journals hold.

It is the last thing that a batch writes, so that whatever it names is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from everquery.core.framing import DamagedError, NewerError, pack, unpack
from everquery.core.invariants import check_count, of_type, refuse, short
from everquery.errors import SnapshotError
from everquery.sharding.job import Job
from everquery.sharding.journal import Contents, Store
from everquery.state.stream_header import misfit, stream_of

VERSION = 1
NAME = "head"
REFERENCES = "references"  # the journal of versions that are written by reference

Token = tuple[int, str]
"""A version, and the nonce of the attempt that wrote it."""

_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass
class Head:
    """How far a shard's state is.

    Attributes
    ----------
    stream : dict
        The stream as it was when the state was written, as plain values.
    lineage : str
        Names the state, from its first version on.
    position : int
        How far the registry's log has been followed.
    tokens : list of tokens
        Of the latest versions, oldest first.
    file : token or None
        The version of which the live arrays are in a file of some host.
    journals : dict from the name of a part to what its journal holds
    """

    stream: dict[str, Any]
    lineage: str
    position: int
    tokens: list[Token]
    file: Token | None
    journals: dict[str, Contents]

    @property
    def refers(self) -> bool:
        """Whether versions are written by reference."""
        return REFERENCES in self.journals and bool(self.journals[REFERENCES].entries)

    def write(self, job: Job, number: int, store: Store) -> None:
        """Write the head of a shard."""
        header = {
            "holds": NAME,
            "head": VERSION,
            "stream": self.stream,
            "shards": job.shards,
            "wide": job.wide,
            "secret": job.secret.hex(),
            "shard": number,
            "types": job.types(),
            "lineage": self.lineage,
            "position": self.position,
            "tokens": self.tokens,
            "file": self.file,
            "journals": {name: each.as_json() for name, each in self.journals.items()},
        }
        store.put(NAME, pack(header, {}))

    @classmethod
    def read(cls, job: Job, number: int, store: Store) -> Head | None:
        """Return the head of a shard; None if it has no state yet.

        Raises
        ------
        SnapshotError
            If the state is damaged, or of another job.
        """
        content = store.get(NAME)
        if content is None:
            return None
        with of_checkpoint():
            header = _read(content)
            _check_job(header, job, number)
            journals = of_type(header, "journals", dict)
            return cls(
                header["stream"],
                check_nonce(header.get("lineage")),
                header["position"],
                [check_token(token) for token in of_type(header, "tokens", list)],
                None if header.get("file") is None else check_token(header["file"]),
                {name: Contents.of_json(each) for name, each in journals.items()},
            )

    def job_then(self, job: Job) -> Job:
        """Return the job with the stream as it was when the state was written."""
        return replace(job, stream=stream_of(self.stream))


def _read(content: bytes) -> dict[str, Any]:
    header, _, _ = unpack(content)
    version = header.get("head")
    if header.get("holds") != NAME or type(version) is not int:
        refuse("its head is something else")
    if version > VERSION:
        raise NewerError(f"has version {version}, and this everquery reads up to {VERSION}")
    for name in ("position", "shards", "wide", "shard"):
        check_count(name, header.get(name))
    if not of_type(header, "tokens", list):
        refuse("it has no version")
    return header


def check_nonce(value: object) -> str:
    """Return what names an attempt or a lineage, and becomes part of a path; raise if it can't."""
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        refuse(f"{short(value)} names no version")
    return value


def check_token(value: object) -> Token:
    """Return a token; raise if it can't be one."""
    if not isinstance(value, list) or len(value) != 2:
        refuse(f"{short(value)} is no version")
    check_count("a version", value[0])
    return value[0], check_nonce(value[1])


def refers_to_events(job: Job, number: int, store: Store) -> bool:
    """Tell whether a shard's state refers to the events of earlier batches.

    Raises
    ------
    SnapshotError
        If the store is of another stream or another number of shards.
    """
    head = Head.read(job, number, store)
    return head is not None and head.refers


@contextmanager
def of_checkpoint() -> Iterator[None]:
    """Say of what is wrong with saved state that it is a checkpoint's, and what to do."""
    try:
        yield
    except DamagedError as error:
        raise SnapshotError(
            f"the checkpoint is damaged, or of another everquery: {error}; start with a new"
            " checkpoint, or go on with the everquery that wrote it"
        ) from None
    except NewerError as error:
        raise SnapshotError(
            f"the checkpoint {error}; upgrade everquery, or start with a new checkpoint"
        ) from None


def _check_job(header: Mapping[str, Any], job: Job, number: int) -> None:
    """Raise if the state is of another job than this one."""
    said = misfit(of_type(header, "stream", dict), job.stream)
    if said:
        raise SnapshotError(
            f"the checkpoint does not fit: {said}; give the stream that it is of, or start with a"
            " new checkpoint"
        )
    if header["wide"] != job.wide:
        raise SnapshotError(
            f"the checkpoint has {header['wide']} wide shards, and this run has {job.wide}; give"
            " the same number, which stays for the life of a checkpoint, or start with a new one"
        )
    if header.get("secret") != job.secret.hex():
        raise SnapshotError(
            "the checkpoint's keys are divided by another registry's secret; go on with the"
            " registry that it was begun with, or start with a new checkpoint"
        )
    if (header["shards"], header["shard"]) != (job.shards, number):
        raise SnapshotError(
            f"the checkpoint is of {header['shards']} shards, and this run has {job.shards}; give"
            " the same number, which stays for the life of a checkpoint, or start with a new one"
        )
    types = job.types()
    for name, kind in of_type(header, "types", dict).items():
        if types.get(name, kind) != kind:
            raise SnapshotError(
                f"column {name!r} has type {types[name]}, and had {kind} when the checkpoint was"
                " written; cast it to that type, or start with a new checkpoint"
            )
