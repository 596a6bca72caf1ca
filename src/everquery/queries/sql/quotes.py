"""Names and strings, as SQL writes them."""

from __future__ import annotations

import re

_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")

# Words that mean something where a name may stand.
RESERVED = {
    *("AND", "BETWEEN", "CREATE", "EMIT", "FALSE", "FROM", "IN", "INFINITY", "INTERVAL", "IS"),
    *("LIKE", "NOT", "NULL", "OR", "SELECT", "TRUE", "UNBOUNDED", "WHERE", "WITH", "XOR"),
    *("AS", "BEGIN", "DISTINCT", "END", "GROUP", "HAVING", "NOW", "OLDEST", "ROWS"),
}


def print_name(name: str) -> str:
    """Return a name that reads back equal, in quotes where it needs them."""
    if _PLAIN.fullmatch(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def print_string(value: str) -> str:
    """Return a string that reads back equal."""
    return "'" + value.replace("'", "''") + "'"
