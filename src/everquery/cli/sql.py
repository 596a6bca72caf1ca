"""``everquery sql``: statements from the line, a file, a pipe, or a prompt."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from everquery.cli.options import AsJson, RegistryUrl, StreamName, existing_registry
from everquery.cli.output import print_json, print_table
from everquery.cli.sql_session import SqlSession
from everquery.core.user_folders import state_folder
from everquery.errors import EverqueryError, UnreadableFileError
from everquery.queries.known import KNOWN
from everquery.queries.sql.emit import words_of

HISTORY = "sql_history"
WORDS = (
    *("CREATE", "STREAM", "STANDING", "QUERY", "QUERIES", "AS", "SELECT", "FROM", "WHERE", "AND"),
    *("BETWEEN", "EMIT", "ALTER", "PAUSE", "RESUME", "DROP", "SHOW", "STREAMS", "LIKE", "EXPLAIN"),
    *("OWNER", "LABEL", "QUOTA", "QUOTAS", "WITH", "OR", "REPLACE"),
)  # fmt: skip

ENDS = ("quit", "exit", r"\q")
HELPS = ("help", r"\h", r"\?")
SHORTCUTS = {r"\d": "SHOW STANDING QUERIES;", r"\dt": "SHOW STREAMS;"}
HELP = r"""\d            the standing queries
\dt           the streams
help          this; docs/sql.md has all of SQL
quit, exit    the end, as are \q and Ctrl-D; Ctrl-C clears what is being written
A statement may take several lines, and ends with ;

    CREATE STANDING QUERY ibm_band AS
    SELECT * FROM trades WHERE symbol = 'IBM' AND price >= 40 AND price < 50 EMIT ENTER, LEAVE;
    ALTER STANDING QUERY ibm_band PAUSE;
    EXPLAIN STANDING QUERY ibm_band;
    DROP STANDING QUERY ibm_band;"""


def completions(begun: str) -> list[str]:
    """Return the words of SQL that begin like this: those of all statements, then of kinds.

    Examples
    --------
    >>> completions("sel"), completions("on")
    (['SELECT'], ['ONCE'])
    """
    words = dict.fromkeys([*WORDS, *(word for each in KNOWN.values() for word in words_of(each))])
    return [word for word in words if begun and word.startswith(begun.upper())]


def sql(
    registry: RegistryUrl,
    statement: Annotated[
        str | None, typer.Argument(help="Statements; without, a prompt or standard input.")
    ] = None,
    stream: StreamName = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A file of statements.")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(help="What :name stands for: name=value; 'quoted' is text. Repeat."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run SQL statements; see docs/sql.md for what there is."""
    parameters = parse_parameters(param or [])
    if statement is not None and file is not None:
        raise typer.BadParameter("give a statement or a file, not both", param_hint="--file")
    session = SqlSession(existing_registry(registry), stream)
    try:
        if statement is None and file is None and sys.stdin.isatty():
            _prompt(session, as_json=as_json)
            return
        text = statement if statement is not None else _read(file)
        for table in session.run(text, parameters):
            _print(table, as_json=as_json)
    finally:
        session.close()


def _read(file: Path | None) -> str:
    name = "standard input" if file is None else str(file)
    try:
        data = sys.stdin.buffer.read() if file is None else file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UnreadableFileError(f"{name} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"{name} is not text in UTF-8: {error}") from error


def parse_parameters(texts: list[str]) -> dict[str, Any]:
    """Return the values of ``name=value``: numbers where they look like it.

    Examples
    --------
    >>> parse_parameters(["lo=40", "hi=50.5", "s=IBM", "key='7'"])
    {'lo': 40, 'hi': 50.5, 's': 'IBM', 'key': '7'}
    """
    parameters: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r}; write name=value", param_hint="--param")
        parameters[name] = _value(value)
    return parameters


def _value(text: str) -> str | int | float:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _print(table: pa.Table | str, *, as_json: bool) -> None:
    """Print what a statement shows; what it did is for people only."""
    if isinstance(table, str):
        if not as_json:
            typer.echo(table)
        return
    if as_json:
        print_json(table.to_pylist())
        return
    # What no row has only makes the others narrow.
    empty = [name for name in table.column_names if table[name].null_count == table.num_rows > 0]
    table = table.drop_columns(empty)
    print_table(table.column_names, [list(row.values()) for row in table.to_pylist()])


def _prompt(session: SqlSession, *, as_json: bool) -> None:
    """Read statements, each ended by ``;``, until the end of input; errors do not end it."""
    _remember()
    typer.echo("Statements end with ;   help explains   quit, or Ctrl-D, ends")
    lines: list[str] = []
    while True:
        try:
            lines.append(input("     ...> " if lines else "everquery> "))
        except EOFError:
            typer.echo()
            return
        except KeyboardInterrupt:
            typer.echo()
            lines = []
            continue
        if len(lines) == 1 and (word := _word(lines[0])) is not None:
            lines = []
            if word in ENDS:
                return
            lines = [SHORTCUTS[word]] if word in SHORTCUTS else []
            if not lines:
                typer.echo(
                    HELP if word in HELPS else f"there is no {word}; help lists what there is"
                )
                continue
        text = "\n".join(lines)
        if not text.rstrip().endswith(";"):
            lines = lines if text.strip() else []
            continue
        lines = []
        try:
            for table in session.run(text):
                _print(table, as_json=as_json)
        except EverqueryError as error:
            typer.echo(f"everquery: {error}", err=True)


def _word(line: str) -> str | None:
    r"""Return the word of the prompt's own that a line is; None for a part of a statement.

    Examples
    --------
    >>> _word("Quit;"), _word(r"\dt"), _word("SHOW STREAMS;")
    ('quit', '\\dt', None)
    """
    word = line.strip().removesuffix(";").strip().lower()
    return word if word in (*ENDS, *HELPS) or word.startswith("\\") else None


def _remember() -> None:
    """Give the prompt history and completion, where Python has readline."""
    try:
        import atexit
        import readline
    except ImportError:
        return
    if (folder := state_folder()) is not None:
        with contextlib.suppress(OSError):
            readline.read_history_file(folder / HISTORY)
        atexit.register(_save, folder)

    def complete(text: str, state: int) -> str | None:
        found = completions(text)
        return f"{found[state]} " if state < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")


def _save(folder: Path) -> None:
    import readline

    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        readline.write_history_file(folder / HISTORY)
