"""Writes the reference of queries, docs/queries.md, anew: ``python tools/query_reference.py``."""

from __future__ import annotations

from pathlib import Path

from everquery.kinds import KINDS
from everquery.kinds.reference import reference

PAGE = Path(__file__).parents[1] / "docs" / "queries.md"
BEGIN = "<!-- what follows is written by tools/query_reference.py -->\n"


def written(page: str) -> str:
    """Return the page with the reference as the kinds declare it."""
    before, mark, _ = page.partition(BEGIN)
    own = [kind for kind in KINDS.values() if kind.package.startswith("everquery.")]
    return f"{before}{mark}\n{reference(own)}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
