"""Where compiled loops are kept, seen by real processes of a tiny installation."""

import ast
import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import pytest

import everquery
from everquery.core import kernel_folders
from everquery.core.kernel_folders import PACKAGE, Folder, digest_of_sources

ROOT = os.name == "posix" and os.geteuid() == 0
USER = 54321  # the system knows no such user, so it has no home but what HOME says
STRANGER = 54322
NO_HOME = "/dev/null"  # not even root can make a folder there

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled"),
]
as_root = pytest.mark.skipif(not ROOT, reason="only root can be several users")

ROWS = "STEP = 2\n"
HELPER = """
from everquery.core.jit import part

@part
def plus(x):
    return x + 1
"""
LOOPS = """
from everquery.helper import plus
from everquery.core.jit import kernel
from everquery.index.rows import STEP

@kernel
def first(x):
    return plus(x) * STEP

@kernel
def second(x):
    return x - 1
"""
SCRIPT = """
import __future__, dataclasses, json, os, pwd, sys, uuid, warnings
import numba, platformdirs

# Compiling and packing import this and that, maybe from where only root may read.
spare = numba.njit(lambda x: x + 1)
spare(1)
numba.core.serialize.dumps(spare.overloads[spare.signatures[0]]._reduce())
if user := int(sys.argv[1]):
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)

warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as told:
    from everquery.index.loops import first, second
    imported = len(told)
    answers = [first(1), second(1)] + ([first(1.5)] if "floats" in sys.argv else [])
stats = [loop.stats for loop in (first, second)]
print(json.dumps({
    "answers": answers,
    "loaded": sum(sum(each.cache_hits.values()) for each in stats),
    "compiled": sum(sum(each.cache_misses.values()) for each in stats),
    "warned": [str(each.message) for each in told],
    "warned_by_import": imported,
}))
"""


