"""Labels: what owners find their queries by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from everquery.errors import InvalidQueryError

LONGEST_LABEL = 256  # characters


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
        for name, value in values.items():
            for text in (name, value):
                if not isinstance(text, str) or not 0 < len(text) <= LONGEST_LABEL:
                    raise InvalidQueryError(
                        f"label {name!r}: {value!r}; names and values are strings of 1 to"
                        f" {LONGEST_LABEL} characters"
                    )
        self._values = dict(sorted(values.items()))

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
