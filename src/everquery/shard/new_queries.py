"""What single queries must be to be registered, beyond what their specs check."""

from __future__ import annotations

import pyarrow as pa

from everquery.errors import DuplicateQueryError, InvalidQueryError
from everquery.queries import Query
from everquery.queries.spans import column_of_spans, misfit


def check_spans(query: Query, kind: pa.DataType) -> None:
    """Raise if a query's spans can't be told in times of this type."""
    for name in query.spans:
        span = getattr(query, name)
        if span is None:
            continue
        column = column_of_spans([span])
        if column is not None and column.in_units(kind)[1][0]:
            raise InvalidQueryError(f"query {query.id!r}: {misfit(name, span, kind)}")


def already_live(query_id: str) -> DuplicateQueryError:
    """Return the error for an id that is taken."""
    return DuplicateQueryError(
        f"a query with the id {query_id!r} is live already; deregister it first,"
        " or choose another id"
    )
