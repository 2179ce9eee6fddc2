"""`scripts/release.sh`: what it refuses before it writes anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S

SCRIPT = Path(__file__).parents[1] / "scripts/release.sh"
WITHOUT_GIT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
WHO = ("-c", "user.name=tests", "-c", "user.email=tests@example.com", "-c", "commit.gpgsign=false")


def git(repository: Path, *arguments: str) -> None:
    command = ["git", *WHO, *arguments]
    subprocess.run(command, cwd=repository, env=WITHOUT_GIT, check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the script, and a tag of a release."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "scripts").mkdir()
    shutil.copy(SCRIPT, folder / "scripts")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "all")
    git(folder, "tag", "v0.1.0")
    return folder


def prepared(repository: Path, version: str) -> tuple[int, str]:
    """The exit status, and what it says, of a release with a Python that does nothing but fail."""
    command: list[str | Path] = [repository / "scripts/release.sh", "false", version]
    done = subprocess.run(command, env=WITHOUT_GIT, capture_output=True, text=True, timeout=DEADLINE_S)
    return done.returncode, done.stderr


def nothing(repository: Path) -> None:
    pass


def changed(repository: Path) -> None:
    (repository / "notes.txt").write_text("not committed")


@pytest.mark.parametrize(
    ("version", "prepare", "status", "reason"),
    [
        ("", nothing, 2, "make release VERSION=0.1.0: '' is no version"),
        ("v0.2.0", nothing, 2, "'v0.2.0' is no version"),
        ("0.2", nothing, 2, "'0.2' is no version"),
        ("0.2.0; true", nothing, 2, "is no version"),
        ("0.1.0", nothing, 1, "There is a tag v0.1.0 already."),
        ("0.2.0", nothing, 1, ""),
        ("0.2.0rc1", nothing, 1, ""),
        ("0.2.0", changed, 1, "There are changes that are not committed"),
    ],
)
def test_release_refuses_what_would_be_no_release(
    version: str, prepare: Callable[[Path], None], status: int, reason: str, repository: Path
) -> None:
    prepare(repository)
    found, said = prepared(repository, version)
    assert found == status
    # Without a reason it went on to its first command, the Python that fails.
    assert reason in said
    assert bool(said) == bool(reason)
