"""Select queries: columns or aggregates over past and future events, read on demand."""

from everquery.kinds.answer import Question
from everquery.kinds.kind import Kind, Listed
from everquery.kinds.select.answers import invoke, keep, needs, shown_select, streams
from everquery.kinds.select.index import SelectIndex
from everquery.kinds.select.sample import crowd, sample
from everquery.kinds.select.spec import Select
from everquery.kinds.select.sql import SelectClause
from everquery.kinds.select.telling_joins import (
    begin_call,
    fresh_events,
    joins_that_tell,
    tell_joins,
)

KIND = Kind(
    package="everquery.kinds.select",
    spec=Select,
    index=SelectIndex,
    clause=SelectClause(),
    colours={"match": "cyan", "insert": "green", "delete": "red", "update": "bold blue"},
    sample=sample,
    crowd=crowd,
    questions={
        "invoke": Question(invoke, "are read on demand"),
        "ask_streams": Question(streams, "are read on demand"),
        "needs_of_others": Question(needs, "are read on demand", of_query=False),
        "begin_call": Question(begin_call, "are read on demand", of_query=False),
        "fresh_events": Question(fresh_events, "are read on demand", of_query=False),
        "joins_that_tell": Question(joins_that_tell, "are read on demand", of_query=False),
        "tell_joins": Question(tell_joins, "are read on demand", of_query=False),
        "keep_for_others": Question(keep, "are read on demand", of_query=False),
    },
    listed=Listed("select", shown_select),
)
