"""Labels: what owners find their queries by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.errors import InvalidQueryError

LONGEST_LABEL = 256  # characters
MOST_LABELS = 64  # of a query
MOST_BYTES = 65_536  # all labels of a query together, as JSON
_SURELY_FEW = MOST_BYTES // (2 * 6 * LONGEST_LABEL + 8)  # whatever they hold, they fit


class Labels(Mapping[str, str]):
    """An immutable, hashable mapping from name to value.

    Examples
    --------
    >>> Labels({"team": "fx"})["team"]
    'fx'
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        values = {} if values is None else values
        if not isinstance(values, Mapping):
            raise InvalidQueryError(
                f"labels is {values!r}; give a mapping, for example {{'team': 'fx'}}"
            )
        if len(values) > MOST_LABELS:
            raise InvalidQueryError(
                f"there are {len(values):,} labels; the limit is {MOST_LABELS} for a query"
            )
        for name, value in values.items():
            for text in (name, value):
                if not isinstance(text, str) or not 0 < len(text) <= LONGEST_LABEL:
                    raise InvalidQueryError(
                        f"label {name!r}: {value!r}; names and values are strings of 1 to"
                        f" {LONGEST_LABEL} characters"
                    )
                if not text.isascii() and _is_broken(text):
                    raise InvalidQueryError(
                        f"label {name!r}: {value!r} has half a surrogate pair; give valid text"
                    )
        self._values = dict(sorted(values.items()))
        if len(values) > _SURELY_FEW:
            size = len((self.as_json() or "").encode())
            if size > MOST_BYTES:
                raise InvalidQueryError(
                    f"the labels have {size:,} bytes; the limit is {MOST_BYTES:,} for a query"
                )

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def as_json(self) -> str | None:
        """Return the labels as a JSON object; None if there is none."""
        return json.dumps(self._values, ensure_ascii=False) if self._values else None

    def __repr__(self) -> str:
        return repr(self._values)


def labels_of(text: str) -> Labels:
    """Return the labels that a JSON object says.

    Raises
    ------
    InvalidQueryError
        If it is none of strings, or too long.
    """
    if len(text) > MOST_BYTES:
        raise InvalidQueryError("labels are too long")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidQueryError(f"labels are no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidQueryError(f"labels are {text[:80]!r}, which is no JSON object")
    return Labels(found)


def read_labels(column: pa.Array) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return labels as specs write them, null where there are none, and which texts are bad.

    Each distinct text is looked at once.
    """
    distinct = column.dictionary_encode()
    texts: list[str | None] = []
    bad = []
    for i, text in enumerate(distinct.dictionary.to_pylist()):
        try:
            texts.append(labels_of(text).as_json())
        except InvalidQueryError:
            texts.append(None)
            bad.append(i)
    read = pa.array(texts, pa.string()).take(distinct.indices)
    return read, np.isin(np.asarray(distinct.indices.fill_null(-1)), bad)


def _is_broken(text: str) -> bool:
    """Tell whether a text has half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
