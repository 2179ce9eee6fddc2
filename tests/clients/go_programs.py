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


def run_go(
    program: str, module: str, arguments: Sequence[str], stdin: str, beside: Sequence[str] = ()
) -> str:
    """What `program` of the folder `go` prints, built with the package `module` (path@version) and others.

    Skips without Go, raises PeerUnavailableError without the module, AssertionError when the program fails.
    """
    if shutil.which("go") is None:
        pytest.skip("no `go` is on the PATH")
    ended = subprocess.run(
        [str(built([_SOURCES / program / "main.go"], [module, *beside])), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stderr or ended.stdout
    return ended.stdout


def built(sources: Sequence[Path], modules: Sequence[str]) -> Path:
    """Return a program, built into the cache by the first who asks, named after its last source.

    Raises PeerUnavailableError without Go or a module.
    """
    go = shutil.which("go")
    if go is None:
        raise PeerUnavailableError(modules[0], "no `go` is on the PATH")
    texts = b"".join(source.read_bytes() for source in sources)
    digest = hashlib.sha256(texts + " ".join(modules).encode()).hexdigest()[:12]
    name = sources[-1].stem if sources[-1].stem != "main" else sources[-1].parent.name
    program = peers_cache() / f"go-{name}-{digest}"
    if program.is_file():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{program.name}.", dir=program.parent) as aside:
        for source in sources:
            shutil.copy(source, aside)
        for command in (["mod", "init", name], ["get", *modules], ["build", "-o", "program", "."]):
            ended = subprocess.run(
                [go, *command], cwd=aside, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
            )
            if ended.returncode != 0:
                raise PeerUnavailableError(modules[0], f"go {command[0]} failed: {ended.stderr.strip()}")
        Path(aside, "program").replace(program)
    return program
