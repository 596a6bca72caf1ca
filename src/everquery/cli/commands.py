"""The subcommands of ``everquery``: where each is, and what ``--help`` says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import typer


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand whose module need not be loaded yet.

    Attributes
    ----------
    place : str
        The module, within this package, and the name there: of a function, or of the Typer of a
        group of commands.
    help : str
        The first line of what the command itself says.
    settings : dict
        Of a function: how its arguments are read.
    """

    place: str
    help: str
    settings: dict[str, Any] = field(default_factory=dict)

    def load(self, name: str) -> Any:  # noqa: ANN401 - click's command, wherever Typer has it
        """Return the command itself."""
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(f"everquery.cli.{module}"), attribute)
        holder = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        holder.callback()(lambda: None)  # so that it is a group, however few commands it has
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=name)
        else:
            holder.command(name, context_settings=self.settings)(found)
        group: Any = typer.main.get_command(holder)
        return group.commands[name]


SUBCOMMANDS = {
    "init": Subcommand("init:init", "Make a registry, or check that one is there and can be used."),
    "stream": Subcommand("stream:app", "The streams of a registry."),
    "query": Subcommand("query:app", "The standing queries of a stream."),
    "quota": Subcommand("quota:app", "How many live queries owners may have."),
    "registry": Subcommand("registry:app", "Find damage of a registry, and repair it."),
    "sql": Subcommand("sql:sql", "Run SQL statements; see docs/sql.md for what there is."),
    "run": Subcommand("run:run", "Process events, and tell what the standing queries notice."),
    "replay": Subcommand(
        "replay:replay",
        "Tell what the registered queries would have reported of these events, by query.",
    ),
    "network": Subcommand("network:app", "Networks of boxes and arrows over streams."),
    "plot": Subcommand("plot:app", "Pictures of what standing queries know."),
    "rescale": Subcommand(
        "rescale:rescale",
        "Divide the state of a stopped Spark job anew; the job goes on from there when it starts.",
    ),
    "demo": Subcommand(
        "demo.command:demo", "Watch a simulated market with a million standing queries."
    ),
    "bench": Subcommand(
        "bench:bench",
        "Run the benchmarks against the papers' figures and our peers; arguments are passed on.",
        {"allow_extra_args": True, "ignore_unknown_options": True},
    ),
    "warm-up": Subcommand(
        "warm_up:warm_up",
        "Compile all loops, so that no run has to; worth it when an image is built.",
    ),
    "version": Subcommand("version:version", "Print the version of everquery."),
}
