"""What saved queries must be: ids, owners and labels, quotas, and the shapes of boxes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from everquery.core.arrays import Int32s
from everquery.core.invariants import MOST, Column, Contents, check_count, is_whole, refuse, short
from everquery.core.saved_names import as_texts, check_names
from everquery.errors import InvalidQueryError
from everquery.kinds import KINDS
from everquery.queries.block import TEXTS
from everquery.queries.labels import labels_of
from everquery.queries.spec import LONGEST_ID, bad_text
from everquery.queries.zones import bad_zone
from everquery.stream import NAMELESS, Stream


def check_ids(contents: Contents) -> None:
    """Raise if ids of queries can't be."""
    as_texts(check_names(contents, "ids", "queries"), "ids")
    lengths = np.diff(contents["ids.starts"])
    if lengths.size and not (lengths.min() > 0 and lengths.max() <= LONGEST_ID):
        refuse(f"an id is empty, or longer than {LONGEST_ID} bytes")


def check_texts(contents: Contents) -> None:
    """Raise if owners, labels and zones can't be."""
    texts = as_texts(check_names(contents, "texts", "texts"), "texts")
    contents.check(
        {
            name: Column("int32", ("queries",), least=-1, below="texts", needed=False)
            for name in TEXTS  # no column where no query has any
        }
    )
    used = {name: _used(contents, name) for name in TEXTS}
    for place in used["zone"].tolist():
        if bad_zone(texts[place].as_py()):
            refuse(f"a zone is {short(texts[place].as_py())}, which this machine does not know")
    for place in used["labels"].tolist():
        _check_labels(texts[place].as_py())
    lengths = np.diff(contents["texts.starts"])
    for name in ("owner", "part_of"):
        if (lengths[used[name]] == 0).any():
            refuse(f"{name} is empty")


def _used(contents: Contents, name: str) -> Int32s:
    """Return which texts queries have in a column."""
    places = np.unique(contents[name]) if contents.has(name) else np.empty(0, np.int32)
    return places[places >= 0]


def _check_labels(text: str) -> None:
    try:
        labels_of(text)
    except InvalidQueryError:
        refuse(f"labels are {text[:80]!r}, which is no JSON object of strings")


def check_quotas(quotas: list[Any]) -> None:
    """Raise if quotas can't be."""
    for each in quotas:
        if not isinstance(each, list) or len(each) != 2:
            refuse(f"{short(each)} is no quota")
        owner, limit = each
        check_count("a quota", limit)
        if owner is not None and bad_text(owner, "owner", MOST):
            refuse(f"a quota is that of {short(owner)}, which can't be an owner")


def check_ended(ended: list[Any]) -> None:
    """Raise if the names of queries that ended by themselves can't be."""
    for name in ended:
        if bad_text(name, "query id", LONGEST_ID):
            refuse(f"{short(name)} is said to have ended, which can't be a query")


def check_shape(shape: object, stream: Stream) -> tuple[str, tuple[int, ...], bool]:
    """Return kind, attributes and whether there are keys; raise if boxes can't be like that."""
    if not isinstance(shape, list) or len(shape) != 3:
        refuse(f"{short(shape)} is no shape of queries")
    kind, attributes, keyed = shape
    if not isinstance(kind, str) or kind not in KINDS:
        refuse(f"queries are of kind {short(kind)}; there is no such kind")
    if not isinstance(keyed, bool) or (keyed and stream.key is None):
        refuse(f"queries of a shape have keys or not: {short(keyed)}")
    places = attributes if isinstance(attributes, list) else []
    known = len(stream.attributes)
    spec = KINDS[kind].spec
    if places == [NAMELESS] and not spec.about_attribute:
        return kind, (NAMELESS,), keyed  # empty boxes
    rising = all(is_whole(a) and 0 <= a < known for a in places) and all(
        a < b for a, b in pairwise(places)
    )
    one = len(places) == 1 and spec.about_attribute
    if not places or not rising or not (spec.boxed or one):
        refuse(f"queries of kind {kind!r} restrict {short(attributes)}, which can't be")
    return kind, tuple(places), keyed
