"""The declarations of fields, and what follows from them."""

import dataclasses
import re
from pathlib import Path
from typing import ClassVar

import pytest
from tools.query_reference import PAGE, written

import everquery as eq
from everquery.kinds import KINDS
from everquery.kinds.reference import described, is_required, table_columns
from everquery.queries.fields import (
    FlagField,
    PartsField,
    RangeField,
    SpanField,
    TextField,
    declared,
    declared_fields,
)
from everquery.queries.known import KNOWN, know
from everquery.queries.numbers import Limit, NumberField
from everquery.queries.spec import Query
from everquery.queries.sql.options import options_of
from everquery.queries.table_columns import known_columns
from everquery.spark import watch

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
every_kind = pytest.mark.parametrize("kind", list(KINDS.values()), ids=list(KINDS))


@every_kind
def test_each_field_of_a_spec_is_declared_once(kind):
    own = {field.name for field in dataclasses.fields(kind.spec) if field.init}
    own -= {"id", "box", "part_of"}  # the last is said by the composite, not by a user
    names = [field.name for field in declared_fields(kind.spec)]
    assert sorted(names) == sorted(own)
    assert set(names) - {field.name for field in kind.spec.fields} == {
        field.name for field in declared_fields(Query)
    }


@every_kind
def test_each_field_says_what_it_means_and_takes(kind):
    for field in declared_fields(kind.spec):
        assert field.meaning.endswith(".")
        assert field.takes
        needs_one = isinstance(field, (NumberField, SpanField)) and field.required
        needs_one |= isinstance(field, TextField)
        assert bool(field.example) == needs_one
        assert not needs_one or is_required(kind.spec, field)


def of_one_query(spec):
    """Return the names of fields that are not of composites alone."""
    names = set()
    for field in declared_fields(spec):
        if isinstance(field, RangeField):
            names.update(field.columns)
        elif not isinstance(field, PartsField):
            names.add(field.name)
    return names


@every_kind
def test_each_field_is_a_column_of_a_table(kind):
    columns = known_columns(kind.spec, STREAM)
    assert of_one_query(kind.spec) <= set(columns)


@every_kind
def test_sql_says_each_field_in_the_clause_or_with(kind):
    with_options = set(options_of(kind.spec))
    for field in kind.spec.fields:
        assert (field.name in with_options) != field.in_clause


@every_kind
def test_each_field_is_a_column_of_the_listing(kind):
    columns = eq.Engine(STREAM).queries().column_names
    assert of_one_query(kind.spec) <= set(columns)


def test_the_docs_agree_with_the_declarations():
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run tools/query_reference.py"


def test_docstrings_tell_the_columns_of_kinds():
    text = " ".join(eq.Engine.register_table.__doc__.split())
    for spec in (eq.Border, eq.Threshold, eq.Quantile, eq.Silence):
        assert f"Of {spec.kind} queries: " in text
        for name in of_one_query(spec) - of_one_query(Query):
            assert f"``{name}``" in text
    assert not re.search(r"{(?!\"raise\", )", text)


def test_the_docstring_of_watch_tells_what_kinds_tell():
    text = " ".join(watch.__doc__.split())
    for name in ("range", "border", "threshold", "quantile", "silence"):
        index = KINDS[name].index
        for outcome in index.outcomes:
            assert f"``{outcome.event}``" in text
        for column in index.columns:
            assert f"``{column.name}`` ({column.meaning})" in text


def test_docstrings_keep_their_indent():
    @described
    def function():
        """Do something.

        {columns}
        """

    lines = function.__doc__.splitlines()
    assert all(line.startswith("        ") for line in lines[2:-1])
    assert " ".join(" ".join(lines[2:]).split()) == table_columns()


TIMES = NumberField("times", whole=True, limits=(Limit(lambda x: x < 1, "must be 1 or more"),))
LOUD = FlagField("loud", meaning="Shout.")
REST = SpanField("rest", meaning="Be quiet for this long.")


@dataclasses.dataclass(frozen=True)
class Bell(Query):
    """A kind for these tests."""

    times: int = dataclasses.field(kw_only=True, metadata=declared(TIMES))
    loud: bool = dataclasses.field(default=False, kw_only=True, metadata=declared(LOUD))
    rest: int | None = dataclasses.field(default=None, kw_only=True, metadata=declared(REST))

    kind: ClassVar[str] = "bell"


def test_a_spec_follows_from_its_declarations():
    assert Bell.numbers == (TIMES,)
    assert Bell.options == ("loud",)
    assert Bell.spans == ("ttl", "rest", "throttle")
    assert Bell.boxed
    bell = Bell("b", {"price": (1, 2)}, times=3, rest=5)
    assert (bell.times, bell.loud, bell.rest) == (3, False, 5)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"times": 0}, "query 'b': times is 0; it must be 1 or more"),
        ({"times": 1, "loud": 1}, "query 'b': loud is 1; it is true or false"),
        ({"times": 1, "rest": -1}, "query 'b': rest is -1"),
        ({"times": 1, "owner": ""}, "query 'b': owner is empty"),
    ],
)
def test_a_spec_checks_what_it_declares(fields, said):
    with pytest.raises(eq.InvalidQueryError) as caught:
        Bell("b", {}, **fields)
    assert str(caught.value).startswith(said)


def test_a_declaration_has_the_name_of_its_field():
    with pytest.raises(TypeError, match="'often' is declared with the name 'times'"):
        type("Wrong", (Query,), {"often": dataclasses.field(metadata=declared(TIMES))})


def test_a_kind_that_does_not_go_with_the_others_is_refused():
    clause = KNOWN["threshold"].clause
    with pytest.raises(eq.InvalidQueryError, match="in SQL, EACH means threshold queries already"):
        know(Bell, clause)
    for name, said in (
        ("border", "there is a kind 'border' already: Border"),
        ("other", "total is a field of threshold queries too, and of another type there"),
    ):
        total = NumberField("total", whole=False, limits=())
        body = {"kind": name, "total": dataclasses.field(kw_only=True, metadata=declared(total))}
        spec = type("Other", (Query,), body)
        fresh = type("Fresh", (type(clause),), {"words": ("FRESH",)})()
        with pytest.raises(eq.InvalidQueryError, match=said):
            know(spec, fresh)
    assert list(KNOWN) == list(KINDS)


def test_pages_link_to_the_reference():
    docs = Path(PAGE).parent
    assert "queries.md" in (docs / "cli.md").read_text(encoding="utf-8")
