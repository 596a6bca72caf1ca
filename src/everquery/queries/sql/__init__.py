"""Statements in SQL: read with exact places of errors, and printed so that they read back equal."""

from everquery.queries.sql.errors import InvalidSqlError
from everquery.queries.sql.printer import print_query, print_stream
from everquery.queries.sql.reader import read_sql, read_statement
from everquery.queries.sql.statements import (
    AlterQuery,
    AlterStream,
    CreateQuery,
    CreateStream,
    DropQuery,
    DropStream,
    ExplainQuery,
    SetQuota,
    ShowQueries,
    ShowQuotas,
    ShowStreams,
    Statement,
)

__all__ = [
    "AlterQuery",
    "AlterStream",
    "CreateQuery",
    "CreateStream",
    "DropQuery",
    "DropStream",
    "ExplainQuery",
    "InvalidSqlError",
    "SetQuota",
    "ShowQueries",
    "ShowQuotas",
    "ShowStreams",
    "Statement",
    "print_query",
    "print_stream",
    "read_sql",
    "read_statement",
]
