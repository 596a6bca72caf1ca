"""The numbers and the picture of the page on quality are made by the benchmark."""

from pathlib import Path

from benchmarks.harness import Scale
from benchmarks.overload_page import END_MARK, MARK, write

PAGE = Path(__file__).parents[3] / "docs" / "networks-quality.md"


def test_the_page_gets_its_table_and_its_picture(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write(page, tmp_path / "plots", Scale(quick=True))
    before, after = (one.read_text(encoding="utf-8") for one in (PAGE, page))
    assert before.partition(MARK)[0] == after.partition(MARK)[0]
    assert before.partition(END_MARK)[2] == after.partition(END_MARK)[2]
    assert after.count("| 2 times, ") == after.count("| 5 times, ") == 3
    assert (tmp_path / "plots" / "shedding_over_time.png").exists()
