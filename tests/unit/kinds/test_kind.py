"""Kinds as packages: what each of them brings, and how they travel."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.cli.sql import completions
from everquery.engine import joining
from everquery.kinds import KINDS, kind_in, register
from everquery.kinds.twin import Twin
from everquery.queries.block import check_fit
from everquery.sinks.lines import ansi, event_colours

STREAM = eq.Stream("s", key="k", time="t", attributes=["x", "y"], weight="w")
every_kind = pytest.mark.parametrize("kind", list(KINDS.values()), ids=list(KINDS))


@every_kind
def test_a_kind_travels_by_reference(kind):
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert kind_in(kind.package) is kind
    assert register(kind) is kind


def test_who_gets_a_kind_knows_it():
    code = "import sys, pickle; kind = pickle.load(sys.stdin.buffer); print(kind.name)"
    sent = pickle.dumps(KINDS["threshold"])
    told = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert told.stdout.decode().strip() == "threshold"


def test_nobody_needs_hypothesis_to_run():
    code = "import sys, everquery.cli.app, everquery.testing; print('hypothesis' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert told.stdout.decode().strip() == "False"


@every_kind
@pytest.mark.parametrize("stream", [STREAM, eq.Stream("s", attributes=["x"])], ids=["all", "bare"])
def test_samples_fit_and_have_other_ids_in_each_round(kind, stream):
    first, second = list(kind.sample(stream, 0)), list(kind.sample(stream, 1))
    for query in (*first, *second):
        assert isinstance(query, kind.spec)
        check_fit(query, stream)
    ids = [query.id for query in (*first, *second)]
    assert len(set(ids)) == len(ids)
    assert ids or (kind.spec.required_spans and stream.time is None)


@every_kind
def test_crowds_fit(kind):
    for query in kind.crowd(STREAM):
        check_fit(query, STREAM)


@every_kind
@given(data=st.data())
def test_a_kind_has_a_twin_and_strategies(kind, data):
    assert issubclass(kind.twin, Twin)
    assert isinstance(data.draw(kind.strategy("q", STREAM)), kind.spec)


@every_kind
def test_each_event_has_a_colour(kind):
    colours = event_colours()
    for outcome in kind.index.outcomes:
        assert ansi(colours[outcome.event]).startswith("\x1b[")
    assert set(kind.colours) == {outcome.event for outcome in kind.index.outcomes}


@pytest.mark.parametrize(
    ("begun", "word"),
    [("on", "ONCE"), ("ea", "EACH"), ("qua", "QUANTILE"), ("chan", "CHANGES"), ("dw", "DWELL")],
)
def test_words_of_kinds_are_completed(begun, word):
    assert word in completions(begun)


@every_kind
def test_questions_are_methods_of_an_engine(kind):
    between_streams = Path(joining.__file__).read_text()  # asked by an engine of several streams
    for name in kind.questions:
        is_method = callable(getattr(eq.Engine, name, None))
        assert is_method or f'"{name}"' in between_streams


def test_a_question_that_a_kind_does_not_answer():
    engine = eq.Engine(STREAM)
    engine.register(eq.Border("b", {}))
    with pytest.raises(eq.InvalidQueryError, match="border query; only threshold queries make"):
        engine.progress("b")
    with pytest.raises(eq.InvalidQueryError, match=r"border query; only quantile.* have ans"):
        engine.answer("b")
    with pytest.raises(eq.UnknownQueryError):
        engine.answer("c")
