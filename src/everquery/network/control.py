"""A control folder: how other processes attach boxes to a network that runs, and detach them.

Changes are numbered files, in the order in which they came. The run that follows the folder makes
them between two batches, and puts an answer beside each. A run that starts on the folder begins
with the changes that were made before.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from filelock import FileLock, Timeout

from everquery.errors import (
    EverqueryError,
    InvalidNetworkError,
    UnreadableFileError,
    UnwritableFileError,
)
from everquery.network import yaml_form
from everquery.network.runtime.points import NOW, OLDEST
from everquery.network.runtime.run import Run

DONE, REFUSED = "done", "refused"


class Control:
    """The changes of a network in a folder: asked for here, made by the run that follows them.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def network(self) -> Path:
        """The network as it runs, with all changes so far: YAML that `Network.load` reads."""
        return self.folder / "network.yaml"

    def attach(self, source: Path, begin: Any = NOW) -> int:  # noqa: ANN401 - a word or a time
        """Ask for the boxes and outputs of a file; return the number of the change."""
        form = yaml_form.read_addition(source)
        return self._ask({"attach": form, "begin": begin})

    def detach(self, names: Sequence[str]) -> int:
        """Ask that boxes and outputs be taken out; return the number of the change."""
        return self._ask({"detach": list(names)})

    def _ask(self, change: Mapping[str, Any]) -> int:
        if not self.network.exists():
            raise UnreadableFileError(
                f"{self.folder} is followed by no network; start one with"
                f" `everquery network run NETWORK EVENTS --control {self.folder}`"
            )
        number = 1
        try:
            whole = _unfinished(self.folder, yaml_form.text_of(change))
            while not _placed(whole, self._change(number)):
                number += 1
        except OSError as error:
            raise UnwritableFileError(f"{self.folder} can't be written: {error}") from None
        return number

    def answer(self, number: int) -> dict[str, Any] | None:
        """Return ``{"done": batches before it}`` or ``{"refused": why}``; None: it waits still."""
        path = self._answer(number)
        if not path.exists():
            return None
        found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        return found

    def _change(self, number: int) -> Path:
        return self.folder / f"{number:06}.yaml"

    def _answer(self, number: int) -> Path:
        return self.folder / f"{number:06}.answer"


class Followed(Control):
    """A control folder and the run that follows it; one run at a time.

    `follow` is called between batches.
    """

    def __init__(self, folder: Path, run: Run) -> None:
        super().__init__(folder)
        self._run, self._next = run, 1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / "lock")
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UnwritableFileError(
                f"another run follows {folder}; wait for its end, or take another folder"
            ) from None
        except OSError as error:
            raise UnwritableFileError(f"{folder} can't be written: {error}") from None
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Make the changes that runs before have made."""
        while (answer := self.answer(self._next)) is not None:
            if DONE in answer:
                try:
                    self._make(self._next)
                except EverqueryError as error:
                    raise InvalidNetworkError(
                        f"{self._change(self._next)} was made before, and can't be now: {error}."
                        " Take another folder for a network that is another"
                    ) from None
            self._next += 1
        self._tell(self.network, self._run.network.dump())

    def close(self) -> None:
        """Let another run follow the folder."""
        self._lock.release()

    def follow(self, batches: int) -> list[tuple[str, pa.Table]]:
        """Make the changes that have come; return what they give, by output, in their order.

        Parameters
        ----------
        batches : int
            How many the run has taken in: what the answers say.
        """
        found: list[tuple[str, pa.Table]] = []
        while self._change(self._next).exists():
            try:
                found += self._make(self._next).items()
                answer: dict[str, Any] = {DONE: batches}
            except EverqueryError as error:
                answer = {REFUSED: str(error)}
            self._tell(self.network, self._run.network.dump())
            self._tell(self._answer(self._next), yaml_form.text_of(answer))
            self._next += 1
        return found

    def _make(self, number: int) -> dict[str, pa.Table]:
        change, where = yaml_form.read_form(self._change(number))
        if change.get("detach"):
            return self._run.detach(*change["detach"])
        yaml_form.check_sections(change, ("attach", "begin"), f"{where} has", "a change has")
        form = yaml_form.section(change, "attach")
        boxes, outputs = (yaml_form.section(form, name) for name in ("boxes", "outputs"))
        return self._run.attach(boxes, outputs, begin=change.get("begin", NOW))

    def _tell(self, path: Path, text: str) -> None:
        try:
            _unfinished(self.folder, text).replace(path)
        except OSError as error:
            raise UnwritableFileError(f"{path} can't be written: {error}") from None


def begin_of(text: str) -> Any:  # noqa: ANN401 - a word or a time
    """Return a begin as `Run.attach` takes it: a word, a number, or a moment in ISO 8601.

    Examples
    --------
    >>> begin_of("oldest"), begin_of("60"), begin_of("2026-03-01 12:00:00")
    ('oldest', 60, datetime.datetime(2026, 3, 1, 12, 0))
    """
    kinds: tuple[Callable[[str], Any], ...] = (int, float, datetime.fromisoformat)
    for read in kinds:
        try:
            return read(text)
        except ValueError:
            continue
    if text not in (NOW, OLDEST):
        raise InvalidNetworkError(f"begin is {text!r}; it is {NOW}, {OLDEST} or a time")
    return text


def _unfinished(folder: Path, text: str) -> Path:
    """Return a file with a text, which nobody reads before it has its name."""
    descriptor, name = tempfile.mkstemp(prefix=".", dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    return Path(name)


def _placed(whole: Path, path: Path) -> bool:
    """Give a file its name, unless another has it."""
    try:
        path.hardlink_to(whole)
    except FileExistsError:
        return False
    whole.unlink()
    return True
