"""Where in the past queries begin: with the oldest kept event, at a time, or at a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np

from everquery.errors import InvalidQueryError

OLDEST = "oldest"
_HOW = 'give "oldest", a time of the stream\'s type, or a place (batch, position)'


@dataclass(frozen=True, slots=True)
class Begin:
    """Where in the past queries begin.

    Attributes
    ----------
    at : "oldest", a time, or a place
        A time is a number, date or datetime, as events have it; a place a tuple of two integers.
    silent : bool
        Whether what lies in the past is not told.
    """

    at: Any
    silent: bool = False

    def __str__(self) -> str:
        return str(self.at)

    @property
    def is_place(self) -> bool:
        """Whether it is a place."""
        return isinstance(self.at, tuple)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        if self.is_place:
            said: dict[str, Any] = {"place": list(self.at)}
        elif isinstance(self.at, (date, np.datetime64)):
            said = {"date" if _is_day(self.at) else "datetime": _iso(self.at)}
        else:
            said = {"oldest": True} if self.at == OLDEST else {"number": self.at}
        return {**said, "silent": self.silent}

    @classmethod
    def of_json(cls, values: object) -> Begin:
        """Return what `as_json` gave; raise `InvalidQueryError` if it can't be."""
        if not isinstance(values, Mapping) or len(values) != 2 or "silent" not in values:
            raise InvalidQueryError(f"{values!r:.80} does not say where queries begin")
        silent = bool(values["silent"])
        ((word, said),) = ((name, each) for name, each in values.items() if name != "silent")
        try:
            if word == "place":
                return cls(read_begin(tuple(said)).at, silent)
            if word == "datetime":
                return cls(datetime.fromisoformat(said), silent)
            if word == "date":
                return cls(date.fromisoformat(said), silent)
        except (TypeError, ValueError) as error:
            raise InvalidQueryError(f"{values!r:.80} says no begin: {error}") from None
        if word not in ("oldest", "number"):
            raise InvalidQueryError(f"{values!r:.80} says no begin that this everquery knows")
        return cls(read_begin(OLDEST if word == "oldest" else said).at, silent)


def read_begin(given: Any, *, silent: bool = False, name: str = "begin") -> Begin:  # noqa: ANN401 - to find out
    """Return where queries begin, or end, as it was given.

    Examples
    --------
    >>> read_begin("oldest").at, read_begin((3, 0)).at, read_begin(17).at
    ('oldest', (3, 0), 17)
    >>> read_begin("yesterday")
    Traceback (most recent call last):
    everquery.errors.InvalidQueryError: begin is 'yesterday'; give "oldest", a time of the ...
    """
    if isinstance(given, str):
        if given.strip().lower() == OLDEST:
            return Begin(OLDEST, silent)
        try:
            return Begin(datetime.fromisoformat(given), silent)
        except ValueError:
            raise InvalidQueryError(f"{name} is {given!r}; {_HOW}") from None
    if isinstance(given, (tuple, list)):
        whole = [part for part in given if isinstance(part, int) and not isinstance(part, bool)]
        if len(given) != 2 or len(whole) != 2 or min(whole) < 0:
            raise InvalidQueryError(f"{name} is {given!r}; {_HOW}")
        return Begin((int(given[0]), int(given[1])), silent)
    number = given.item() if isinstance(given, (np.integer, np.floating)) else given
    known = isinstance(number, (int, float, date, np.datetime64)) and not isinstance(number, bool)
    if not known or number != number:
        raise InvalidQueryError(f"{name} is {given!r}; {_HOW}")
    return Begin(number, silent)


def _is_day(time: date | np.datetime64) -> bool:
    return isinstance(time, date) and not isinstance(time, datetime)


def _iso(time: date | np.datetime64) -> str:
    return str(time) if isinstance(time, np.datetime64) else time.isoformat()
