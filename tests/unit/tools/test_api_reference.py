"""The page of the Python API has everything public, as the docstrings say it."""

import dataclasses
import inspect
import re

import pytest
from tools import api_reference
from tools.api_reference import GIVEN, HIDDEN, PAGE, members, published, written
from tools.docstrings import names_in

import everquery
import everquery.errors
import everquery.spark
import everquery.testing

PUBLIC = published()
CLASSES = [each for each in PUBLIC if inspect.isclass(each.thing)]


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def headings(page):
    return re.findall(r"^#{3,4} (\S+)$", page, re.MULTILINE)


def is_ours(thing):
    return thing.__module__.split(".")[0] == "everquery"


def test_the_page_is_what_the_docstrings_say(page):
    assert page == written(page), "run python -m tools.api_reference, or make docs-reference"


def test_every_public_name_has_a_heading(headings):
    wanted = {
        *(f"eq.{name}" for name in everquery.__all__),
        *(f"everquery.spark.{name}" for name in everquery.spark.__all__),
        *(f"everquery.testing.{name}" for name in everquery.testing.__all__),
    }
    assert wanted <= set(headings)
    errors = {name for name, thing in vars(everquery.errors).items() if inspect.isclass(thing)}
    assert errors <= {heading.rpartition(".")[2] for heading in headings}
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize("public", CLASSES, ids=lambda public: public.name)
def test_every_public_method_and_property_is_there(public, headings, page):
    for name in dir(public.thing):
        found = inspect.getattr_static(public.thing, name)
        home = next(base for base in public.thing.__mro__ if name in vars(base))
        function = getattr(found, "fget", None) or getattr(found, "__func__", found)
        if name.startswith("_") or not inspect.isfunction(function) or not is_ours(home):
            continue
        assert inspect.getdoc(function), f"{public.name}.{name} has no docstring"
        if f"{public.bare}.{name}" not in headings:  # then that of a base class on the page
            entry = page.partition(f"### {public.name}\n")[2].partition("\n### ")[0]
            assert f"`{name}`" in entry
            assert f"{home.__name__}.{name}" in headings


@pytest.mark.parametrize("public", CLASSES, ids=lambda public: public.name)
def test_what_a_class_is_made_with_is_described(public):
    if public.group == "Errors" or public.name in GIVEN:
        return
    described = set()
    for base in public.thing.__mro__:
        if is_ours(base):
            described |= names_in(base.__doc__, "Parameters", "Attributes")
    parameters = inspect.signature(public.thing).parameters
    missing = {name for name in parameters if not name.startswith("_")} - described - {*HIDDEN}
    assert not missing


def test_a_public_thing_without_docstring_is_refused(monkeypatch):
    @dataclasses.dataclass
    class Bare:
        x: int

    Bare.__module__ = "everquery.stream"
    monkeypatch.setattr(everquery, "Bare", Bare, raising=False)
    monkeypatch.setattr(everquery, "__all__", [*everquery.__all__, "Bare"])
    with pytest.raises(LookupError, match=r"eq\.Bare is public and has no docstring"):
        api_reference.reference()


def test_a_public_thing_from_elsewhere_is_refused(monkeypatch):
    monkeypatch.setattr(everquery, "escape", re.escape, raising=False)
    monkeypatch.setattr(everquery, "__all__", [*everquery.__all__, "escape"])
    with pytest.raises(LookupError, match="escape comes from re, which is in no group"):
        api_reference.published()


def test_members_are_those_of_our_own_base_classes():
    names = {member.name for member in members(everquery.Engine)}
    assert {"process", "refresh", "queries", "stream"} <= names
    assert {member.name for member in members(everquery.Box)} == {"contains"}


def test_links_lead_to_headings(page):
    anchors = {
        re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    }
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links
    assert links <= anchors
