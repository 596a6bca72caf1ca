"""Networks as YAML: read, and written so that they are read back equal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from everquery.errors import EverqueryError, InvalidNetworkError
from everquery.network.boxes.known import KINDS
from everquery.network.spec import Box

if TYPE_CHECKING:
    from everquery.network.model import Network

SECTIONS = ("network", "streams", "groups", "points", "boxes", "outputs")
_BOOL = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
    """YAML in which ``on``, ``off``, ``yes`` and ``no`` are texts, and no name is there twice."""


class _Dumper(yaml.SafeDumper):
    """Writes lists in one line, and texts that would be read as something else in quotes."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _without_words(kind: Any) -> None:  # noqa: ANN401 - a loader or dumper of PyYAML
    kind.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != _BOOL]
        for first, found in kind.yaml_implicit_resolvers.items()
    }
    kind.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|false|False)$"), list("tTfF"))


_without_words(_Loader)
_without_words(_Dumper)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in found:
            line = key_node.start_mark.line + 1
            raise InvalidNetworkError(f"line {line}: {key!r} is there twice; each name is its own")
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read(source: str | Path) -> dict[str, Any]:
    """Return the parts of a network, as `Network` takes them, from a file's name or from text."""
    form, where = read_form(source)
    if "network" not in form:
        raise InvalidNetworkError(f"{where} is no network; it begins with `network: name`")
    check_sections(form, SECTIONS, f"{where} has", "a network has")
    parts = {name: section(form, name) for name in SECTIONS if name != "network"}
    boxes: dict[str, Box] = {}
    outer = {*parts["streams"], *parts["points"]}
    _read_boxes(parts["boxes"], parts["groups"], "", outer, boxes)
    return {
        "name": form["network"],
        "streams": parts["streams"],
        "boxes": boxes,
        "outputs": parts["outputs"],
        "points": parts["points"],
    }


def read_form(source: str | Path) -> tuple[dict[str, Any], str]:
    """Return what YAML says, from a file's name or from text, and how to call it in errors."""
    text, where = _text(source)
    try:
        form = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise InvalidNetworkError(f"{where} is no YAML: {error}") from None
    if not isinstance(form, Mapping):
        raise InvalidNetworkError(f"{where} is no network; it begins with `network: name`")
    return dict(form), where


def read_addition(source: str | Path) -> dict[str, dict[str, Any]]:
    """Return the forms of further boxes and outputs for a network, which could be read."""
    form, where = read_form(source)
    check_sections(form, ("boxes", "outputs"), f"{where} has", "what is attached has")
    found = {name: section(form, name) for name in ("boxes", "outputs")}
    if not found["boxes"]:
        raise InvalidNetworkError(f"{where} has no boxes to attach")
    for name, box in found["boxes"].items():
        read_box(name, box)
    return found


def check_sections(form: Mapping[str, Any], known: Sequence[str], has: str, may: str) -> None:
    """Raise if a form has a section that nobody reads."""
    unknown = [key for key in form if key not in known]
    if unknown:
        raise InvalidNetworkError(f"{has} {unknown[0]!r}, and {may} {', '.join(known)}")


def text_of(form: Mapping[str, Any]) -> str:
    """Return a form as YAML."""
    return yaml.dump(
        form,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=100,
        allow_unicode=True,
    )


def _text(source: str | Path) -> tuple[str, str]:
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return source, "the text"
    if not isinstance(source, (str, Path)):
        raise InvalidNetworkError(f"{source!r:.80} is no network; give the name of a file, or text")
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeError) as error:
        raise InvalidNetworkError(f"{path} can't be read: {error}") from None


