"""SQL from the command line."""

import pytest

from everquery.cli import sql as sql_module
from tests.unit.cli.conftest import Shell

CREATE = "CREATE STANDING QUERY {} AS SELECT * FROM trades WHERE price < {} EMIT MATCHES;"


def test_statements_on_the_line(shell):
    shell("sql", CREATE.format("a", ":top"), "--param", "top=7")
    assert [row["id"] for row in shell.json("sql", "SHOW STANDING QUERIES")] == ["a"]
    assert "a" in shell("sql", "SHOW STANDING QUERIES LIKE 'a%'").stdout
    assert [row["name"] for row in shell.json("sql", "SHOW STREAMS")] == ["trades"]
    shell("sql", "DROP STANDING QUERY a")
    assert shell.json("query", "list") == []


def test_a_file_of_many_statements(shell, tmp_path):
    text = "\n".join(CREATE.format(f"q{i}", i + 1) for i in range(500))
    (tmp_path / "q.sql").write_text("\ufeff" + text)
    shell("sql", "--file", "q.sql")
    assert len(shell.json("query", "list")) == 500
    assert shell.json("stream", "show")["position"] == 500


def test_a_wrong_statement_changes_nothing(shell, tmp_path):
    assert "^" in shell("sql", CREATE.format("a", 1) + " DORP", code=1).stderr
    (tmp_path / "b.sql").write_bytes(b"\xff")
    assert "UTF-8" in shell("sql", "--file", "b.sql", code=1).stderr
    assert "No such file" in shell("sql", "--file", "no.sql", code=1).stderr
    shell("sql", "SHOW STREAMS", "--file", "b.sql", code=2)
    shell("sql", "SHOW STREAMS", "--param", "x", code=2)
    assert shell.json("query", "list") == []


def test_standard_input(shell):
    assert "trades" in shell("sql", stdin="SHOW STREAMS").stdout


def test_the_prompt_goes_on_after_an_error(shell, monkeypatch, capsys):
    lines = iter(["", "SHOW", "STREAMS;", "NOPE;", KeyboardInterrupt(), "SHOW STREAMS;"])

    def answer(_prompt):
        line = next(lines, EOFError())
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr(sql_module, "_remember", lambda: None)
    session = sql_module.SqlSession(sql_module.existing_registry(shell.url))
    sql_module._prompt(session, as_json=False)
    session.close()
    told = capsys.readouterr()
    assert told.out.count("CREATE STREAM") == 2
    assert "everquery: " in told.err


class Prompt:
    """A prompt whose lines are given, and what it prints."""

    def __init__(self, shell, monkeypatch, capsys):
        self._shell, self._monkeypatch, self._capsys = shell, monkeypatch, capsys

    def __call__(self, *lines):
        left = list(lines)

        def answer(_prompt):
            line = left.pop(0) if left else EOFError()
            if isinstance(line, BaseException):
                raise line
            return line

        self._monkeypatch.setattr("builtins.input", answer)
        self._monkeypatch.setattr(sql_module, "_remember", lambda: None)
        session = sql_module.SqlSession(sql_module.existing_registry(self._shell.url))
        sql_module._prompt(session, as_json=False)
        session.close()
        self.left = left
        return self._capsys.readouterr()


@pytest.fixture
def prompt(shell, monkeypatch, capsys):
    return Prompt(shell, monkeypatch, capsys)


@pytest.mark.parametrize("end", ["quit", "exit", "\\q", "QUIT;", " Exit ; "])
def test_the_prompt_ends_when_told(prompt, end):
    told = prompt(end, "SHOW STREAMS;")
    assert prompt.left == ["SHOW STREAMS;"]
    assert told.err == ""


def test_the_prompt_has_words_of_its_own(prompt):
    told = prompt("help", "\\?", "\\dt", CREATE.format("ibm", 7), "\\d", "\\foo")
    assert told.out.count("\\dt           the streams") == 2
    assert "CREATE STREAM" in told.out
    assert "query ibm created" in told.out
    assert told.out.count("ibm") >= 2
    assert "there is no \\foo; help lists what there is" in told.out
    assert told.err == ""


def test_words_within_a_statement_are_none_of_the_prompt(prompt):
    told = prompt("SHOW STANDING QUERIES LIKE", "quit", ";", "SHOW STREAMS;")
    assert prompt.left == []
    assert "everquery: " in told.err  # quit is no text in quotes
    assert "CREATE STREAM" in told.out


def test_ctrl_c_clears_the_line(prompt):
    told = prompt("DROP STANDING", KeyboardInterrupt(), "SHOW STREAMS;", KeyboardInterrupt())
    assert "CREATE STREAM" in told.out
    assert told.err == ""


