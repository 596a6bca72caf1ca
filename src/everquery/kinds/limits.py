"""What a kind must keep to, so that packed numbers and flags can hold it."""

from __future__ import annotations

from everquery.errors import InvalidQueryError
from everquery.index.flags import MOST_OPTIONS
from everquery.index.sort_keys import MOST_OUTCOMES
from everquery.kinds.kind import Kind


def check_limits(kind: Kind) -> None:
    """Raise if a kind has more options or outcomes than there are bits for.

    Raises
    ------
    InvalidQueryError
    """
    counted = {
        "options": (len(kind.spec.options), MOST_OPTIONS),
        "outcomes": (len(kind.index.outcomes), MOST_OUTCOMES),
    }
    for what, (number, most) in counted.items():
        if number > most:
            raise InvalidQueryError(
                f"a kind can have {most} {what}, and {kind.name!r} has {number}; say some of them"
                " by a number, or make two kinds of it"
            )
