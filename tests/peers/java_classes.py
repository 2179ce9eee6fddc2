"""Small Java programs, compiled against the jars of a release."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.deadlines import DEADLINE_S

from .cache import exclusive
from .unavailable import PeerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence


def compiled(sources: Sequence[Path], jars: Path) -> Path:
    """Return the folder of the classes of some sources; they are kept beside the jars until a text changes.

    Raises PeerUnavailableError without a JDK, AssertionError with the compiler's messages.
    """
    return _compiled(tuple(sources), jars)


@cache
def _compiled(sources: tuple[Path, ...], jars: Path) -> Path:
    javac = shutil.which("javac")
    if javac is None:
        raise PeerUnavailableError("the Java client", "no `javac` is on the PATH; install a JDK")
    version = hashlib.sha256(f"{Path(javac).resolve()} {jars}".encode())
    for source in sources:
        version.update(source.read_bytes())
    classes = jars.parent / f"java-{sources[0].stem}-{version.hexdigest()[:12]}"
    with exclusive(classes.with_name(classes.name + ".lock")):
        if not classes.exists():
            _compile(javac, sources, jars, classes)
    return classes


def _compile(javac: str, sources: Sequence[Path], jars: Path, classes: Path) -> None:
    with TemporaryDirectory(dir=classes.parent) as unfinished:
        target = Path(unfinished) / "classes"
        target.mkdir()
        ended = subprocess.run(
            [javac, "-nowarn", "-cp", f"{jars}/*", "-d", str(target), *map(str, sources)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert ended.returncode == 0, ended.stderr
        target.rename(classes)
