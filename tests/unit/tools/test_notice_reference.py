"""The page of notices and dead letters says what there is."""

import pytest
from tools.notice_reference import PAGE, marks, own_kinds, written

import everquery as eq
from everquery.kinds import KINDS
from everquery.state.events import REASONS
from everquery.state.reasons import REFUSALS


def test_the_tables_are_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page, own_kinds()), "run python -m tools.notice_reference"


def test_each_reason_is_described_once():
    assert list(REFUSALS) == [reason for reason in REASONS if reason]
    for reason, refusal in REFUSALS.items():
        assert refusal.meaning.endswith("."), reason
        assert refusal.remedy.endswith("."), reason


def test_every_column_of_a_notice_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    stream = eq.Stream("s", key="k", time="t", attributes=["x"])
    for name in eq.Engine(stream, labels=True).flush().column_names:
        assert f"| `{name}` |" in page or name == "x"


def test_a_page_without_a_place_for_a_table_is_refused():
    page = PAGE.read_text(encoding="utf-8").replace(marks("events")[1], "")
    with pytest.raises(LookupError, match="no place for events"):
        written(page, KINDS)
