"""SQL statements, ways to change them, and what is done with them."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import everquery as eq
from everquery.errors import EverqueryError
from tests.attack.untouched import Untouched

STREAM = eq.Stream(
    "trades", key="symbol", time="ts", attributes=["price", "volume"], weight="shares"
)
QUOTES = eq.Stream("quotes", key="symbol", time="ts", attributes=["bid"])
_JOIN = (
    "CREATE STANDING QUERY j AS SELECT {what} FROM trades AS t, quotes AS q WHERE t.symbol ="
    " q.symbol AND t.price > q.bid + 1 {group} BEGIN {begin} END NOW {emit}"
)
JOINS = tuple(
    _JOIN.format(what=what, group=group, begin=begin, emit=emit)
    for what, group, begin, emit in (
        ("t.price, q.bid", "", "NOW - INTERVAL '1' MINUTE", "EMIT MATCHES"),
        ("*", "", "NOW - 10 ROWS", "EMIT CHANGES"),
        ("q.symbol, VAR_POP(q.bid)", "GROUP BY q.symbol", "NOW - 10 ROWS", "EMIT CHANGES"),
        ("COUNT(DISTINCT t.price) AS n", "", "NOW - 5 ROWS", "EMIT CHANGES WITH (owner = 'ann')"),
    )
)
PARAMETERS = {
    "phi": 0.5, "epsilon": 0.01, "symbol": "IBM", "low": 1, "high": 2.5, "owner": "ann",
}  # fmt: skip
_PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


@dataclass(frozen=True)
class Statement:
    """A statement, perhaps a changed one, and the values of its parameters."""

    text: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Statements:
    all: tuple[Statement, ...]


def make_statements() -> Statements:
    """Return the statements of the documentation, and joins that tell."""
    texts = re.findall(r"```sql\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    found = [each.strip() for text in texts for each in text.split(";") if each.strip()]
    found += JOINS
    return Statements(
        tuple(
            Statement(text, {name: PARAMETERS[name] for name in re.findall(r":(\w+)", text)})
            for text in found
        )
    )


# -- changes ---------------------------------------------------------------------------------------

_TOKENS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|\s+|.", re.DOTALL)
_WORDS = (
    "CREATE", "STANDING", "QUERY", "SELECT", "FROM", "WHERE", "AND", "OR", "NOT", "EMIT", "ENTER",
    "WITH", "(", ")", ",", ";", "=", "<", ">=", "<>", "*", ":", ":low", "''", "'", '"', "\\", "--",
    "/*", "*/", "/* /* */", "NULL", "TRUE", "IS", "BETWEEN", "INTERVAL", "'5' SECOND", "MINUTE",
    "INFINITY", "-INFINITY", "UNBOUNDED", "NaN", "0", "-1", "1e400", "1e-400", "9" * 400, "0.1",
    "9223372036854775808", "1" * 5_000, "1e999999999", "." , "1.", ".5", "\0", "\ud800", "🎈", "é",
    "\u2028", "(" * 70, ")" * 70, "(" * 5_000, "NOT " * 5_000, "a" * 3_000, "symbol", "price",
    "volume", "trades", "ts", "shares", "QUANTILE", "GROUP BY", "OVER LAST", "ROWS", "LIKE",
    "'%_%'", "'" + "%" * 200 + "a'", "labels", "owner", "ttl", "dwell", "throttle", "silent",
    "\u0663", "\uff11", "\x1a", "\r", "ALTER OWNER", "SET QUOTA", "SHOW QUOTAS", "EXPLAIN", "DROP",
    "VAR_POP(", "COUNT(DISTINCT ", "EMIT MATCHES", "EMIT CHANGES", "BEGIN NOW - 3 ROWS END NOW",
    "quotes", "t.symbol", "q.bid", "HAVING VAR_POP(price) > 1", "BEGIN OLDEST",
)  # fmt: skip
_VALUES = (
    None, True, False, 0, -1, 2**63, 10**400, 1.5, math.nan, math.inf, -math.inf, "", "x", "\ud800",
    "\0", b"x", [], {}, (1, 2), Decimal("1.5"), Decimal("NaN"), Decimal("1e400"), timedelta(1),
    timedelta(-1), timedelta.max, date(2024, 1, 1), datetime(2024, 1, 1), np.float64(2),
    np.int64(3), np.array([1]), object(), "x" * 5_000, 1j,
)  # fmt: skip


def change(statements: Statements, chance: random.Random) -> Statements:
    """Return one or two of the statements with a few changes."""
    chosen = [chance.choice(statements.all) for _ in range(chance.choice((1, 1, 1, 2)))]
    text = ";\n".join(each.text for each in chosen)
    parameters = {name: value for each in chosen for name, value in each.parameters.items()}
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        text = chance.choice(_WAYS)(text, chance)
    if parameters and chance.random() < 0.5:
        parameters[chance.choice(list(parameters))] = chance.choice(_VALUES)
    if chance.random() < 0.1:
        parameters["other"] = 1
    return Statements((Statement(text, parameters),))


def _on_tokens(text: str, chance: random.Random, what: str) -> str:
    tokens = _TOKENS.findall(text) or [""]
    at, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
    if what == "delete":
        del tokens[at]
    elif what == "double":
        tokens.insert(at, tokens[at] + " ")
    elif what == "swap":
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif what == "insert":
        tokens.insert(at, f" {chance.choice(_WORDS)} ")
    else:
        tokens[at] = chance.choice(_WORDS)
    return "".join(tokens)


def _cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text) + 1)]


def _letter(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    letter = chance.choice((chr(chance.randrange(32, 127)), chr(chance.randrange(0x11000))))
    return text[:at] + letter + text[at + chance.randrange(2) :]


def _many(text: str, chance: random.Random) -> str:
    """Let a condition go on for long."""
    more = " AND price < 50" * chance.choice((10, 5_000, 60_000))
    return re.sub(r"WHERE .*? EMIT", f"WHERE price > 1{more} EMIT", text, count=1, flags=re.DOTALL)


_WAYS = (
    *(
        lambda text, chance, what=what: _on_tokens(text, chance, what)
        for what in ("delete", "double", "swap", "insert", "replace", "replace")
    ),
    _cut,
    _letter,
    _letter,
    *(lambda text, chance: _many(text, chance) if chance.random() < 0.1 else text,),
)


# -- what is done with it --------------------------------------------------------------------------


def judge(statements: Statements) -> str:
    """Run statements; anything but an error of ours is raised."""
    words = {_judge_one(statement) for statement in statements.all}
    return words.pop() if len(words) == 1 else "several"


def _judge_one(statement: Statement) -> str:
    joins = "quotes" in statement.text
    engines = _several if joins else _engines
    engine = engines.take()
    try:
        engine.sql(statement.text, statement.parameters)
        word = "run"
    except EverqueryError:
        word = "refused"
    if word == "run" or not engines.is_as_it_was(engine):
        _use_several(engine) if joins else _use(engine)
    return word


def _with_queries() -> eq.Engine:
    engine = eq.Engine(STREAM)
    engine.register([eq.Border("ibm_band", {"price": (1, 5)}), eq.Range("ann: 40-50", {})])
    engine.register(eq.Range("keys are texts", {}, key="IBM"))
    return engine


def _of_several() -> eq.Engine:
    engine = eq.Engine([STREAM, QUOTES])
    engine.register(eq.Border("ibm_band", {"price": (1, 5)}), stream="trades")
    engine.register(eq.Range("bids", {}), stream="quotes")
    return engine


_engines, _several = Untouched(_with_queries), Untouched(_of_several)


def _use_several(engine: eq.Engine) -> None:
    """Joins that are registered now tell, and are read, like others."""
    engine.queries().validate(full=True)
    for seconds in (1, 2):
        for stream, column in (("trades", "price"), ("quotes", "bid")):
            ts = pa.array([seconds * 10**6, seconds * 10**6 + 5], pa.timestamp("us"))
            batch = pa.table({"symbol": ["IBM", "HP"], "ts": ts, column: [7.0, 3.0]})
            try:
                notices = engine.process(batch, stream=stream)
                notices.validate(full=True)
            except EverqueryError as error:
                if "Deregister it" not in str(error):  # a span that times can't tell
                    raise
    twin = eq.Engine([STREAM, QUOTES])
    twin.restore(engine.snapshot())
    assert twin.queries().equals(engine.queries())


def _use(engine: eq.Engine) -> None:
    """Whatever is registered now must be a query like others."""
    engine.queries().validate(full=True)
    try:
        notices = engine.process(
            pa.table(
                {
                    "symbol": ["IBM", "IBM", "AAPL"],
                    "ts": pa.array([10**6, 2 * 10**6, 10**9], pa.timestamp("us")),
                    "price": [2.0, 45.0, 2.0],
                    "volume": [1.0, 100.0, 3.0],
                    "shares": [1, 10**6, 3],
                }
            )
        )
        notices.validate(full=True)
    except EverqueryError as error:
        if "Deregister it" not in str(error):  # a span that times can't tell
            raise
    _twin.restore(engine.snapshot())
    assert _twin.queries().equals(engine.queries())


_twin = eq.Engine(STREAM)
