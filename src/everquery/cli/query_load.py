"""``everquery query load``: a file of queries, all in one transaction."""

from __future__ import annotations

import difflib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from everquery.cli.kind_options import known_kind
from everquery.cli.options import (
    AsJson,
    IntegerKeys,
    RegistryUrl,
    StreamName,
    existing_engine,
    has_integer_keys,
)
from everquery.cli.output import counted, print_json
from everquery.cli.query_replace import DryRun, Prune, PruneOwner, Replace, Replacing, Yes
from everquery.errors import InvalidTableError, UnwritableFileError
from everquery.kinds import KINDS
from everquery.queries.known import known_specs
from everquery.queries.table_columns import known_columns, no_errors
from everquery.sources.query_files import QueryRows, read_queries
from everquery.stream import Stream

SHOWN = 3
NEAR = 0.75  # how alike names are, of which one may be a typo of the other


class OnError(StrEnum):
    """What bad rows do."""

    refuse = "refuse"
    skip = "skip"


def load(
    file: Annotated[Path, typer.Argument(help="A Parquet, CSV, or Arrow (Feather) file.")],
    registry: RegistryUrl,
    stream: StreamName = None,
    kind: Annotated[
        str | None,
        typer.Option(
            callback=known_kind,
            help=f"The queries' kind: {' or '.join(KINDS)}.",
            show_default="the column kind",
        ),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="With a bad row, refuse the file, or leave out the row.")
    ] = OnError.refuse,
    errors: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Where bad rows are listed with reasons.")
    ] = None,
    integer_keys: IntegerKeys = False,
    replace: Replace = False,
    prune: Prune = False,
    owner: PruneOwner = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Register the queries of a file: id, key, ATTRIBUTE_lo, ATTRIBUTE_hi, closed, owner, labels.

    All are registered in one transaction, or none is. With --replace, what is live already is
    replaced, and it is shown before how many queries that adds, changes, leaves alone and drops.
    """
    replacing = Replacing.of(replace=replace, prune=prune, owner=owner, dry_run=dry_run, yes=yes)
    _report(no_errors(), errors)  # if it can't be written, then before anything is registered
    console = Console(stderr=True)
    with _progress(console) as progress, existing_engine(registry, stream) as engine:
        task = progress.add_task("reading", total=None)
        rows = read_queries(
            file, progress=lambda done, total: progress.update(task, completed=done, total=total)
        )
        kinds, table = _kinds(rows.table, kind, file)
        table, ignored = _without_extras(table, engine.stream)
        if ignored:
            typer.echo(
                f"{file}: {_said_of(ignored)} ignored, as no query has such a field", err=True
            )
        if integer_keys or has_integer_keys(engine):
            table = _with_integer_keys(table)
        if rows.errors.num_rows and on_error is OnError.refuse:
            _report(rows.errors, errors)
            raise InvalidTableError(_refusal(rows.errors, rows.bad), rows.errors)
        progress.update(task, description=f"registering {table.num_rows:,} queries", total=None)
        try:
            mode: Literal["raise", "skip"] = "skip" if on_error is OnError.skip else "raise"
            if replacing is None:
                chosen = kinds[0] if len(kinds) == 1 else None
                done = engine.register_table(table, kind=chosen, on_error=mode)
            else:
                progress.stop()
                done = replacing.run(
                    engine,
                    table,
                    kinds=kinds,
                    on_error=mode,
                    unread=rows.errors["id"].combine_chunks(),
                    show=lambda text: typer.echo(text, err=as_json),
                )
        except InvalidTableError as error:
            bad = _in_file(error.errors, rows) if error.errors.num_rows else error.errors
            _report(bad, errors)
            if not bad.num_rows:
                raise
            raise InvalidTableError(_refusal(bad, bad.num_rows), bad) from error
    bad = _in_file(done.errors, rows)
    skipped = done.errors.num_rows + rows.bad
    _report(bad, errors)
    if as_json:
        summary = {"registered": done.registered, "skipped": skipped, "kind": ", ".join(kinds)}
        summary["ignored"] = ignored
        if replacing is not None:
            names = ("added", "changed", "unchanged", "dropped")
            summary |= {name: getattr(done, name) for name in names} | {"dry_run": dry_run}
        print_json(summary | {"errors": None if errors is None else str(errors)})
        return
    if dry_run:
        typer.echo("nothing has changed (--dry-run)")
    else:
        typer.echo(f"registered {counted(done.registered, 'query', 'queries')} from {file}")
    if skipped:
        where = f"; see {errors}" if errors else f": {_some(bad, skipped)}"
        typer.echo(f"left out {counted(skipped, 'bad row')}{where}", err=True)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _kinds(table: pa.Table, kind: str | None, file: Path) -> tuple[list[str], pa.Table]:
    """Return the kinds of the queries, and the table; of one kind, without the column for it."""
    said: list[str] = []
    if "kind" in table.column_names:
        said = pc.unique(table["kind"]).drop_null().to_pylist()
    if kind is not None and set(said) - {kind}:
        raise InvalidTableError(
            f"{file} has queries of other kinds than {kind} ({', '.join(sorted(said))}); leave out"
            " --kind, and each row is of the kind that it names. Nothing is registered",
            pa.table({}),
        )
    said = sorted({*said, *([] if kind is None else [kind])})
    if not said:
        raise typer.BadParameter(
            f"give the queries' kind, {' or '.join(KINDS)}: {file} has no column kind",
            param_hint="--kind",
        )
    if len(said) == 1 and "kind" in table.column_names:
        table = table.drop_columns("kind")
    return said, table


def _without_extras(table: pa.Table, stream: Stream) -> tuple[pa.Table, list[str]]:
    """Return the table without columns that are no query's, and their names.

    What looks like a limit, or nearly like a known name, stays, and is an error later: without it,
    a query would hold more than its owner meant.
    """
    known = {"kind", *(name for spec in known_specs() for name in spec.spans)}
    known |= {name for spec in known_specs() for name in known_columns(spec, stream)}
    extra = [
        name
        for name in table.column_names
        if name not in known
        and not name.endswith(("_lo", "_hi"))
        and not difflib.get_close_matches(name, known, n=1, cutoff=NEAR)
    ]
    return table.drop_columns(extra), extra


def _said_of(names: list[str]) -> str:
    if len(names) == 1:
        return f"column {names[0]} is"
    return f"columns {', '.join(names)} are"


def _with_integer_keys(table: pa.Table) -> pa.Table:
    if "key" not in table.column_names:
        return table
    place = table.column_names.index("key")
    try:
        return table.set_column(place, "key", table["key"].cast(pa.int64()))
    except pa.ArrowException as error:
        raise InvalidTableError(
            f"the keys of this stream are integers: {error}. Nothing is registered", pa.table({})
        ) from None


def _in_file(errors: pa.Table, rows: QueryRows) -> pa.Table:
    """Return errors with rows counted as in the file, and those of reading it."""
    if rows.rows is not None and errors.num_rows:
        errors = errors.set_column(0, "row", rows.rows.take(errors["row"].combine_chunks()))
    return pa.concat_tables([errors, rows.errors]).sort_by("row")


def _report(bad: pa.Table, path: Path | None) -> None:
    if path is None:
        return
    try:
        pa.csv.write_csv(bad, path)
    except OSError as error:
        raise UnwritableFileError(
            f"{path} can't be written: {error.strerror or error}; the bad rows are not listed"
        ) from error


def _some(bad: pa.Table, count: int) -> str:
    """Return the first of so many bad rows."""
    lines = bad.slice(0, SHOWN).to_pylist()
    texts = [f"row {line['row']} ({line['id']!r}): {line['reason']}" for line in lines]
    more = [f"and {count - SHOWN:,} more"] if count > SHOWN else []
    return "; ".join([*texts, *more])


def _refusal(bad: pa.Table, count: int) -> str:
    return (
        f"{counted(count, 'row is', 'rows are')} bad, so none is registered"
        f" (--on-error skip registers the good ones): {_some(bad, count)}"
    )
