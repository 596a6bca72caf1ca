"""What ``everquery query load --replace`` changes: shown before it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import typer

from everquery.cli.output import counted
from everquery.engine import Engine
from everquery.engine.results import Registered

SHOWN = 5

Replace = Annotated[
    bool,
    typer.Option(
        "--replace",
        help="Let rows replace live queries with their ids; what says the same goes on as it is.",
    ),
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="With --replace: drop the stream's live queries of the file's kind that are not in"
        " the file; with --owner, only that owner's.",
    ),
]
PruneOwner = Annotated[
    str | None,
    typer.Option("--owner", metavar="NAME", help="With --prune: whose queries may be dropped."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="With --replace: only show what would change."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="With --prune: drop queries, and do not ask.")
]


@dataclass(frozen=True, slots=True)
class Replacing:
    """How rows of a file replace queries.

    Attributes
    ----------
    prune : bool
        Whether queries end that the file lacks.
    owner : str or None
        Whose; everybody's, if it is None.
    dry_run, yes : bool
        Change nothing; do not ask.
    """

    prune: bool
    owner: str | None
    dry_run: bool
    yes: bool

    @classmethod
    def of(
        cls, *, replace: bool, prune: bool, owner: str | None, dry_run: bool, yes: bool
    ) -> Replacing | None:
        """Return what options ask for; None if nothing is to be replaced."""
        needs = [("--prune", prune), ("--dry-run", dry_run)]
        for option, given in needs:
            if given and not replace:
                raise typer.BadParameter("it needs --replace", param_hint=option)
        if owner is not None and not prune:
            raise typer.BadParameter("it needs --prune", param_hint="--owner")
        return cls(prune, owner, dry_run, yes) if replace else None

    def run(
        self,
        engine: Engine,
        table: pa.Table,
        *,
        kinds: Sequence[str],
        on_error: Literal["raise", "skip"],
        unread: pa.Array,
        show: Callable[[str], None],
    ) -> Registered:
        """Replace queries by the rows of a table, after it was shown what that changes.

        Parameters
        ----------
        kinds : the kinds of query that the table has; its column ``kind`` says it if they are many
        unread : ids of rows that could not be read; their queries stay
        show : function of a text
        """
        kind = kinds[0] if len(kinds) == 1 else None
        options: dict[str, Any] = {"kind": kind, "on_error": on_error, "on_conflict": "replace"}
        unwanted = self._unwanted(engine, table, kinds, unread) if self.prune else []
        planned = engine.register_table(table, unwanted=unwanted, dry_run=True, **options)
        show(summary(planned, unwanted))
        if self.dry_run:
            return planned
        if planned.dropped and not self.yes:
            self._ask(planned.dropped)
        return engine.register_table(table, unwanted=unwanted, **options)

    def _unwanted(
        self, engine: Engine, table: pa.Table, kinds: Sequence[str], unread: pa.Array
    ) -> list[str]:
        """Return the ids of live queries of the file's kinds that are not in the file."""
        engine.refresh()
        queries = engine.queries(owner=self.owner)
        of_kinds = pc.is_in(queries["kind"].cast(pa.string()), value_set=pa.array(kinds))
        live = queries["id"].filter(of_kinds).combine_chunks()
        there = pa.array([], pa.string())
        if "id" in table.column_names:
            there = table["id"].cast(pa.string()).combine_chunks()
        named = pa.concat_arrays([there, unread.cast(pa.string())])
        kept = pc.is_in(live, value_set=named.drop_null())
        found: list[str] = live.filter(pc.invert(kept)).to_pylist()
        return found

    @staticmethod
    def _ask(dropped: int) -> None:
        queries = counted(dropped, "query", "queries")
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"{queries} would be dropped, and nothing has changed; --yes drops them",
                param_hint="--prune",
            )
        typer.confirm(f"Go on, and drop {queries}?", abort=True)


def summary(planned: Registered, unwanted: list[str]) -> str:
    """Return how many queries come, change, stay and go, in one line."""
    said = (
        f"{planned.added:,} added, {planned.changed:,} changed, {planned.unchanged:,} unchanged,"
        f" {planned.dropped:,} dropped"
    )
    if not planned.dropped:
        return said
    more = ", ..." if len(unwanted) > SHOWN else ""
    return f"{said} ({', '.join(unwanted[:SHOWN])}{more})"
