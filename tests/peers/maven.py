"""Jars from Maven Central by their coordinates, fetched once and kept in the cache."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import attrs

from .cache import exclusive, peers_cache
from .unavailable import PeerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

_COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"
# Nearly a hundred jars over a slow line; beyond that the network is as good as missing.
_FETCH_TIMEOUT_S = 600.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_HELP = " -> [Help 1]"
_NOT_THERE = re.compile(r"was not found in|Could not find artifact")
_NO_NETWORK = re.compile(r"Could not transfer|Unknown host|timed out|refused")
_PART = re.compile(r"[A-Za-z0-9_.\-]+")

_failures: dict[Path, PeerUnavailableError] = {}


@attrs.frozen
class Coordinates:
    """What names one artifact: `group:artifact:version`."""

    group: str
    artifact: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Read `group:artifact:version`; raises ValueError for anything else."""
        parts = text.split(":")
        if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
            raise ValueError(f"{text!r} is not of the form group:artifact:version")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def resolve_jars(*coordinates: str, alone: bool = False) -> Path:
    """A folder that holds the jars of `coordinates` and, unless `alone`, of all that they need at run time.

    The first call fetches them with `mvn`; every later one, of any process, finds them in the cache and
    needs neither Maven nor a network. A failure is remembered until the process ends, so that a suite
    without a network waits for it once.

    Raises PeerUnavailableError when they cannot be had, ValueError for malformed coordinates.
    """
    wanted = [Coordinates.parse(each) for each in coordinates]
    if not wanted:
        raise ValueError("name at least one artifact as group:artifact:version")
    folder = peers_cache() / _folder_name(wanted, alone)
    if folder.is_dir():
        return folder
    if folder in _failures:
        raise _failures[folder]
    try:
        _fetch_once(wanted, folder, alone)
    except PeerUnavailableError as error:
        _failures[folder] = error
        raise
    return folder


def _folder_name(wanted: Sequence[Coordinates], alone: bool) -> str:
    told = "\n".join([*sorted(map(str, wanted)), *(["alone"] if alone else [])])
    digest = hashlib.sha256(told.encode()).hexdigest()[:12]
    return f"{wanted[0].artifact}-{wanted[0].version}-{digest}"


def _fetch_once(wanted: Sequence[Coordinates], folder: Path, alone: bool) -> None:
    peer = str(wanted[0])
    mvn = shutil.which("mvn")
    if mvn is None:
        raise PeerUnavailableError(peer, f"no `mvn` is on the PATH and {folder} is not there; install Maven")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.with_name(folder.name + ".lock")):
            if not folder.is_dir():
                _fetch(mvn, wanted, folder, alone)
    except OSError as error:
        raise PeerUnavailableError(peer, f"the cache {folder.parent} cannot be used: {error}") from error


def _fetch(mvn: str, wanted: Sequence[Coordinates], folder: Path, alone: bool) -> None:
    """Fetch into a folder aside and rename it: whoever sees `folder` sees all of it."""
    with tempfile.TemporaryDirectory(prefix=folder.name + ".", dir=folder.parent) as aside:
        pom = Path(aside, "pom.xml")
        jars = Path(aside, "jars")
        pom.write_text(render_pom(wanted, alone=alone), encoding="utf-8")
        _run_maven([mvn, "-q", "-B", "-f", str(pom), _COPY_DEPENDENCIES, f"-DoutputDirectory={jars}"], wanted)
        if not any(jars.glob("*.jar")):
            raise PeerUnavailableError(str(wanted[0]), "Maven ended well but left no jar")
        jars.rename(folder)


def _run_maven(command: Sequence[str], wanted: Sequence[Coordinates]) -> None:
    peer = str(wanted[0])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(
            peer, f"Maven did not fetch it within {_FETCH_TIMEOUT_S:.0f} s; is the network there?"
        ) from error
    if done.returncode != 0:
        cause = _first_error(done.stdout + done.stderr)
        raise PeerUnavailableError(peer, f"Maven could not fetch it: {cause}{_remedy(cause, wanted[0])}")


def _first_error(output: str) -> str:
    # Maven colours its output also where no terminal is.
    lines = [_COLOUR.sub("", line).strip() for line in output.splitlines()]
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return next((error.removesuffix(_HELP) for error in errors if error), "\n".join(lines).strip()[-500:])


def _remedy(cause: str, wanted: Coordinates) -> str:
    """What to do about it, where the cause does not say so."""
    if _NOT_THERE.search(cause):
        folder = f"{wanted.group.replace('.', '/')}/{wanted.artifact}"
        return f"; take a version that https://repo.maven.apache.org/maven2/{folder}/ lists"
    if _NO_NETWORK.search(cause):
        return "; is there a network, or a mirror of Maven Central in ~/.m2/settings.xml?"
    return ""


def render_pom(wanted: Sequence[Coordinates], *, alone: bool = False) -> str:
    """A project that depends on `wanted`, if `alone` without what that depends on, and is nothing else."""
    all_of_them = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    exclusions = f"<exclusions>{all_of_them}</exclusions>" if alone else ""
    dependencies = "\n".join(
        f"    <dependency><groupId>{escape(each.group)}</groupId>"
        f"<artifactId>{escape(each.artifact)}</artifactId><version>{escape(each.version)}</version>"
        f"{exclusions}</dependency>"
        for each in wanted
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n'
        "  <modelVersion>4.0.0</modelVersion>\n"
        "  <groupId>tidelog.peers</groupId><artifactId>peers</artifactId><version>1</version>\n"
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</project>\n"
    )
