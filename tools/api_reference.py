"""Writes the reference of the Python API, docs/api.md, anew: ``python -m tools.api_reference``.

Everything public is on the page: what `everquery`, `everquery.network`, `everquery.spark` and
`everquery.testing` export, and all errors, each with its public methods and properties, in the
words of their docstrings.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_origin

from tools.docstrings import as_markdown

import everquery
import everquery.errors
import everquery.network
import everquery.spark
import everquery.testing
from everquery.kinds import KINDS
from everquery.network.runtime.run import Run

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
BEGIN = "<!-- what follows is written by tools/api_reference.py -->\n"
WIDTH = 100  # of a line of a signature

# The groups of the page. What `everquery` exports is put into them by the module it comes from.
GROUPS = {
    "Streams": ("everquery.stream",),
    "Queries": ("everquery.queries", "everquery.kinds"),
    "Engine": ("everquery.engine", "everquery.kinds.answer", "everquery.sinks"),
    "Registry": ("everquery.registry",),
    "Networks": ("everquery.network",),
    "Spark": (),
    "Errors": (),
    "Testing": (),
}
# What comes first in its group; all else follows by name.
FIRST = ("Query", *(kind.spec.__name__ for kind in KINDS.values()), "Engine", "open", "watch")
HIDDEN = ("part_of",)  # parameters that users do not give
GIVEN = (
    "eq.Callback",
    "eq.Notice",
    "everquery.network.Run",
    "everquery.spark.Watched",
)  # classes whose objects users are given, and do not make


@dataclass(frozen=True)
class Public:
    """Something that users may use.

    Attributes
    ----------
    name : str
        As a user writes it: ``eq.Engine``.
    thing : class or function
    group : str
    """

    name: str
    thing: Any
    group: str

    @property
    def bare(self) -> str:
        """The name without its module."""
        return self.name.rpartition(".")[2]

    @property
    def link(self) -> str:
        """A link to its heading."""
        return f"[`{self.bare}`](#{re.sub(r'[^a-z0-9_-]', '', self.name.lower())})"


@dataclass(frozen=True)
class Member:
    """A public method or property of a class, as it stands in the class that has it."""

    name: str
    raw: Any
    home: type

    @property
    def function(self) -> Any:  # noqa: ANN401 - any callable
        """The function behind it, which has the docstring."""
        return _function(self.raw)


def _function(raw: Any) -> Any:  # noqa: ANN401 - what a class has
    return raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)


def published() -> list[Public]:
    """Return everything public, in the order of the page."""
    found = [_of_everquery(name) for name in everquery.__all__]
    for module, group in (
        (everquery.network, "Networks"),
        (everquery.spark, "Spark"),
        (everquery.testing, "Testing"),
    ):
        found += [
            Public(f"{module.__name__}.{name}", getattr(module, name), group)
            for name in module.__all__
            if (module, name) != (everquery.network, "Network")
        ]
    found.append(Public("everquery.network.Run", Run, "Networks"))
    known = [each.thing for each in found]
    for name, error in vars(everquery.errors).items():
        if _is_error(error) and error not in known:
            found.append(Public(f"everquery.errors.{name}", error, "Errors"))
    order = list(GROUPS)
    return sorted(found, key=lambda each: (order.index(each.group), *_rank(each)))


def _is_error(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, everquery.EverqueryError)


def _of_everquery(name: str) -> Public:
    thing = getattr(everquery, name)
    if _is_error(thing):
        return Public(f"eq.{name}", thing, "Errors")
    fitting = [
        (len(module), group)
        for group, modules in GROUPS.items()
        for module in modules
        if f"{thing.__module__}.".startswith(f"{module}.")
    ]
    if not fitting:
        raise LookupError(f"{name} comes from {thing.__module__}, which is in no group of the page")
    return Public(f"eq.{name}", thing, max(fitting)[1])


def _rank(public: Public) -> tuple[int, str]:
    if public.group == "Errors":  # in the order of their tree
        names = list(vars(everquery.errors))
        return (names.index(public.bare) if public.bare in names else len(names), public.bare)
    return (FIRST.index(public.bare) if public.bare in FIRST else len(FIRST), public.bare)


def members(thing: type) -> list[Member]:
    """Return the public methods and properties of a class, also those of our own base classes."""
    found: dict[str, Member] = {}
    for home in thing.__mro__:
        if home.__module__.partition(".")[0] == "everquery":
            for name, raw in vars(home).items():
                callable_ = isinstance(raw, (types.FunctionType, classmethod, staticmethod))
                if not name.startswith("_") and (callable_ or isinstance(raw, property)):
                    found.setdefault(name, Member(name, raw, home))
    return list(found.values())


# -- the page ---------------------------------------------------------------------------------


def written(page: str) -> str:
    """Return the page with the reference as the docstrings have it."""
    before, mark, _ = page.partition(BEGIN)
    return f"{before}{mark}\n{reference()}"


def reference() -> str:
    """Return the reference of everything public as Markdown."""
    public = published()
    parts = []
    for group in GROUPS:
        links = [each.link for each in public if each.group == group]
        listed = ", ".join(links) if group != "Errors" else "one tree of them"
        parts.append(f"- [{group}](#{group.lower()}): {listed}")
    parts += ["", *_aliases(public)]
    for group in GROUPS:
        parts += ["", f"## {group}"]
        if group == "Errors":
            parts += ["", "```", _tree(), "```"]
        for each in public:
            if each.group == group:
                parts += ["", f"### {each.name}", "", *_entry(each, public)]
    return "\n".join(parts) + "\n"


def _tree() -> str:
    """Return the tree of errors as its module draws it."""
    drawn = (everquery.errors.__doc__ or "").partition("::\n")[2]
    return inspect.cleandoc(drawn).replace("``", "")


def _entry(each: Public, public: list[Public]) -> Iterator[str]:
    thing = each.thing
    if each.group != "Errors" and each.name not in GIVEN:
        yield from (_signature(each.name, thing), "")
    yield _docstring(thing, each.name)
    if not inspect.isclass(thing):
        return
    inherited: dict[type, list[str]] = {}
    own = []
    by_class = {other.thing: other for other in public if other is not each}
    for member in members(thing):
        if member.home in by_class:
            inherited.setdefault(member.home, []).append(member.name)
        else:
            own.append(member)
    for base, names in inherited.items():
        link = by_class[base].link
        if dataclasses.is_dataclass(thing):
            yield from ("", f"Its other parameters are those of {link}.")
        yield from ("", f"As {link}, it has {', '.join(f'`{name}`' for name in names)}.")
    for member in own:
        name = f"{each.bare}.{member.name}"
        yield from ("", f"#### {name}", "", _signature(name, member.raw), "")
        yield _docstring(member.function, name)


def _docstring(thing: Any, name: str) -> str:  # noqa: ANN401 - a class or a function
    said = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    if not said or said.startswith(f"{getattr(thing, '__name__', '')}("):  # a dataclass's own
        raise LookupError(f"{name} is public and has no docstring")
    return as_markdown(said)


# -- signatures -------------------------------------------------------------------------------


def _signature(name: str, thing: Any) -> str:  # noqa: ANN401 - whatever has one
    """Return how something is called, as code."""
    if isinstance(thing, property):
        text = f"{name}: {inspect.signature(_function(thing)).return_annotation}  # a property"
    else:
        found = inspect.signature(_function(thing))
        method = "." in name and not name.startswith(("eq.", "everquery."))
        bound = method and not isinstance(thing, staticmethod)
        given = list(_parameters(found, skip=1 if bound else 0))
        arrow = "" if inspect.isclass(thing) else f" -> {found.return_annotation}"
        text = f"{name}({', '.join(given)}){arrow}"
        if len(text) > WIDTH:
            text = "\n    ".join([f"{name}(", *(f"{each}," for each in given)]) + f"\n){arrow}"
    return f"```python\n{text}\n```"


def _parameters(signature: inspect.Signature, *, skip: int) -> Iterator[str]:
    """Yield parameters as they are declared; the types are texts, as they stand in the code."""
    starred = False
    for each in list(signature.parameters.values())[skip:]:
        if each.name.startswith("_") or each.name in HIDDEN:
            continue
        starred = starred or each.kind is each.VAR_POSITIONAL
        if each.kind is each.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(each.kind.name, "")
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        default = "" if each.default is each.empty else f" = {_shown(each.default)}"
        yield f"{stars}{each.name}{kind}{default}"


def _shown(default: object) -> str:
    return "..." if re.search(r"[<>]", repr(default)) else repr(default)


def _aliases(public: list[Public]) -> Iterator[str]:
    """Yield what the names of types in signatures stand for."""
    found: dict[str, str] = {}
    for thing in (each.thing for each in public):
        functions = [thing]
        if inspect.isclass(thing):
            functions += [member.function for member in members(thing)]
        for function in functions:
            for name, meant in _aliases_of(function):
                found.setdefault(name, meant)
    if found:
        yield "In signatures:"
        yield ""
        yield from (f"- `{name}` is `{meant}`" for name, meant in sorted(found.items()))


def _aliases_of(thing: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - class or function
    if _is_error(thing):
        return
    signature = inspect.signature(thing)
    annotations = [each.annotation for each in signature.parameters.values()]
    homes = thing.__mro__ if inspect.isclass(thing) else (thing,)
    for annotation in (*annotations, signature.return_annotation):
        for name in re.findall(r"\b[A-Z]\w+\b", str(annotation)):
            for home in homes:
                value = vars(sys.modules[home.__module__]).get(name)
                text = re.sub(r"\b(?:datetime|typing)\.", "", str(value))
                plain = not re.search(r"numpy|everquery", text)
                if plain and get_origin(value) in (types.UnionType, Literal):
                    yield name, text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
