"""The house stays readable: no module is too long to be read in one go."""

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "everquery"
LONGEST = 400  # lines


def test_no_module_is_over_400_lines_14():
    sizes = {
        str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sorted(SOURCE.rglob("*.py"))
    }
    assert {name: lines for name, lines in sizes.items() if lines > LONGEST} == {}
