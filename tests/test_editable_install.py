"""`pip install -e .`: compiled where it can be, and every type checker finds what plugins import."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.fresh_environment import ROOT, copy_of_sources
from tidelog import __version__
from tidelog.kernel import compiled

pytestmark = pytest.mark.long

MYPY = (sys.executable, "-m", "mypy", "--config-file=", "--strict", "--python-executable")
PYRIGHT = (sys.executable, "-m", "pyright", "--pythonpath")
EDITABLE = ("--quiet", "--no-deps", "--no-build-isolation", "--editable")
WRONG = """\
from tidelog import __version__
from tidelog.kernel.clock import Clock

assert __version__ + 1
Clock().no_such_method()
"""


def run(*command: object, folder: Path, succeeds: bool = True) -> str:
    """What a command prints, that ends as it should."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")
    }
    done = subprocess.run(
        [str(each) for each in command], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert (done.returncode == 0) is succeeds, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment with a checkout; the libraries are those of this one."""
    checkout, home = copy_of_sources(tmp_path_factory.mktemp("checkout")), tmp_path_factory.mktemp("venv")
    venv.create(home, symlinks=True)
    site = next(home.glob("lib/python*/site-packages"))
    # A path that is added so brings the libraries, but not what is installed there as editable.
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"])
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", *EDITABLE, checkout, folder=home)
    where = run(python, "-c", "import tidelog.kernel; print(tidelog.kernel.__file__)", folder=home)
    assert where.strip() == str(checkout / "src" / "tidelog" / "kernel" / "__init__.py")
    return python


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder elsewhere, with the plugins of docs/hooks.md and no settings of any checker."""
    folder = tmp_path_factory.mktemp("project")
    run(sys.executable, "-m", "tests.docs.examples", "hooks.md", folder, folder=ROOT)
    return folder


def test_the_installed_command_says_what_it_is(python: Path, project: Path) -> None:
    said = run(python.with_name("tidelog"), "--version", folder=project)
    assert said == f"tidelog, version {__version__} ({compiled.described()})\n"


@pytest.mark.parametrize("checker", [MYPY, PYRIGHT], ids=["mypy", "pyright"])
def test_plugins_are_checked_with_the_types_of_tidelog(
    python: Path, project: Path, checker: tuple[str, ...], tmp_path: Path
) -> None:
    run(*checker, python, *sorted(project.glob("*.py")), folder=project)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    said = run(*checker, python, wrong, folder=project, succeeds=False)
    assert {line.split(":")[1] for line in said.splitlines() if "wrong.py:" in line} >= {"4", "5"}
