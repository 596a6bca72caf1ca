"""Terminal pictures show what a terminal shows."""

import importlib.util
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "pictures.py"


def load():
    spec = importlib.util.spec_from_file_location("pictures", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_live_view_leaves_its_last_frame():
    output = "one\r\n\x1b[?25l50%\r\nmore\r\n\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[32m100%\x1b[0m\r\nend"
    assert load().screen(output) == ["one", "\x1b[32m100%\x1b[0m", "end", ""]
    assert load().screen("slow\rfast") == ["fast"]


def test_a_picture_is_of_the_real_output(tmp_path):
    load().picture("hello", ["printf 'a\\033[31mred\\033[0m\\n'"], tmp_path)
    svg = (tmp_path / "hello.svg").read_text()
    assert "red" in svg
    assert "http" not in svg.replace("http://www.w3.org", "").replace("https://www.textualize", "")
