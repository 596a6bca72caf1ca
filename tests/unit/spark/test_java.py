"""Java is found, installed or asked for; the programs only pretend, in a PATH of their own."""

import os
import subprocess
from pathlib import Path

import pytest

from everquery.errors import JavaMissingError
from everquery.spark.java import require_java

SCRIPT = Path(__file__).parents[3] / "scripts" / "java"
JAVAS = {
    8: 'java version "1.8.0_392"',
    11: 'openjdk version "11.0.2" 2019-01-15',
    17: 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.15" 2025-04-15',
    21: 'openjdk version "21" 2023-09-19',
    25: 'openjdk version "25-ea" 2025-09-16',
}


def program(folder, name, body):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)
    return folder


def java(folder, version):
    return program(folder, "java", f"cat >&2 <<'END'\n{JAVAS[version]}\nEND")


@pytest.fixture
def tools(tmp_path):
    """A folder with what the script calls, on a machine where we may install nothing."""
    folder = program(tmp_path / "tools", "id", "echo 1000")
    for name in ("cat", "env", "touch"):
        (folder / name).symlink_to(next(p for p in (Path("/bin") / name, Path("/usr/bin") / name)
                                        if p.exists()))  # fmt: skip
    program(folder, "sudo", "exit 1")
    return folder


def run(*path, **variables):
    variables["PATH"] = os.pathsep.join(map(str, path))
    return subprocess.run(["/bin/sh", SCRIPT], env=variables, capture_output=True, text=True)


@pytest.mark.parametrize("version", [17, 21, 25])
def test_a_new_java_of_path_is_taken(tmp_path, tools, version):
    folder = java(tmp_path / "home" / "bin", version)
    assert run(tools, folder).returncode == 0
    assert require_java({"PATH": f"{folder}:{tools}"}) == folder.parent


@pytest.mark.parametrize("version", [8, 11])
def test_an_old_java_will_not_do(tmp_path, tools, version):
    folder = java(tmp_path / "home" / "bin", version)
    ran = run(tools, folder)
    assert ran.returncode == 1
    assert "apt-get install openjdk-17-jre-headless" in ran.stderr
    with pytest.raises(JavaMissingError, match=rf"is Java {version}.*openjdk-17-jre-headless"):
        require_java({"PATH": str(folder)})


def test_no_java_at_all(tools):
    assert run(tools).returncode == 1
    with pytest.raises(JavaMissingError, match="PATH has no java"):
        require_java({"PATH": str(tools)})


def test_java_home_comes_first_and_path_helps_where_it_is_too_old(tmp_path, tools):
    old, new = java(tmp_path / "old" / "bin", 11), java(tmp_path / "new" / "bin", 17)
    assert run(tools, old, JAVA_HOME=str(new.parent)).returncode == 0
    assert require_java({"PATH": str(old), "JAVA_HOME": str(new.parent)}) == new.parent
    assert run(tools, new, JAVA_HOME=str(old.parent)).returncode == 0
    assert require_java({"PATH": str(new), "JAVA_HOME": str(old.parent)}) == new.parent


def test_a_java_that_does_not_start_is_none(tmp_path, tools):
    folder = program(tmp_path / "broken", "java", "exit 127")
    assert run(tools, folder).returncode == 1
    with pytest.raises(JavaMissingError, match="is no Java"):
        require_java({"PATH": str(folder)})


@pytest.mark.parametrize("who", ["root", "sudo"])
def test_where_we_may_one_is_installed(tmp_path, tools, who):
    if who == "root":
        program(tools, "id", "echo 0")
    else:
        program(tools, "sudo", f'[ "$1" = -n ] && exit 0\ntouch {tmp_path}/sudo\nexec "$@"')
    # The first package is not to be had; the second brings a Java.
    body = f"""case "$*" in
      *openjdk-17*) exit 100 ;;
      *openjdk-21*) touch {tmp_path}/installed ;;
    esac"""
    program(tools, "apt-get", body)
    java_body = f"[ -e {tmp_path}/installed ] || exit 127\necho 'version \"21.0.1\"'"
    program(tools, "java", java_body)
    assert run(tools).returncode == 0
    assert (tmp_path / "sudo").exists() == (who == "sudo")


def test_an_installation_that_fails_says_what_to_install(tools):
    program(tools, "id", "echo 0")
    program(tools, "apt-get", "exit 100")
    ran = run(tools)
    assert ran.returncode == 1
    assert "dnf install" in ran.stderr
