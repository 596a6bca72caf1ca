"""``everquery plot``: pictures of what standing queries know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer
from rich.console import Console

from everquery.cli.event_job import EventJob, open_inputs
from everquery.cli.event_view import EventView
from everquery.cli.group import INTERRUPTED
from everquery.cli.options import AsJson
from everquery.cli.output import counted, print_json
from everquery.cli.qq_picture import SUFFIXES, Labels, Panel, draw, expect_matplotlib
from everquery.cli.this_process import clock_since_start, interruptible
from everquery.engine import Engine
from everquery.errors import InvalidQueryError, UnwritableFileError
from everquery.kinds.quantile.qq import FINEST, Side, compare, spaced
from everquery.queries.spec import Key
from everquery.stream import Stream

app = typer.Typer(help="Pictures of what standing queries know.", no_args_is_help=True)

MOST_POINTS = 100_000
PICTURE = Path("qq.png")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Whose values are compared: of a file, all or one key's."""

    file: Path
    key: Key | None

    @property
    def name(self) -> str:
        """What people call them."""
        return self.file.name if self.key is None else f"{self.key} ({self.file.name})"


@app.command("qq")
def qq(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE [FILE]",
            help="CSV, JSON lines, Parquet or Arrow; with two, the first one's events are compared"
            " with the second one's.",
        ),
    ],
    attribute: Annotated[str, typer.Option("--attribute", "-a", help="Whose values.")],
    key_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the keys.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Compare this key's events.", show_default="all")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="With this key's events.", show_default="all"),
    ] = None,
    integer_keys: Annotated[
        bool, typer.Option("--integer-keys", help="The keys are integers.")
    ] = False,
    points: Annotated[int, typer.Option(min=1, max=MOST_POINTS, help="How many ranks.")] = 200,
    epsilon: Annotated[
        float,
        typer.Option(
            min=FINEST, max=0.5, help="How far off the rank of a value may be, as a share."
        ),
    ] = 0.001,
    low: Annotated[float, typer.Option("--from", help="Look at ranks above this share.")] = 0.0,
    high: Annotated[float, typer.Option("--to", help="And up to this one.")] = 1.0,
    log: Annotated[bool, typer.Option("--log", help="Logarithmic axes.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The picture: .png, .svg or .pdf.", show_default=str(PICTURE)
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Its numbers: .csv or .parquet; without --output there is no picture."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a Q-Q plot: the values of two keys, or of two files, rank by rank.

    Where both have the same distribution the points are on the diagonal. With --from and --to the
    part is drawn beside the whole, and the numbers are those of the part.
    """
    output = PICTURE if output is None and data is None else output
    _check_range(low, high)
    _check_suffix(output, SUFFIXES, "--output")
    _check_suffix(data, (".csv", ".parquet"), "--data")
    if output is not None:
        expect_matplotlib()
    value, other = _chosen(files, key_column, key, against, integer_keys=integer_keys)
    engines, sides = _watched((value, other), attribute, key_column, epsilon)
    with interruptible() as stop:
        jobs = [_read(file, engine, integer_keys, stop, quiet) for file, engine in engines.items()]
    shown = compare(sides, attribute, spaced(low, high, points))
    for each, name in ((value, "n"), (other, "against_n")):
        if not shown[name][0].as_py():
            whose = "" if each.key is None else f" of key {each.key!r}"
            raise InvalidQueryError(f"{each.file} has no event{whose} with a {attribute} to rank")
    if data is not None:
        _write(shown, data)
    if output is not None:
        panels = [Panel("all ranks", shown)]
        if (low, high) != (0.0, 1.0):
            whole = compare(sides, attribute, spaced(0.0, 1.0, points))
            panels = [Panel("all ranks", whole), Panel(f"ranks {low:g} to {high:g}", shown)]
        draw(panels, Labels(f"Q-Q plot of {attribute}", value.name, other.name), output, log=log)
    if not quiet:
        error = sides[0].quantiles(attribute, [1.0])[0].epsilon
        _summarise(shown, jobs, (value, other), error, (output, data), as_json=as_json)


def _check_range(low: float, high: float) -> None:
    if not 0 <= low < high <= 1:  # which NaN is not, either
        raise typer.BadParameter(
            f"ranks are shares from 0 to 1, and these are from {low} to {high}; give two, the"
            " smaller first",
            param_hint="--from, --to",
        )


def _check_suffix(path: Path | None, known: tuple[str, ...], option: str) -> None:
    if path is not None and path.suffix.lower() not in known:
        raise typer.BadParameter(
            f"{str(path)!r} ends in none of {', '.join(known)}", param_hint=option
        )


def _chosen(
    files: list[Path],
    key_column: str | None,
    key: str | None,
    against: str | None,
    *,
    integer_keys: bool,
) -> tuple[Chosen, Chosen]:
    """Return what is compared with what."""
    if len(files) > 2:
        raise typer.BadParameter("two are compared, no more", param_hint="FILE")
    if (key is not None or against is not None) and key_column is None:
        raise typer.BadParameter("say which column has the keys", param_hint="--key-column")
    value = Chosen(files[0], _key(key, "--key", integer=integer_keys))
    other = Chosen(files[-1], _key(against, "--against", integer=integer_keys))
    if value == other:
        raise typer.BadParameter(
            f"it would be compared with itself, {value.name}; give --key, --against, or a second"
            " file",
            param_hint="FILE",
        )
    return value, other


def _watched(
    chosen: tuple[Chosen, Chosen], attribute: str, key_column: str | None, epsilon: float
) -> tuple[dict[Path, Engine], tuple[Side, Side]]:
    """Return an engine for each file, with queries on what is compared."""
    engines = {}
    for file in dict.fromkeys(each.file for each in chosen):
        keyed = any(each.file == file and each.key is not None for each in chosen)
        stream = Stream("events", key=key_column if keyed else None, attributes=[attribute])
        engines[file] = Engine(stream)
    first, second = (Side(each.name, engines[each.file], each.key) for each in chosen)
    for side in (first, second):
        side.watch(attribute, epsilon)
    return engines, (first, second)


def _key(text: str | None, option: str, *, integer: bool) -> Key | None:
    if text is None or not integer:
        return text
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an integer", param_hint=option) from None


def _read(
    file: Path, engine: Engine, integer_keys: bool, stop: Callable[[], bool], quiet: bool
) -> EventJob:
    """Have an engine take in a file."""
    inputs = open_inputs([str(file)], engine, form=None, integer_keys=integer_keys, stop=stop)
    job = EventJob(engine, inputs, clock=clock_since_start(), stop=stop)
    with EventView(job, Console(stderr=True), wanted=not quiet) as view:
        for source, piece, _ in job.run():
            view.update(source, piece)
    if job.interrupted:
        raise typer.Exit(INTERRUPTED)
    return job


def _write(table: pa.Table, path: Path) -> None:
    try:
        if path.suffix.lower() == ".csv":
            pa.csv.write_csv(table, path)
        else:
            pq.write_table(table, path)
    except OSError as error:
        raise UnwritableFileError(f"{path} can't be written: {error.strerror or error}") from error


def _summarise(
    shown: pa.Table,
    jobs: list[EventJob],
    chosen: tuple[Chosen, Chosen],
    error: float,
    written: tuple[Path | None, Path | None],
    *,
    as_json: bool,
) -> None:
    n, against_n = (shown[name][0].as_py() for name in ("n", "against_n"))
    if as_json:
        output, data = (None if path is None else str(path) for path in written)
        print_json(
            {
                "output": output,
                "data": data,
                "points": shown.num_rows,
                "value": chosen[0].name,
                "n": n,
                "against": chosen[1].name,
                "against_n": against_n,
                "epsilon": error,
                "refused": sum(job.summary()["refused"] for job in jobs),
                "unreadable_lines": sum(job.tally.unreadable for job in jobs),
            }
        )
        return
    for job in jobs:
        for line in list(job.summary_lines())[1:]:
            typer.echo(line, err=True)
    names = " and ".join(str(path) for path in written if path is not None)
    typer.echo(
        f"{names}: {counted(shown.num_rows, 'rank')} of {chosen[0].name},"
        f" {counted(n, 'event')}, against {chosen[1].name}, {counted(against_n, 'event')};"
        f" each within {error:.6g} of its place"
    )
