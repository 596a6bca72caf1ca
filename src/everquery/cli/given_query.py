"""A query as the options of a command say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from everquery.cli.kind_options import check_fields, chosen_attribute, read_fields
from everquery.cli.values import parse_box, parse_labels
from everquery.queries import Query
from everquery.queries.fields import KeysField
from everquery.stream import Stream


def given_fields(
    spec: type[Query],
    fields: dict[str, Any],
    box: Sequence[str] | None,
    owner: str | None = None,
    label: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return what a query of a kind says, but for its keys."""
    given = read_fields(spec, fields)
    if box or spec.boxed:
        given["box"] = parse_box(list(box or []))
        check_fields(spec, given)
    return given | {"owner": owner, "labels": parse_labels(list(label or []))}


def given_query(
    spec: type[Query],
    query_id: str,
    given: dict[str, Any],
    stream: Stream,
    *,
    key: str | None,
    integer: bool,
) -> Query:
    """Return a query on a stream, whose keys are texts or integers."""
    if key is not None:
        given["key"] = _key(key, integer=integer)
    for field in spec.fields:
        if isinstance(field, KeysField) and field.name in given:
            given[field.name] = [_key(each, integer=integer) for each in given[field.name]]
    if spec.about_attribute:
        given["attribute"] = chosen_attribute(given.get("attribute"), stream)
    return spec(query_id, **given)


def given_time(text: str) -> int | float | str:
    """Return a time in the past: a number where it is one, else the text."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def _key(text: str, *, integer: bool) -> str | int:
    if not integer:
        return text
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not an integer, and the keys of this stream are", param_hint="--key"
        ) from None
