"""Print the ratios of two folders of results: ``python benchmarks/compare.py OLD_DIR NEW_DIR``.

A ratio is new over old. Figures, tables and asked numbers are matched by name; what only one folder
has is listed. It reads JSON only, so that it runs without the package.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Numbers = dict[str, float]


def numbers_of(content: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield each number of a result file with a name that stays the same from run to run."""
    for check in content["checks"]:
        yield f"asked: {check['what']}", check["measured"]
    for figure in content["figures"]:
        for panel in figure["panels"]:
            for name, line in panel["series"].items():
                for x, y in zip(figure["x"], line, strict=True):
                    if y is not None:
                        yield f"{figure['name']} {panel['title']}: {name} at {x:,g}", y
    for table in content["tables"]:
        for row in table["rows"]:
            label = ", ".join(cell for cell in row if isinstance(cell, str))
            for column, cell in zip(table["columns"], row, strict=True):
                if isinstance(cell, (int, float)) and column != "spread":
                    yield f"{table['name']}: {label}: {column}", cell


def read(folder: Path) -> dict[str, Numbers]:
    """Return the numbers of each subject in a folder."""
    files = sorted(folder.glob("*.json")) or sorted((folder / "results").glob("*.json"))
    if not files:
        raise SystemExit(f"{folder} has no result files")
    contents = (json.loads(path.read_text(encoding="utf-8")) for path in files)
    return {content["subject"]: dict(numbers_of(content)) for content in contents}


def compare(old: Numbers, new: Numbers, change: float) -> Iterator[str]:
    """Yield a line for each number that changed by more than a share, and for missing ones."""
    for name, was in old.items():
        now = new.get(name)
        if now is None:
            yield f"  {'':>8}  {name}: {was:,.4g}, and now gone"
        elif was == 0 or now == 0:
            if was != now:
                yield f"  {'':>8}  {name}: {was:,.4g} -> {now:,.4g}"
        elif abs(now / was - 1) > change:
            yield f"  {now / was:7.2f}x  {name}: {was:,.4g} -> {now:,.4g}"
    for name in new.keys() - old.keys():
        yield f"  {'':>8}  {name}: new, {new[name]:,.4g}"


def main() -> None:
    """Compare two folders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument(
        "--change", type=float, default=0.1, help="smallest change to show, as a share (0.1)"
    )
    asked = parser.parse_args()
    old, new = read(asked.old), read(asked.new)
    for subject in sorted(old.keys() | new.keys()):
        if subject not in old or subject not in new:
            print(f"{subject}: only in {asked.new if subject in new else asked.old}")
            continue
        lines = list(compare(old[subject], new[subject], asked.change))
        changed = f"{len(lines)} of {len(old[subject])} numbers"
        print(f"{subject}: {changed} changed by more than {asked.change:.0%}")
        print("\n".join(lines), end="\n" if lines else "")


if __name__ == "__main__":
    main()
