"""SQL from the command line."""

from everquery.cli import sql as sql_module

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
