"""What users write on the command line: ranges, spans of time, labels; and ranges as they read."""

from __future__ import annotations

import math
import re

import typer

from everquery.core.spans import BadSpanError, Span, read_span
from everquery.errors import InvalidQueryError
from everquery.queries import Interval
from everquery.queries.interval import Closed

_RANGE = re.compile(r"(?P<left>[\[(]?)(?P<lo>[^\[\]()]*?)\.\.(?P<hi>[^\[\]()]*)(?P<right>[\])]?)")
_CLOSED: dict[tuple[bool, bool], Closed] = {
    (True, True): "both",
    (True, False): "left",
    (False, True): "right",
    (False, False): "neither",
}


def parse_box(texts: list[str]) -> dict[str, Interval]:
    """Return the box of ``price=40..50`` and the like.

    Examples
    --------
    >>> {name: str(ends) for name, ends in parse_box(["price=(40..50]", "volume=100.."]).items()}
    {'price': '(40.0, 50.0]', 'volume': '[100.0, ∞)'}
    """
    box = {}
    for text in texts:
        name, equals, ends = text.rpartition("=")
        if not equals or not name:
            raise typer.BadParameter(
                f"{text!r} is no range; write price=40..50", param_hint="--box"
            )
        if name in box:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--box")
        box[name] = parse_range(ends, text)
    return box


def parse_range(ends: str, text: str, option: str = "--box") -> Interval:
    """Return the range of ``40..50``, ``[40..50]``, ``(40..``, ..."""
    found = _RANGE.fullmatch(ends.strip())
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is no range; write 40..50 (with 40, without 50), [40..50], (40..50),"
            " 40.. or ..50",
            param_hint=option,
        )
    closed = _CLOSED[found["left"] != "(", found["right"] == "]"]
    try:
        return Interval(_end(found["lo"], text, option), _end(found["hi"], text, option), closed)
    except InvalidQueryError as error:
        raise InvalidQueryError(f"{text}: {error}") from None


def _end(text: str, whole: str, option: str) -> float | None:
    text = text.strip()
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise typer.BadParameter(f"{text!r} in {whole!r} is not a number", param_hint=option)


def shown_range(low: float | None, high: float | None) -> str:
    """Return the half-open range ``[low, high)`` as its owner is likely to have written it.

    Examples
    --------
    >>> shown_range(40.0, 50.0), shown_range(40.0, 50.00000000000001), shown_range(None, 5.0)
    ('[40..50)', '[40..50]', '..5')
    """
    if low is None and high is None:
        return ".."
    left, lo = ("", "") if low is None else _simpler(low, "[", "(")
    right, hi = ("", "") if high is None else _simpler(high, ")", "]")
    if low is None and right == ")":
        right = ""
    if high is None and left == "[":
        left = ""
    return f"{left}{lo}..{hi}{right}"


def _simpler(end: float, here: str, below: str) -> tuple[str, str]:
    """Return the end itself, or the float below it, whichever is shorter to write."""
    before = math.nextafter(end, -math.inf)
    if math.isfinite(before) and len(_text(before)) < len(_text(end)):
        return below, _text(before)
    return here, _text(end)


def _text(number: float) -> str:
    return repr(number).removesuffix(".0")


def parse_span(text: str | None, option: str) -> Span | None:
    """Return the span of ``5s`` or ``1h30m``; a bare number is in the unit of the time column.

    Examples
    --------
    >>> parse_span("5s", "--grace"), parse_span("20", "--grace")
    (datetime.timedelta(seconds=5), 20)
    """
    if text is None:
        return None
    try:
        return read_span(text, zero=True)
    except BadSpanError as error:
        raise typer.BadParameter(f"{text!r} is no span: {error}", param_hint=option) from None


def parse_labels(texts: list[str]) -> dict[str, str]:
    """Return the labels of ``team=fx`` and the like."""
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise typer.BadParameter(f"{text!r} is no label; write team=fx", param_hint="--label")
        labels[name] = value
    return labels
