"""Environments as a user has them: tidelog from its wheel, other distributions installed beside it by pip.

What tidelog depends on is that of this environment, so that no index is asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import clean_environment

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("kernel", "plugins", "testing")
PURE = {**os.environ, "TIDELOG_PURE": "1"}


def copy_of_sources(folder: Path) -> Path:
    """A copy of what a distribution is built from, so that the checkout stays as it is."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("src", *SOURCES):
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    return folder


def built_wheel(copy: Path) -> Path:
    """The wheel of a copy of the sources, built without network and without a compiler."""
    build = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=copy, env=PURE, check=True, capture_output=True)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@attrs.frozen
class FreshEnvironment:
    """A virtual environment in `folder`."""

    folder: Path

    @classmethod
    def with_tidelog(cls, folder: Path) -> FreshEnvironment:
        """Create it, with tidelog's wheel."""
        source = folder / "source"
        source.mkdir(parents=True)
        environment = cls(folder / "venv")
        venv.create(environment.folder, symlinks=True)
        (site,) = environment.folder.glob("lib/python*/site-packages")
        # Behind its own packages; no file like this one is read there, so the editable tidelog is not found.
        (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
        environment.install([built_wheel(copy_of_sources(source))])
        return environment

    def install(self, projects: Iterable[Path]) -> None:
        """Install projects or wheels, nothing from an index."""
        options = ("--no-deps", "--no-build-isolation", "--no-index", "--no-compile", "--quiet")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.folder)
        done = subprocess.run(
            [*pip, "install", *options, "--force-reinstall", *map(str, projects)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *command: str, folder: Path, extra: Mapping[str, str] | None = None) -> str:
        """Run a command of Python's, such as `-m mypy`, to a success; return what it printed."""
        done = subprocess.run(
            [self.folder / "bin" / "python", *command],
            cwd=folder,
            env=clean_environment(extra),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout
