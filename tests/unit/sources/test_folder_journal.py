"""The journal of the files that were found: what is in it stays, whatever happens around it."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everquery.errors import UnreadableFileError
from everquery.sources import folder_journal, sections
from everquery.sources.folder_journal import FolderJournal

CSV = "symbol,price\nA,1\nB,2\n"


@pytest.fixture(autouse=True)
def settled_at_once(monkeypatch):
    monkeypatch.setattr(folder_journal, "SETTLED_SECONDS", 0.0)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kept" / "journal.jsonl"


def write(folder, *names):
    for name in names:
        (folder / name).write_text(CSV)


def names(journal):
    return [Path(section.path).name for section in journal.sections]


def looked(path, folder, *, finished=False):
    journal = FolderJournal(path, [folder])
    journal.look(finished=finished)
    return journal


def test_it_goes_on_where_it_was(folder, path):
    write(folder, "b.csv", "a.csv", ".c.csv", "_d.csv")
    (folder / "notes.txt").write_text("no events")
    (folder / "e.csv").mkdir()  # as Spark calls its output
    journal = looked(path, folder)
    assert names(journal) == ["a.csv", "b.csv"]
    write(folder, "0.csv")  # late, with an earlier name
    again = FolderJournal(path, [folder])
    assert (again.sections, again.name) == (journal.sections, journal.name)
    again.look(finished=False)
    assert names(again) == ["a.csv", "b.csv", "0.csv"]
    assert names(FolderJournal(path, [folder])) == ["a.csv", "b.csv", "0.csv"]


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_last_line_that_is_cut_is_written_again(folder, path, monkeypatch, cut):
    """Of a file of several sections, all or none are noted."""
    monkeypatch.setattr(sections, "SECTION_BYTES", 8)
    write(folder, "a.csv")
    known = looked(path, folder)
    write(folder, "b.csv")
    whole = looked(path, folder)
    assert len(whole.sections) > len(known.sections) + 1
    text = path.read_bytes()
    last = len(text.splitlines(keepends=True)[-1])
    path.write_bytes(text[: len(text) - 1 - cut * (last - 1) // 40])
    again = FolderJournal(path, [folder])
    assert (again.sections, again.name) == (known.sections, known.name)
    again.look(finished=False)
    assert again.sections == whole.sections
    assert path.read_bytes() == text


def test_a_first_line_that_is_cut_is_a_new_journal(folder, path):
    first = FolderJournal(path, [folder])
    path.write_bytes(path.read_bytes()[:-3])
    again = FolderJournal(path, [folder])
    assert len(again.name) == len(first.name)
    assert FolderJournal(path, [folder]).name == again.name


def test_a_new_one_has_another_name(folder, path):
    first = FolderJournal(path, [folder])
    path.unlink()
    assert FolderJournal(path, [folder]).name != first.name


def test_two_follow_one(folder, path):
    write(folder, "b.csv")
    one, other = looked(path, folder), FolderJournal(path, [folder])
    write(folder, "c.csv")
    other.look(finished=False)
    write(folder, "a.csv")
    one.look(finished=False)
    other.look(finished=False)
    assert names(one) == names(other) == ["b.csv", "c.csv", "a.csv"]
    assert one.sections == other.sections == FolderJournal(path, [folder]).sections


@pytest.mark.parametrize("text", [b"garbage\n", b'{"other": 1}\n', b"[1]\n", b"\xff\xfe\n", b"5\n"])
def test_what_is_no_journal_is_an_error_that_names_it(folder, path, text):
    path.parent.mkdir()
    path.write_bytes(text)
    with pytest.raises(UnreadableFileError, match=r"journal\.jsonl is no journal of files"):
        FolderJournal(path, [folder])
    assert path.read_bytes() == text


def test_one_that_is_removed_or_cut_under_a_job_is_an_error(folder, path):
    write(folder, "a.csv")
    journal = looked(path, folder)
    kept = path.read_bytes()
    write(folder, "b.csv")
    path.unlink()
    with pytest.raises(UnreadableFileError, match=r"journal\.jsonl can't be read: No such file"):
        journal.look(finished=False)
    path.write_bytes(kept[:-5])
    with pytest.raises(UnreadableFileError, match="put back the journal"):
        journal.look(finished=False)
    path.write_bytes(kept)
    journal.look(finished=False)
    assert names(journal) == names(FolderJournal(path, [folder])) == ["a.csv", "b.csv"]


def test_places_where_no_journal_can_be(folder):
    write(folder, "a.csv")
    for path in (folder, folder / "a.csv" / "journal"):
        with pytest.raises(UnreadableFileError, match="can't be read"):
            FolderJournal(path, [folder])


# -- files that are still written -------------------------------------------------------------


def test_a_text_is_finished_when_it_has_not_changed_for_a_while(folder, path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(folder_journal.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(folder_journal, "SETTLED_SECONDS", 0.5)
    journal = FolderJournal(path, [folder])
    write(folder, "a.csv")
    for wait, taken in ((0.0, 0), (0.3, 0), (0.3, 1)):
        now[0] += wait
        journal.look(finished=True)
        assert len(journal.sections) == taken


def test_a_text_is_finished_when_two_looks_find_the_same(folder, path):
    journal = FolderJournal(path, [folder])
    for text in ("", CSV, CSV + "C,3\n"):
        (folder / "a.csv").write_text(text)
        journal.look(finished=True)
        assert journal.sections == []
    journal.look(finished=True)
    (section,) = journal.sections
    assert section.file_bytes == len(CSV) + 4


def test_parquet_is_finished_when_it_has_its_end(folder, path):
    pq.write_table(pa.table({"x": [1.0]}), folder / "whole")
    content = (folder / "whole").read_bytes()
    journal = FolderJournal(path, [folder])
    for size in (0, 4, 8, len(content) - 4, len(content) - 1):
        (folder / "a.parquet").write_bytes(content[:size])
        for _ in range(3):
            journal.look(finished=True)
        assert journal.sections == []
    (folder / "a.parquet").write_bytes(content)
    journal.look(finished=True)
    assert names(journal) == ["a.parquet"]


def test_what_is_only_begun_is_not_yet_damaged(folder, path):
    journal = FolderJournal(path, [folder])
    (folder / "a.parquet").write_bytes(b"PA")
    (folder / "b.csv.gz").write_bytes(gzip.compress(CSV.encode())[:12])
    journal.look(finished=True)
    pq.write_table(pa.table({"x": [1.0]}), folder / "a.parquet")
    (folder / "b.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    journal.look(finished=True)
    journal.look(finished=True)
    assert names(journal) == ["a.parquet", "b.csv.gz"]


@pytest.mark.parametrize("finished", [False, True])
def test_an_empty_file_waits_until_it_has_something(folder, path, finished):
    (folder / "a.csv").touch()
    write(folder, "b.csv")
    journal = FolderJournal(path, [folder])
    for _ in range(2):
        journal.look(finished=finished)
    assert names(journal) == ["b.csv"]
    write(folder, "a.csv")
    for _ in range(2):
        journal.look(finished=finished)
    assert names(journal) == ["b.csv", "a.csv"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.parquet", b"symbol,ts\n"),
        ("b.csv", b"\0\1\2"),
        ("b.csv.gz", b"\x1f\x8b\x08\0broken"),
        ("b.json", b"\x28\xb5\x2f\xfdbroken"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_a_damaged_file_is_an_error_that_names_it_and_is_not_noted(
    folder, path, name, content, finished
):
    write(folder, "a.csv", "c.csv")
    journal = FolderJournal(path, [folder])
    (folder / name).write_bytes(content)
    if finished:
        journal.look(finished=True)
    with pytest.raises(UnreadableFileError, match=rf"{name}\b"):
        journal.look(finished=finished)
    assert names(FolderJournal(path, [folder])) == ["a.csv"]  # found before it
    (folder / name).unlink()
    for _ in range(2):
        journal.look(finished=finished)
    assert names(journal) == ["a.csv", "c.csv"]


def test_a_file_that_is_gone_again_is_forgotten(folder, path, monkeypatch):
    write(folder, "a.csv")
    journal = FolderJournal(path, [folder])
    found = journal._new_files()
    shutil.rmtree(folder)
    monkeypatch.setattr(journal, "_new_files", lambda: found)
    journal.look(finished=True)
    assert journal.sections == []
    with pytest.raises(UnreadableFileError, match=r"a\.csv can't be read: No such file"):
        journal.look(finished=False)


# -- files that are not what they were --------------------------------------------------------


def test_a_section_is_of_the_file_that_was_found(folder, path):
    write(folder, "a.csv")
    (section,) = looked(path, folder).sections
    file = folder / "a.csv"
    before = file.stat()
    section.check_unchanged()

    file.write_text(CSV.replace("1", "9"))  # of the same size
    os.utime(file, ns=(0, before.st_mtime_ns + 1))
    with pytest.raises(UnreadableFileError, match=r"a\.csv has changed since it was found"):
        section.check_unchanged()
    file.unlink()
    with pytest.raises(UnreadableFileError, match=r"a\.csv is to be read, and it is gone"):
        section.check_unchanged()
    file.write_text(CSV)
    os.utime(file, ns=(0, before.st_mtime_ns))
    section.check_unchanged()


def test_lines_are_a_file_each(folder, path):
    write(folder, "a.csv", "b.csv")
    looked(path, folder)
    name, *files = map(json.loads, path.read_text().splitlines())
    assert set(name) == {"journal"}
    assert [Path(section["path"]).name for (section,) in files] == ["a.csv", "b.csv"]
