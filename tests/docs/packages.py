"""Examples of plugins as packages of their own: the `pyproject.toml` of docs/plugins.md, installed by pip."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

from tests.docs.examples import examples_of

_PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
# Into a folder of its own, with nothing from an index and with the setuptools that is here.
_ALONE = ("--no-deps", "--no-build-isolation", "--no-index", "--no-compile")


def project_of(module: str) -> str:
    """The `pyproject.toml` that docs/plugins.md shows, for a plugin in `module`."""
    (shown,) = [item.text for item in examples_of("plugins.md") if item.file_name == "pyproject.toml"]
    return shown.replace("tide_gauge", module).replace("tide-gauge", module.replace("_", "-"))


def install(sources: Iterable[tuple[str, str]], folder: Path) -> Path:
    """Install a distribution for each module (name and source), all by one call of pip; return where."""
    site, projects = folder / "site", list[Path]()
    for module, source in sources:
        project = folder / "projects" / module
        project.mkdir(parents=True)
        (project / "pyproject.toml").write_text(project_of(module))
        (project / f"{module}.py").write_text(source)
        projects.append(project)
    command = [sys.executable, *_PIP, *_ALONE, "--target", str(site), *map(str, projects)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return site


def write_installed(sources: Iterable[tuple[str, str]], site: Path) -> Path:
    """Write what `install` makes, of what Python looks at; return where.

    To build a distribution takes seconds, which `install` does for one where the build is what is tested.
    """
    for module, source in sources:
        project = tomllib.loads(project_of(module))["project"]
        folder = site / f"{module}-{project['version']}.dist-info"
        folder.mkdir(parents=True)
        (site / f"{module}.py").write_text(source)
        (folder / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        lines = [
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in found.items())
            for group, found in project["entry-points"].items()
        ]
        (folder / "entry_points.txt").write_text("".join(lines))
        files = (f"{module}.py", f"{folder.name}/METADATA", f"{folder.name}/entry_points.txt")
        (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return site


def copy_installed(module: str, site: Path, to: Path) -> None:
    """Copy all files of the distribution that has `module` to another folder."""
    (found,) = [each for each in distributions(path=[str(site)]) if module in each.entry_points.names]
    for file in found.files or ():
        target = to / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(site / file, target)
    importlib.invalidate_caches()
