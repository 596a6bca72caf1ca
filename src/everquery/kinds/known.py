"""The kinds of query that there are: one line each."""

from __future__ import annotations

from everquery.kinds.border.kind import KIND as BORDER
from everquery.kinds.correlated.kind import KIND as CORRELATED
from everquery.kinds.kind import Kind
from everquery.kinds.limits import check_limits
from everquery.kinds.quantile.kind import KIND as QUANTILE
from everquery.kinds.range.kind import KIND as RANGE
from everquery.kinds.select.kind import KIND as SELECT
from everquery.kinds.silence.kind import KIND as SILENCE
from everquery.kinds.threshold.kind import KIND as THRESHOLD
from everquery.kinds.window.kind import KIND as WINDOW
from everquery.queries.known import know

KINDS: dict[str, Kind] = {}
USUAL = BORDER.name  # what is meant where a person does not say which kind


def register(kind: Kind) -> Kind:
    """Let everything know a kind of query, and return it; a second time changes nothing.

    Raises
    ------
    InvalidQueryError
        If it does not go together with the kinds that there are.
    """
    check_limits(kind)
    know(kind.spec, kind.clause)
    return KINDS.setdefault(kind.name, kind)


register(RANGE)
register(BORDER)
register(THRESHOLD)
register(QUANTILE)
register(SILENCE)
register(CORRELATED)
register(WINDOW)
register(SELECT)