class Installation:
    """A package with everquery's cache and three loops, and users who run it."""

    def __init__(self, root):
        self.root = root
        self.package = root / "lib" / "everquery"
        self.home = root / "home"
        self.home.mkdir(0o700)
        self.own(self.home, USER)
        core, index = self.package / "core", self.package / "index"
        for folder in (core, index):
            folder.mkdir(parents=True)
            (folder / "__init__.py").touch()
        for name in ("jit", "kernel_cache", "kernel_folders", "user_folders"):
            shutil.copy(PACKAGE / "core" / f"{name}.py", core)
        (self.package / "__init__.py").touch()
        (index / "rows.py").write_text(ROWS)
        (index / "loops.py").write_text(LOOPS)
        (self.package / "helper.py").write_text(HELPER)

    def own(self, path, user):
        if ROOT:
            os.chown(path, user, user)

    def own_all(self, folder, user):
        for path in (folder, *folder.rglob("*")):
            self.own(path, user)

    def run(self, *arguments, user=USER, umask=0o022, **environment):
        """Run the loops as a user who, by default, has no home."""
        done = subprocess.run(
            [sys.executable, "-B", "-c", SCRIPT, str(user if ROOT else 0), *arguments],
            env={"PYTHONPATH": str(self.package.parent), "HOME": NO_HOME, **environment},
            cwd="/", umask=umask, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def at_home(self, *arguments, **environment):
        return self.run(*arguments, HOME=str(self.home), **environment)

    def warm(self, user=0, **options):
        """Let who may write the installation run the loops."""
        self.run(user=user, **options)
        (folder,) = self.package.glob("__pycache__/everquery-kernels-*")
        return folder

    def close(self):
        """Let nobody write."""
        for path in (self.package, *self.package.rglob("*")):
            path.chmod(path.stat().st_mode & ~0o222)

    def files(self):
        """Return all files and when they were changed."""
        return {path: path.stat().st_mtime_ns for path in self.root.rglob("*")}


@pytest.fixture
def installation():
    # Not in tmp_path, which other users can't enter.
    root = Path(tempfile.mkdtemp(prefix="everquery-test-"))
    root.chmod(0o755)
    made = Installation(root)
    try:
        yield made
    finally:
        for path in (root, *root.rglob("*")):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(root)


def test_a_warm_installation_is_used_by_those_who_can_only_read_it(installation):
    installation.warm()
    installation.close()
    before = installation.files()
    told = installation.run()
    assert told["loaded"] == 2
    assert told["compiled"] == 0
    assert told["warned"] == []
    assert installation.files() == before


def test_without_home_and_cache_loops_are_compiled_in_memory_with_one_warning(installation):
    installation.close()
    told = installation.run("floats")
    assert told["answers"] == [4, 0, 5.0]
    assert told["warned_by_import"] == 0
    (warning,) = told["warned"]
    assert "everquery warm-up" in warning
    assert "EVERQUERY_CACHE_DIR" in warning
    assert "\n" not in warning


def test_no_home_at_all_is_no_error(installation):
    installation.close()
    assert len(installation.run(HOME="")["warned"]) == 1
    assert len(installation.run(HOME="not/absolute")["warned"]) == 1


def test_a_home_that_is_not_there_is_not_made(installation):
    installation.close()
    home = installation.home / "moved"
    assert len(installation.run(HOME=str(home))["warned"]) == 1
    assert not home.exists()


def test_a_user_has_a_private_folder(installation):
    installation.close()
    first, again = installation.at_home(umask=0), installation.at_home()
    assert first["warned"] == again["warned"] == []
    assert (again["loaded"], again["compiled"]) == (2, 0)
    private = installation.home / ".cache" / "everquery"
    (kernels,) = private.iterdir()
    for folder in (private.parent, private, kernels):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.stat().st_uid == (USER if ROOT else os.geteuid())


def test_the_private_folder_follows_xdg(installation):
    installation.close()
    place = installation.home / "elsewhere"
    installation.at_home(XDG_CACHE_HOME=str(place))
    assert list(place.glob("everquery/everquery-kernels-*/*"))
    installation.at_home(XDG_CACHE_HOME="not/absolute")
    assert list(installation.home.glob(".cache/everquery/everquery-kernels-*/*"))


def test_what_a_warm_installation_lacks_goes_to_the_private_folder(installation):
    installation.warm()
    installation.close()
    first, again = installation.at_home("floats"), installation.at_home("floats")
    assert first["loaded"] == 2
    assert first["compiled"] == 1
    assert again["loaded"] == 3
    assert again["compiled"] == 0


def test_a_chosen_folder_is_the_only_one(installation):
    installation.warm()
    chosen = installation.home / "chosen"
    first = installation.at_home(EVERQUERY_CACHE_DIR=str(chosen))
    again = installation.at_home(EVERQUERY_CACHE_DIR=str(chosen))
    assert first["loaded"] == 0
    assert again["loaded"] == 2
    assert list(installation.home.iterdir()) == [chosen]


@as_root
def test_a_chosen_folder_can_be_warmed_by_root(installation):
    installation.close()
    chosen = str(installation.root / "image" / "cache")
    installation.run(user=0, EVERQUERY_CACHE_DIR=chosen)
    told = installation.run(EVERQUERY_CACHE_DIR=chosen)
    assert (told["loaded"], told["compiled"]) == (2, 0)


def test_files_can_be_written_by_one_user_whatever_the_umask(installation):
    folder = installation.warm(umask=0)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}


@pytest.mark.parametrize(
    ("what", "mode"), [("chosen", 0o020), ("chosen", 0o002), ("kernels", 0o020), ("files", 0o002)]
)
def test_what_others_can_write_is_not_loaded(installation, what, mode):
    chosen = installation.home / "chosen"
    installation.at_home(EVERQUERY_CACHE_DIR=str(chosen))
    (kernels,) = chosen.iterdir()
    for path in {"chosen": [chosen], "kernels": [kernels], "files": kernels.iterdir()}[what]:
        path.chmod(path.stat().st_mode | mode)
    told = installation.at_home(EVERQUERY_CACHE_DIR=str(chosen))
    assert told["loaded"] == 0
    assert told["answers"] == [4, 0]
    if what != "files":  # they are written anew
        assert "others may write to" in told["warned"][0]


