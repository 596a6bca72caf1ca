"""The page on quality: its code runs as it stands."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "networks-quality.md"


def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (yaml,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    Path("badges.yaml").write_text(yaml, encoding="utf-8")
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert "heat saturates first" in capsys.readouterr().out
