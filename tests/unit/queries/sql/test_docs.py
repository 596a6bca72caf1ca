"""Every SQL block of docs/sql.md is read as it stands."""

import re
from pathlib import Path

import pytest

from everquery.errors import UnknownStreamError
from everquery.queries.known import KNOWN
from everquery.queries.sql import CreateStream, InvalidSqlError, read_sql

PAGE = (Path(__file__).parents[4] / "docs" / "sql.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
VALUES = {"symbol": "IBM", "low": 40, "high": 50.5, "owner": "ann", "phi": 1, "epsilon": 0.01}


def unknown(name):
    raise UnknownStreamError(name)


STREAMS = {
    statement.stream.name: statement.stream
    for block in BLOCKS[:2]
    for statement in read_sql(block, stream_of=unknown)
    if isinstance(statement, CreateStream)
}


def test_the_page_has_every_clause():
    for known in KNOWN.values():
        written = [f"EMIT {word}" for word in known.clause.words] or [f" {known.clause.mark} "]
        assert any(text in PAGE for text in written)


@pytest.mark.parametrize("block", BLOCKS)
def test_block(block):
    parameters = {name: value for name, value in VALUES.items() if f":{name}" in block}
    assert read_sql(block, parameters=parameters, stream_of=STREAMS.__getitem__)


def test_the_error_on_the_page():
    text = "CREATE STANDING QUERY q AS\nSELECT * FROM trades WHERE symbol = 'IBM' EMITT MATCHES"
    with pytest.raises(InvalidSqlError) as caught:
        read_sql(text, stream_of=STREAMS.__getitem__)
    assert str(caught.value) in PAGE
