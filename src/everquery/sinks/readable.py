"""Notices as other programs and people want them: no bytes, no dictionaries."""

from __future__ import annotations

import pyarrow as pa

from everquery.sinks.lines import hex_text


def readable(notices: pa.Table) -> pa.Table:
    """Return notices with ``notice_id`` as text, in hex, and without dictionaries.

    They then read well as a list of dicts, and go through what knows no bytes, such as JSON.

    Examples
    --------
    >>> import everquery as eq
    >>> engine = eq.Engine(eq.Stream("trades", key="symbol", attributes=["price"]))
    >>> engine.register(eq.Range("cheap", {"price": (0, 10)}))
    >>> notices = engine.process([{"symbol": "IBM", "price": 5}])
    >>> eq.readable(notices).select(["query_id", "key", "notice_id"]).to_pylist()
    [{'query_id': 'cheap', 'key': 'IBM', 'notice_id': '...'}]
    """
    columns = []
    for column in notices.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        elif pa.types.is_fixed_size_binary(column.type):
            column = pa.chunked_array([hex_text(chunk) for chunk in column.chunks], pa.string())
        columns.append(column)
    return pa.table(columns, notices.column_names)
