"""Small Node programs with a client from the npm registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import PeerUnavailableError, peers_cache

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SOURCES = Path(__file__).parent / "node"


def run_node(program: str, package: str, arguments: Sequence[str], stdin: str) -> str:
    """What `program` of the folder `node` prints, run with `package` (name@version).

    Raises as `node_command`, and AssertionError when the program fails.
    """
    command, environment = node_command(program, package, arguments)
    ended = subprocess.run(
        command,
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stderr or ended.stdout
    return ended.stdout


def node_command(
    program: str, package: str, arguments: Sequence[str]
) -> tuple[Sequence[str], Mapping[str, str]]:
    """The command line of a program, and what its environment needs beside ours.

    Skips without Node; raises PeerUnavailableError without the package.
    """
    try:
        return node_with(_SOURCES / program, [package], arguments)
    except NoNodeError as error:
        pytest.skip(str(error))


class NoNodeError(PeerUnavailableError):
    """There is no Node or no npm."""


def node_with(
    program: Path, packages: Sequence[str], arguments: Sequence[str]
) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the command line of a program with some packages, and what its environment needs beside ours.

    Raises NoNodeError without Node, PeerUnavailableError without a package.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NoNodeError("Node", "no `node` or no `npm` is on the PATH")
    modules = str(_installed(npm, packages) / "node_modules")
    return [node, str(program), *arguments], {"NODE_PATH": modules}


def _installed(npm: str, packages: Sequence[str]) -> Path:
    """Return the folder with the packages, installed into the cache by the first who asks."""
    folder = peers_cache() / f"npm-{'+'.join(packages).replace('/', '-')}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as aside:
        command = [npm, "install", "--no-audit", "--no-fund", "--no-save", "--prefix", aside, *packages]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        if ended.returncode != 0:
            raise PeerUnavailableError(packages[0], f"npm failed: {ended.stderr.strip()}")
        shutil.copytree(aside, folder, dirs_exist_ok=True)
    return folder
