"""The page of results has a place for every subject."""

from benchmarks.__main__ import SUBJECTS
from benchmarks.report import ORDER, TITLES


def test_every_subject_has_a_place_and_a_title():
    assert set(SUBJECTS) <= set(ORDER)
    assert set(ORDER) <= set(TITLES)
