"""The streams of a query, as it is read or told now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everquery.core.times import nanoseconds_of
from everquery.errors import InvalidQueryError
from everquery.kinds.answer import Asked
from everquery.kinds.select.plan import Plan
from everquery.kinds.select.store import RowStore
from everquery.kinds.select.tables import Side
from everquery.kinds.select.windows import Moment

if TYPE_CHECKING:
    from everquery.kinds.select.index import SelectIndex


def latest(nows: Iterable[Any]) -> Any:  # noqa: ANN401 - a number
    """Return the latest of times that are known; None if none is."""
    return max((now for now in nows if now is not None), default=None)


def side_of(asked: Asked, plan: Plan | None = None) -> Side:
    """Return one stream as it is now, with the rows that a plan needs, as far as they are kept."""
    index = cast("SelectIndex", asked.index)
    if plan is not None:
        index.have_rows()
    store = index.store
    now = asked.now
    if store is not None and store.reach is not None and (now is None or store.reach > now):
        now = store.reach  # rows that the grace held back, and `flush` let out
    if isinstance(now, np.generic):
        now = now.item()
    timed = None if asked.stream.time is None else asked.time_type
    if store is None:
        store = RowStore(len(asked.stream.attributes))
    elif plan is not None:
        index.have_window(plan, Moment(store.end, now), timed, asked.stream.time)
        store = index.store or store
    return Side(asked.stream, store, asked.keys, timed, now if timed is not None else None)


def sides_of(asked: Sequence[Asked], plan: Plan) -> list[Side]:
    """Return the streams of a query as they are now.

    Raises
    ------
    InvalidQueryError
        If a window of time is over times that can't be compared.
    """
    sides = [side_of(each, plan) for each in asked]
    if len(sides) == 2 and not plan.by_rows:
        units = {nanoseconds_of(each.time_type) for each in sides if each.time_type is not None}
        if len(units) == 2:
            first, second = (f"{each.stream.name!r} of type {each.time_type}" for each in sides)
            raise InvalidQueryError(
                f"times of {first}, and those of {second}, have no unit in common, which a window"
                " of time needs; let it go by ROWS"
            )
    return sides
