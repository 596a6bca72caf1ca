"""Folders of the user's own, where the system keeps such: never in a home that is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import platformdirs


def cache_folder() -> Path | None:
    """Return the user's folder for what can be made again; None without a home."""
    return _in_a_home(platformdirs.user_cache_path)


def state_folder() -> Path | None:
    """Return the user's folder for what is worth remembering; None without a home."""
    return _in_a_home(platformdirs.user_state_path)


def _in_a_home(find: Callable[..., Path]) -> Path | None:
    """Return a folder, which may not be there yet, unless it is in a home that is not there."""
    try:
        folder = find("everquery", appauthor=False)
    except RuntimeError:  # the system does not know the user, and the environment names no folder
        return None
    try:
        home = Path.home()
        homeless = folder.is_relative_to(home) and not home.is_dir()
    except RuntimeError:  # the folder is one that the environment names
        homeless = False
    except OSError:  # the home is closed
        homeless = True
    return folder if folder.is_absolute() and not homeless else None
