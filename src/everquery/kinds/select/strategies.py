"""Select queries of all sorts."""

from __future__ import annotations

from hypothesis import strategies as st

from everquery.kinds.drawing import boxes, keys, spans
from everquery.kinds.select.spec import Select
from everquery.queries.sql.quotes import print_name
from everquery.stream import Stream


@st.composite
def queries(draw: st.DrawFn, query_id: str, stream: Stream) -> Select:
    """Return select queries that fit a stream, and tell what they match or nothing."""
    where = ""
    if stream.attributes and draw(st.sampled_from([False, True])):
        names = st.sampled_from([print_name(name) for name in stream.attributes])
        operator = draw(st.sampled_from(["=", "<", "<=", ">", ">="]))
        offset = draw(st.sampled_from(["", " + 1", " - 0.5"]))
        where = f" WHERE {draw(names)} {operator} {draw(names)}{offset}"
    begin = draw(st.sampled_from(["OLDEST", "NOW - 3 ROWS", "NOW - 100 ROWS"]))
    plan = f"SELECT *{where} BEGIN {begin} END NOW"
    tell = draw(st.sampled_from(["matches", "nothing"]))
    rules = spans(Select, stream)
    if tell == "nothing":
        rules.pop("throttle", None)
    given = {name: draw(rule) for name, rule in rules.items()}
    box, key = draw(boxes(stream)), draw(keys(stream))
    return Select(query_id, plan, box=box, key=key, tell=tell, **given)
