"""``everquery network``: networks of boxes and arrows over streams."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer

from everquery.cli import network_load
from everquery.cli.network_changes import attach, detach
from everquery.cli.network_run import Files, Journey, Lines
from everquery.cli.options import AsJson
from everquery.cli.output import counted, print_json, print_table
from everquery.errors import InvalidNetworkError, UnwritableFileError
from everquery.network import Network, Source
from everquery.network.control import Followed
from everquery.network.runtime.run import Run
from everquery.sources.files import EventFile, EventPipe
from everquery.sources.formats import explained

app = typer.Typer(help="Networks of boxes and arrows over streams.", no_args_is_help=True)
app.command("attach")(attach)
app.command("detach")(detach)

PIPE = "-"
File = Annotated[Path, typer.Argument(metavar="NETWORK", help="The network, in YAML.")]


@app.command("check")
def check(
    file: File,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what the optimizer makes of it.")
    ] = False,
    rate: network_load.RatesOption = None,
    cost: network_load.CostsOption = None,
    sample: network_load.SamplesOption = None,
    capacity: network_load.CapacityOption = 1.0,
    headroom: network_load.HeadroomOption = 1.0,
    as_json: AsJson = False,
) -> None:
    """Check a network without running it, and show what each arrow carries.

    With --rate, also what it asks of the machine, and whether `shed: never` can be kept.
    """
    network = Network.load(file)
    found = None
    if rate:
        samples = {
            name: partial(_pieces, network, name, paths)
            for name, paths in _named(network, sample or []).items()
        }
        found = network_load.analysis(network, rate, cost or [], samples, capacity, headroom)
    if as_json:
        types = {name: str(rows) for name, rows in network.types.items()}
        print_json(types if found is None else {**network_load.form(found), "types": types})
        return
    kinds = {name: box.kind for name, box in network.readable.items()}
    rows = [[name, kinds.get(name, "stream"), str(row)] for name, row in network.types.items()]
    print_table(["name", "box", "columns"], rows)
    if explain:
        typer.echo(network.explain())
    typer.echo(
        f"network {network.name!r} can run: {counted(len(network.streams), 'stream', 'streams')},"
        f" {counted(len(network.boxes), 'box', 'boxes')},"
        f" {counted(len(network.outputs), 'output', 'outputs')}"
    )
    if found is not None:
        typer.echo(str(found))
        if found.refusal is not None:
            raise typer.Exit(1)


@app.command("show")
def show(
    file: File,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The picture; without, it is printed.")
    ] = None,
) -> None:
    """Draw a network as SVG."""
    picture = Network.load(file).draw()
    if out is None:
        typer.echo(picture)
        return
    _write(out, picture)
    typer.echo(f"{out} has the picture")


@app.command("run")
def run(
    file: File,
    events: Annotated[
        list[str],
        typer.Argument(
            metavar="[STREAM=]FILE...",
            help="Events of each stream: CSV, JSON lines, Parquet or Arrow.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A folder: each output becomes a Parquet file there. Without, rows are printed"
            " as JSON lines.",
        ),
    ] = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="Print rows, costs and queues at the end.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw the network with these figures, as SVG.")
    ] = None,
    optimize: Annotated[
        bool, typer.Option(help="Fuse and reorder boxes; outputs are the same.")
    ] = True,
    threads: Annotated[
        int,
        typer.Option("--threads", help="Boxes that run at the same time; outputs are the same."),
    ] = 1,
    control: Annotated[
        Path | None,
        typer.Option(
            "--control",
            help="A folder through which `network attach` and `network detach` reach this run,"
            " between batches.",
        ),
    ] = None,
) -> None:
    """Run a network over events, to their end.

    `-` stands for JSON lines on standard input, taken as they come.
    """
    network = Network.load(file)
    running = network.start(optimize=optimize, threads=threads)
    with ExitStack() as stack:
        writer = Lines() if out is None else stack.enter_context(Files(out))
        journey = Journey(running, writer)
        if control is not None:
            journey.followed = stack.enter_context(closing(Followed(control, running)))
        inputs = {
            name: _pieces(network, name, paths, journey.look)
            for name, paths in _named(network, events).items()
        }
        while inputs:
            batches = {name: next(pieces, None) for name, pieces in inputs.items()}
            inputs = {name: inputs[name] for name, batch in batches.items() if batch is not None}
            journey.take({name: batch for name, batch in batches.items() if batch is not None})
        journey.finish()
    _report(running, journey.counts, stats, picture)


def _named(network: Network, events: list[str]) -> dict[str, list[Path]]:
    """Return the files of each stream."""
    found: dict[str, list[Path]] = {}
    for one in events:
        name, equals, path = one.partition("=")
        if not equals or name not in network.streams:
            if len(network.streams) != 1:
                raise InvalidNetworkError(
                    f"{one!r} names no stream of the network; write STREAM=FILE, with"
                    f" {', '.join(network.streams)}"
                )
            name, path = next(iter(network.streams)), one
        found.setdefault(name, []).append(Path(path))
    return found


def _pieces(
    network: Network, name: str, paths: list[Path], look: Callable[[], bool] = lambda: False
) -> Iterator[pa.Table]:
    """Yield the batches of a stream; `look` is called while a pipe has nothing."""
    source = network.streams[name]
    for path in paths:
        if str(path) == PIPE:
            if source.columns is not None:
                raise InvalidNetworkError(
                    f"stream {name!r} has further columns, which standard input can't bring; write"
                    " them to a file"
                )
            for piece in EventPipe(sys.stdin.buffer, source.stream, stop=look).pieces():
                yield piece.batch
        elif source.columns is not None:
            yield from _typed(path, source)
        else:
            for piece in EventFile(path, source.stream).pieces():
                yield piece.batch


def _typed(path: Path, source: Source) -> Iterator[pa.Table]:
    """Yield batches of a file with columns that streams have no role for."""
    with explained(path):
        if path.suffix == ".csv":
            yield from pyarrow.csv.open_csv(path)
        else:
            yield from pq.ParquetFile(path).iter_batches()


def _report(running: Run, counts: Mapping[str, int], stats: bool, picture: Path | None) -> None:
    if stats:
        table = running.stats()
        print_table(table.column_names, [list(row.values()) for row in table.to_pylist()])
    if picture is not None:
        _write(picture, running.draw())
    refused = sum(row["dead_letters"] or 0 for row in running.stats().to_pylist())
    told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    typer.echo(f"rows by output: {told}; dead letters: {refused:,}", err=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnwritableFileError(f"{path} can't be written: {error}") from None
