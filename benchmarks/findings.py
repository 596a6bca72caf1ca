"""What a benchmark subject found: figures, tables and asked numbers, as plain data for JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Series = dict[str, list[float | None]]


@dataclass(frozen=True)
class Panel:
    """One y axis over the x axis of a figure; each series is a contestant."""

    title: str
    y_label: str
    series: Series
    log_y: bool = True


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, or of ours: some panels over one x axis.

    Attributes
    ----------
    name : str
        Also the name of the plot's file.
    paper : str
        What the paper saw.
    seen : str
        What this run shows, written from its numbers.
    x_names : list of str
        What the places along the x axis stand for, if they are no numbers: bars are drawn.
    """

    name: str
    title: str
    x_label: str
    x: list[float]
    panels: list[Panel]
    paper: str = ""
    seen: str = ""
    log_x: bool = True
    x_names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """Numbers that have no x axis; the first column names the row."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[str | float | None]]
    note: str = ""


@dataclass(frozen=True)
class Check:
    """A number that was asked for, and what was measured."""

    what: str
    asked: str
    measured: float
    unit: str
    met: bool


@dataclass
class Findings:
    """All that a subject found."""

    parameters: dict[str, Any]
    checks: list[Check] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def at_least(self, what: str, measured: float, limit: float, unit: str) -> None:
        """Note a number that should be `limit` or more."""
        asked = f"at least {limit:.3g} {unit}".strip()
        self.checks.append(Check(what, asked, significant(measured), unit, measured >= limit))

    def at_most(self, what: str, measured: float, limit: float, unit: str) -> None:
        """Note a number that should be `limit` or less."""
        asked = f"at most {limit:.3g} {unit}".strip()
        self.checks.append(Check(what, asked, significant(measured), unit, measured <= limit))


@dataclass(frozen=True)
class Record:
    """A result file: the findings of one subject, and where they come from."""

    subject: str
    provenance: dict[str, Any]
    findings: Findings

    def write(self, folder: Path) -> None:
        """Write ``<subject>.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {"subject": self.subject, **self.provenance, **asdict(self.findings)}
        text = json.dumps(_rounded(content), indent=1, ensure_ascii=False)
        (folder / f"{self.subject}.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a result file."""
        content = json.loads(path.read_text(encoding="utf-8"))
        findings = Findings(
            parameters=content.pop("parameters"),
            checks=[Check(**check) for check in content.pop("checks")],
            figures=[_figure(figure) for figure in content.pop("figures")],
            tables=[Table(**table) for table in content.pop("tables")],
        )
        return cls(content.pop("subject"), content, findings)


class Curves:
    """Collects the series of a panel, point by point."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.series: Series = {name: [] for name in names}

    def add(self, point: Mapping[str, float | None]) -> None:
        """Add one value a series; None for those that the point leaves out."""
        for name in self._names:
            self.series[name].append(point.get(name))


def significant(value: float, digits: int = 4) -> float:
    """Round to significant digits; more of them are noise."""
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def ratio_sentence(
    series: Series,
    x: Sequence[float],
    at: float,
    pair: tuple[str, str],
    say: Callable[[float], str],
) -> str:
    """Return what `say` makes of the first series over the second at one x."""
    place = list(x).index(at)
    over, under = series[pair[0]][place], series[pair[1]][place]
    if over is None or not under:
        return ""
    return say(over / under)


def _figure(content: dict[str, Any]) -> Figure:
    panels = [Panel(**panel) for panel in content.pop("panels")]
    return Figure(**content, panels=panels)


def _rounded(content: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(content, float):
        return significant(content)
    if isinstance(content, dict):
        return {name: _rounded(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_rounded(value) for value in content]
    return content
