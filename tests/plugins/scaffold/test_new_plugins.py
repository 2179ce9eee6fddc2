"""`tidelog plugin new` writes packages that pass their linters, type checker and tests as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fresh_environment import FreshEnvironment
from tests.kernel.cli.running import tidelog_in_process
from tests.tables import for_each
from tidelog.plugins.scaffold.package import MOST_CHARACTERS, SEAMS

NAMES = ("a", "tide-{}", "x" * MOST_CHARACTERS)
"""The shortest, one as usual and the longest: names make lines longer and shorter."""
CHECKED = ("sink", "storage")
"""One for each way in which suites are found: by the hook, and by the default."""


def new(name: str, seam: str, folder: Path) -> Path:
    """A new package."""
    done = tidelog_in_process("plugin", "new", name, "--seam", seam, "--directory", str(folder))
    assert done.returncode == 0, done.stderr
    return folder / name


def test_plugin_new_writes_what_ruff_neither_refuses_nor_formats(tmp_path: Path) -> None:
    for name in NAMES:
        for seam in SEAMS:
            new(name.format(seam), seam, tmp_path / seam)
    for command in ("check", "format --check"):
        done = subprocess.run(
            [Path(sys.executable).with_name("ruff"), *command.split(), tmp_path, "--no-cache"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.rglob("plugin.py"))) == len(NAMES) * len(SEAMS)
    left = [path for path in tmp_path.rglob("*") if path.is_file() and "skeleton" in path.read_text().lower()]
    assert left == []


def test_plugin_new_prints_the_files_and_what_comes_next(tmp_path: Path) -> None:
    done = tidelog_in_process("plugin", "new", "tide-log", "--seam", "sink", "--directory", str(tmp_path))
    printed = done.stdout.splitlines()
    made = sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())
    assert sorted(line for line in printed if line.startswith(str(tmp_path))) == made
    assert "  tidelog plugins check tide-log" in printed


@for_each("name", ["", "Tide", "tide_log", "-tide", "tide-", "a--b", "1a", "../x", "a b", "é", "x" * 25])
def test_plugin_new_refuses_what_is_no_name(name: str, tmp_path: Path) -> None:
    done = tidelog_in_process("plugin", "new", "--seam", "sink", "--directory", str(tmp_path), "--", name)
    assert done.returncode == 2
    assert "is not a letter and up to 23 further" in done.stderr
    assert list(tmp_path.iterdir()) == []


@for_each("name", ["class", "json", "tidelog", "tests"])
def test_plugin_new_refuses_names_that_have_a_meaning(name: str, tmp_path: Path) -> None:
    done = tidelog_in_process("plugin", "new", name, "--seam", "sink", "--directory", str(tmp_path))
    assert done.returncode == 2
    assert f"{name} is the name of something else in Python" in done.stderr


def test_plugin_new_overwrites_nothing(tmp_path: Path) -> None:
    (new("tide", "index", tmp_path) / "README.md").write_text("mine")
    done = tidelog_in_process("plugin", "new", "tide", "--seam", "index", "--directory", str(tmp_path))
    assert done.returncode == 1
    assert "exists already; choose another NAME or --directory" in done.stderr
    assert (tmp_path / "tide" / "README.md").read_text() == "mine"


@pytest.mark.long
def test_plugin_new_passes_types_tests_and_suite_in_a_fresh_environment(tmp_path: Path) -> None:
    environment = FreshEnvironment.with_tidelog(tmp_path / "environment")
    packages = {seam: new(f"tide-{seam}", seam, tmp_path) for seam in SEAMS}
    environment.install(packages.values())
    # All at once take mypy a second more than one.
    sources = [str(folder / part) for folder in packages.values() for part in ("src", "tests")]
    environment.run(
        "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "mypy"), *sources, folder=tmp_path
    )
    environment.run(
        "-m", "pytest", "-q", *[f"{each}/tests" for each in packages.values()], folder=packages["sink"]
    )
    for seam in CHECKED:
        printed = environment.run("-m", "tidelog.kernel", "plugins", "check", f"tide-{seam}", folder=tmp_path)
        assert " passed" in printed
        assert " failed" not in printed
