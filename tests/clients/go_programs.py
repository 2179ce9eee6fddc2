"""Small Go programs with a client from the Go module proxy."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import PeerUnavailableError, peers_cache

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILD_TIMEOUT_S = 300.0
_SOURCES = Path(__file__).parent / "go"


def run_go(program: str, module: str, arguments: Sequence[str], stdin: str) -> str:
    """What `program` of the folder `go` prints, built with the package `module` (path@version).

    Skips without Go, raises PeerUnavailableError without the module, AssertionError when the program fails.
    """
    go = shutil.which("go")
    if go is None:
        pytest.skip("no `go` is on the PATH")
    ended = subprocess.run(
        [str(_built(go, program, module)), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stderr or ended.stdout
    return ended.stdout


def _built(go: str, program: str, module: str) -> Path:
    """The program, built into the cache by the first who asks."""
    source = (_SOURCES / program / "main.go").read_bytes()
    digest = hashlib.sha256(source + module.encode()).hexdigest()[:12]
    built = peers_cache() / f"go-{program}-{digest}"
    if built.is_file():
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{built.name}.", dir=built.parent) as aside:
        Path(aside, "main.go").write_bytes(source)
        for command in (["mod", "init", program], ["get", module], ["build", "-o", "program", "."]):
            ended = subprocess.run(
                [go, *command], cwd=aside, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
            )
            if ended.returncode != 0:
                raise PeerUnavailableError(module, f"go {command[0]} failed: {ended.stderr.strip()}")
        Path(aside, "program").replace(built)
    return built
