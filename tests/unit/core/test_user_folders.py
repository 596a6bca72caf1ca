"""Where the user's own files go, and where none go."""

import pwd

import pytest

from everquery.core.user_folders import cache_folder, state_folder

FOLDERS = pytest.mark.parametrize(
    ("folder", "variable", "usual"),
    [
        (cache_folder, "XDG_CACHE_HOME", ".cache"),
        (state_folder, "XDG_STATE_HOME", ".local/state"),
    ],
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return home


@FOLDERS
def test_in_the_home_or_where_xdg_says(folder, variable, usual, home, tmp_path, monkeypatch):
    assert folder() == home / usual / "everquery"
    monkeypatch.setenv(variable, "not/absolute")
    assert folder() == home / usual / "everquery"
    monkeypatch.setenv(variable, str(tmp_path / "else"))
    assert folder() == tmp_path / "else" / "everquery"


@FOLDERS
def test_not_in_a_home_that_is_not_there(folder, variable, usual, home, tmp_path, monkeypatch):
    home.rmdir()
    assert folder() is None
    monkeypatch.setenv(variable, str(tmp_path / "else"))
    assert folder() == tmp_path / "else" / "everquery"


@FOLDERS
def test_a_user_whom_the_system_does_not_know(folder, variable, usual, tmp_path, monkeypatch):
    def unknown(*_):
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert folder() is None
    monkeypatch.setenv(variable, str(tmp_path / "else"))
    assert folder() == tmp_path / "else" / "everquery"