def section(form: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a section by its name: forms by their names."""
    found = form.get(name)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise InvalidNetworkError(f"`{name}` is {found!r:.80}; it has a form behind each name")
    bad = [key for key in found if not isinstance(key, str)]
    if bad:
        raise InvalidNetworkError(f"`{name}` has {bad[0]!r} as a name; put it in quotes")
    return dict(found)


def _read_boxes(
    forms: Mapping[str, Any],
    groups: Mapping[str, Any],
    prefix: str,
    outer: set[str],
    found: dict[str, Box],
) -> None:
    """Read the boxes of a group and of the groups in it; names inside win over names outside."""
    inner = {*forms, *(f"{group}.{name}" for group in groups for name in _names(groups[group]))}
    for name, form in forms.items():
        box = read_box(f"{prefix}{name}", form)
        sources = [
            f"{prefix}{one}" if one in inner else _resolved(one, prefix, outer)
            for one in box.sources
        ]
        found[f"{prefix}{name}"] = box.reading(*sources)
    for group, form in groups.items():
        if not isinstance(form, Mapping) or not set(form) <= {"boxes", "groups"}:
            raise InvalidNetworkError(
                f"group {prefix}{group!r} is {form!r:.80}; it has boxes and groups"
            )
        further = {*outer, *(f"{prefix}{one}" for one in inner)}
        _read_boxes(
            section(form, "boxes"), section(form, "groups"), f"{prefix}{group}.", further, found
        )


def _names(group: Any) -> list[str]:  # noqa: ANN401 - whatever a file has
    if not isinstance(group, Mapping):
        return []
    inside = section(group, "groups")
    return [
        *section(group, "boxes"),
        *(f"{name}.{own}" for name, form in inside.items() for own in _names(form)),
    ]


def _resolved(name: str, prefix: str, outer: set[str]) -> str:
    """Return the full name that a name within a group stands for: the innermost there is."""
    path = prefix.split(".")[:-1]
    while path:
        path = path[:-1]
        full = ".".join((*path, name))
        if full in outer:
            return full
    return name


def read_box(name: str, form: Any) -> Box:  # noqa: ANN401 - whatever a file has
    """Return a box from its form; one that is made already is returned as it is."""
    if isinstance(form, Box):
        return form
    if not isinstance(form, Mapping) or "box" not in form:
        raise InvalidNetworkError(f"box {name!r} is {form!r:.80}; write {{box: filter, from: ...}}")
    kind = KINDS.get(form["box"]) if isinstance(form["box"], str) else None
    if kind is None:
        raise InvalidNetworkError(
            f"box {name!r}: there is no box {form['box']!r}; there are {', '.join(KINDS)}"
        )
    try:
        return kind.read({key: value for key, value in form.items() if key != "box"})
    except (EverqueryError, TypeError) as error:
        raise InvalidNetworkError(f"box {name!r}: {error}") from error


def write(network: Network) -> str:
    """Return a network as YAML."""
    form: dict[str, Any] = {"network": network.name}
    form["streams"] = {name: one.form() for name, one in network.streams.items()}
    if network.points:
        form["points"] = {name: one.form() for name, one in network.points.items()}
    boxes: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for name, box in network.boxes.items():
        try:
            _placed(name, boxes, groups)[name.rsplit(".", 1)[-1]] = box.form()
        except EverqueryError as error:
            raise InvalidNetworkError(f"box {name!r}: {error}") from error
    if groups:
        form["groups"] = _without_empty(groups)
    form["boxes"] = boxes
    form["outputs"] = {name: one.form() for name, one in network.outputs.items()}
    return text_of(form)


def _placed(name: str, boxes: dict[str, Any], groups: dict[str, Any]) -> dict[str, Any]:
    """Return where the form of a box stands: among the boxes, or those of its innermost group."""
    for group in name.split(".")[:-1]:
        form = groups.setdefault(group, {"boxes": {}, "groups": {}})
        boxes, groups = form["boxes"], form["groups"]
    return boxes


def _without_empty(groups: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, form in groups.items():
        inner = _without_empty(form["groups"])
        found[name] = {**({"groups": inner} if inner else {}), "boxes": form["boxes"]}
    return found
