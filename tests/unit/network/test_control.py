"""Control folders: changes that other processes ask for, made between batches."""

import pytest

import everquery as eq
from everquery.errors import UnreadableFileError, UnwritableFileError
from everquery.network.control import Control, Followed, begin_of
from tests.unit.network.plants import readings

TEXT = """
network: plant
streams:
  readings: {key: machine, time: ts, attributes: [temperature, vibration]}
points:
  recent: {from: readings, keep: all}
  bare: {from: readings}
boxes:
  hot: {box: filter, from: recent, where: "temperature > 80"}
outputs:
  hot: {from: hot}
"""
COLD = """
boxes:
  cold: {box: filter, from: recent, where: "temperature < 60"}
outputs:
  cold: {from: cold}
"""


@pytest.fixture
def cold(tmp_path):
    path = tmp_path / "cold.yaml"
    path.write_text(COLD)
    return path


def followed(folder):
    run = eq.Network.load(TEXT).start()
    return run, Followed(folder, run)


def rows(run, *batches):
    return [row for one in batches for row in run.process({"readings": one})["cold"].to_pylist()]


def test_what_is_attached_from_outside_misses_no_row_and_doubles_none(tmp_path, cold):
    given = readings(90)
    run, own = followed(tmp_path / "c")
    run.process({"readings": given.slice(0, 30)})
    number = Control(tmp_path / "c").attach(cold, "oldest")
    assert own.answer(number) is None
    ((name, past),) = own.follow(1)
    assert name == "cold"
    found = past.to_pylist() + rows(run, given.slice(30, 30), given.slice(60))
    wanted = [row for row in given.to_pylist() if (row["temperature"] or 60) < 60]
    assert found == wanted
    assert own.answer(number) == {"done": 1}
    assert eq.Network.load(own.network) == run.network
    assert Control(tmp_path / "c").detach(["cold"]) == 2
    assert own.follow(3)[0][1].num_rows == 0
    assert own.answer(2) == {"done": 3}
    assert eq.Network.load(own.network) == eq.Network.load(TEXT)


def test_a_run_that_starts_on_the_folder_begins_with_what_was_changed(tmp_path, cold):
    _, own = followed(tmp_path / "c")
    control = Control(tmp_path / "c")
    control.attach(cold)
    control.attach(cold)  # its names are taken
    own.follow(0)
    assert "has a box 'cold' already" in control.answer(2)["refused"]
    control.detach(["hot"])  # nobody has made it yet
    own.close()
    again, own = followed(tmp_path / "c")
    assert set(again.network.boxes) == {"hot", "cold"}
    own.follow(0)
    assert control.answer(3) == {"done": 0}
    assert set(again.network.boxes) == set(again.network.outputs) == {"cold"}
    own.close()
    other = eq.Network.load(TEXT.replace("recent", "elsewhere")).start()
    with pytest.raises(eq.InvalidNetworkError, match="Take another folder"):
        Followed(tmp_path / "c", other)


@pytest.mark.parametrize("text", ["later", "", "12:61"])
def test_a_begin_is_a_word_or_a_time(text):
    with pytest.raises(eq.InvalidNetworkError, match="now, oldest or a time"):
        begin_of(text)


def test_what_cannot_be_is_refused_and_the_run_goes_on(tmp_path, cold):
    folder = tmp_path / "c"
    with pytest.raises(UnreadableFileError, match="--control"):
        Control(folder).detach(["hot"])
    run, own = followed(folder)
    with pytest.raises(UnwritableFileError, match="another run follows"):
        followed(folder)
    control = Control(folder)
    for text, problem in (
        ("boxes: {}", "no boxes"),
        ("streams: {}", "has 'streams'"),
        ("boxes: {cold: {box: fliter}}", "no box 'fliter'"),
        ("[1]", "no network"),
    ):
        cold.write_text(text)
        with pytest.raises(eq.InvalidNetworkError, match=problem):
            control.attach(cold)
    run.process({"readings": readings(10)})
    for text, begin, problem in (
        (COLD.replace("recent", "bare"), "oldest", "keeps no history"),
        (COLD.replace("temperature < 60", "machine > 3"), "now", "two values of one type"),
        (COLD.replace("recent", "readings"), "now", "no connection point"),
    ):
        cold.write_text(text)
        number = control.attach(cold, begin)
        assert own.follow(1) == []
        assert problem in control.answer(number)["refused"]
    (folder / "000004.yaml").write_text("nonsense: 1")
    own.follow(1)
    assert "has 'nonsense'" in control.answer(4)["refused"]
    assert run.process({"readings": readings(10, gap=1).slice(9)}).keys() == {"hot"}
