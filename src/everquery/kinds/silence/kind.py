"""Silence queries: keys that nothing has been heard from for a while."""

from everquery.kinds.kind import Kind, Listed
from everquery.kinds.silence.index import SilenceIndex
from everquery.kinds.silence.sample import sample
from everquery.kinds.silence.spec import Silence
from everquery.kinds.silence.sql import SilenceClause

KIND = Kind(
    package="everquery.kinds.silence",
    spec=Silence,
    index=SilenceIndex,
    clause=SilenceClause(),
    colours={"silent": "bold red", "back": "bold green"},
    sample=sample,
    listed=Listed("silent after", lambda record: record["after"]),
)