def test_a_private_folder_that_others_can_write_is_refused(installation):
    installation.close()
    installation.at_home()
    (installation.home / ".cache" / "everquery").chmod(0o770)
    told = installation.at_home()
    assert told["loaded"] == 0
    assert "others may write to" in told["warned"][0]


def test_a_folder_beside_the_package_that_others_can_write_is_passed_over(installation):
    folder = installation.warm()
    folder.chmod(0o777)
    before = set(folder.iterdir())
    told = installation.at_home("floats")
    assert told["loaded"] == 0
    assert told["warned"] == []
    assert set(folder.iterdir()) == before
    assert list(installation.home.glob(".cache/everquery/*/*"))


@as_root
def test_the_owner_of_the_installation_is_trusted(installation):
    installation.own_all(installation.package, STRANGER)
    installation.warm(user=STRANGER)
    assert installation.run()["loaded"] == 2
    assert installation.run(user=0)["loaded"] == 2


@as_root
@pytest.mark.parametrize(("what", "user"), [("folder", USER), ("files", USER), ("folder", 0)])
def test_what_belongs_to_a_stranger_is_not_loaded(installation, what, user):
    folder = installation.warm()
    for path in [folder] if what == "folder" else folder.iterdir():
        os.chown(path, STRANGER, STRANGER)
    assert installation.run(user=user)["loaded"] == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "answers"),
    [
        ("index/rows.py", "2", "3", [6, 0]),  # a constant, in a file without loops
        ("helper.py", "+ 1", "+ 2", [6, 0]),  # compiled into a loop in another file
        ("index/loops.py", "x - 1", "x - 2", [4, -1]),
    ],
)
def test_no_stale_code_runs_after_a_change_of_the_same_size_and_time(
    installation, file, old, new, answers
):
    installation.warm()
    source = installation.package / file
    status = source.stat()
    source.write_text(source.read_text().replace(old, new))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert installation.run(user=0)["answers"] == answers


@pytest.mark.parametrize("size", [0, -1])
def test_a_damaged_file_is_compiled_anew(installation, size):
    folder = installation.warm()
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:size])
    assert installation.run(user=0)["answers"] == [4, 0]
    assert installation.run()["loaded"] == 2


def test_a_full_disk_is_no_error(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    folder = Folder(tmp_path / "kernels", 0o700)
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        folder.write("loop", b"code")
    assert list(folder.path.iterdir()) == []
    assert folder.read("loop") is None


@pytest.mark.parametrize("module", ["numba", "llvmlite", "np"])
def test_the_digest_covers_what_compiles(monkeypatch, module):
    before = digest_of_sources()
    monkeypatch.setattr(getattr(kernel_folders, module), "__version__", "other")
    assert digest_of_sources() != before


def test_without_source_files_there_is_no_digest_and_no_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_folders, "PACKAGE", tmp_path)
    assert digest_of_sources() is None
    assert kernel_folders.folders(None) == ()


def modules():
    """Return everquery's modules that can be imported here."""
    for found in pkgutil.walk_packages(everquery.__path__, "everquery."):
        if not found.name.startswith("everquery.spark"):
            yield importlib.import_module(found.name)


def test_the_digest_covers_every_file_that_compiled_loops_come_from():
    """Loops, and the constants in them, which Numba compiles in."""
    covered = {str(path) for path in kernel_folders.kernel_sources()}
    functions = {
        value.py_func
        for module in modules()
        for value in vars(module).values()
        if hasattr(value, "py_func")
    }
    assert len(functions) > 100
    for function in functions:
        file = function.__code__.co_filename
        assert file in covered
        for name in function.__code__.co_names:
            origin = imported_from(file, name)
            assert origin is None or origin in covered, f"{name} of {function.__qualname__}"


def imported_from(file, name):
    """Return the file of everquery's that a global name of another is imported from."""
    imports = (
        each for each in ast.parse(Path(file).read_text()).body if type(each) is ast.ImportFrom
    )
    for statement in imports:
        names = {each.asname or each.name for each in statement.names}
        if name in names and statement.module.startswith("everquery"):
            return importlib.import_module(statement.module).__file__
    return None
