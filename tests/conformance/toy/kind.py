"""All that there is to know of the kind."""

from everquery.kinds.answer import Question
from everquery.kinds.kind import Kind
from tests.conformance.toy.index import NthIndex
from tests.conformance.toy.questions import progress
from tests.conformance.toy.sample import sample
from tests.conformance.toy.spec import Nth
from tests.conformance.toy.sql import NthClause

KIND = Kind(
    package="tests.conformance.toy",
    spec=Nth,
    index=NthIndex,
    clause=NthClause(),
    colours={"tick": "magenta"},
    sample=sample,
    questions={"progress": Question(progress, "make progress")},
)