def test_statements_answer_what_they_did(shell):
    text = CREATE.format("a", 1) + CREATE.format("b", 2) + CREATE.format("c", 3)
    assert shell("sql", text).stdout == "3 queries created\n"
    assert shell("sql", CREATE.format("'d\te'", 1)).stdout == 'query "d\\te" created\n'
    assert shell("sql", "ALTER STANDING QUERY a PAUSE; ALTER STANDING QUERY a RESUME").stdout == (
        "query a paused\nquery a resumed\n"
    )
    told = shell("sql", "DROP STANDING QUERY a; DROP STANDING QUERY b; SHOW STREAMS").stdout
    assert told.startswith("2 queries dropped\n")
    replaced = CREATE.format("c", 9).replace("CREATE", "CREATE OR REPLACE")
    assert shell("sql", replaced).stdout == "query c created or replaced\n"
    assert shell("sql", "ALTER OWNER ann SET QUOTA 1000").stdout == "quota of ann set to 1,000\n"
    assert shell("sql", "ALTER OWNER DEFAULT DROP QUOTA").stdout == (
        "quota for all others removed\n"
    )
    assert shell("sql", "CREATE STREAM s (x DOUBLE)").stdout == "stream s created\n"
    assert shell("sql", CREATE.format("f", 1), "--json").stdout == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CREATE.format("a", "1 AND price < 1" * 650_000), "more than 100,000 words"),
        (CREATE.format("a", "9" * 10_000_000), "a number of 10,000,000 digits"),
        (CREATE.format(f"'{'x' * 10_000_000}'", 1), "10,000,000 bytes; the limit is 1,024"),
        ("/* " + "x" * 10_000_000, "no closing */"),
        ("(" * 10_000_000, "more than 100,000 words"),
    ],
    ids=["words", "digits", "name", "comment", "parentheses"],
)
def test_ten_megabytes_in_one_statement(shell, tmp_path, text, reason):
    (tmp_path / "q.sql").write_text(text)
    told = shell("sql", "--file", "q.sql", code=1).stderr
    assert reason in told
    assert len(told) < 1_000
    assert shell.json("query", "list") == []


def test_ten_megabytes_of_statements(shell, tmp_path):
    text = "\n".join(CREATE.format(f"q{i}", f"{i + 1}{' ' * 1_000}") for i in range(10_000))
    assert len(text) > 10_000_000
    (tmp_path / "q.sql").write_text(text)
    shell("sql", "--file", "q.sql")
    assert shell.json("stream", "show")["position"] == 10_000


def test_ids_of_any_letters(shell, tmp_path):
    names = ["it''s", 'say "hi"', "a\nb", "🎈", "nul\0", "\\", "\u202e", "%"]
    text = "".join(CREATE.format(f"'{name}'", 1) for name in names)
    (tmp_path / "q.sql").write_text(text, newline="")
    shell("sql", "--file", "q.sql")
    assert [row["id"] for row in shell.json("query", "list")] == [
        name.replace("''", "'") for name in names
    ]
    assert "\0" not in shell("query", "list").stdout
    shell("sql", "--file", "q.sql", code=1)  # they are live already
    (tmp_path / "d.sql").write_text("".join(f"DROP STANDING QUERY '{name}';" for name in names))
    shell("sql", "--file", "d.sql")
    assert shell.json("query", "list") == []


QUERY = "CREATE STANDING QUERY {} AS SELECT * FROM {} EMIT MATCHES;"


def test_a_text_is_all_or_nothing(shell):
    create = "CREATE STREAM calls (ms DOUBLE);"
    both = create + QUERY.format("a", "trades") + QUERY.format("b", "calls")
    for last in (
        "DROP STANDING QUERY nobody;",
        "EXPLAIN STANDING QUERY nobody;",
        QUERY.format("b", "calls"),
    ):
        shell("sql", both + last, "--stream", "trades", code=1)
        assert [row["name"] for row in shell.json("sql", "SHOW STREAMS")] == ["trades"]
        assert shell.json("query", "list") == []
    shell("sql", both + "ALTER STANDING QUERY a PAUSE;", "--stream", "trades")
    assert [row["state"] for row in shell.json("query", "list", "-s", "trades")] == ["paused"]
    assert [row["id"] for row in shell.json("query", "list", "-s", "calls")] == ["b"]


def test_a_text_may_create_its_stream_and_name_it_only_once(tmp_path):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    fresh = Shell(url)
    fresh("init")
    text = "CREATE STREAM calls (ms DOUBLE);" + QUERY.format("b", "calls")
    fresh("sql", text + "ALTER STANDING QUERY b PAUSE; EXPLAIN STANDING QUERY b")
    assert [row["state"] for row in fresh.json("query", "list")] == ["paused"]
