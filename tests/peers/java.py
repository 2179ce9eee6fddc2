"""The Java runtime of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from typing import NamedTuple

from tests.deadlines import DEADLINE_S

from .unavailable import PeerUnavailableError

# For a program that lives for seconds: without the optimizing compiler it starts with half the work.
QUICK_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_MAJOR = re.compile(r'version "(?:1\.)?(\d+)')


class JavaVersion(NamedTuple):
    """What `java -version` prints, and the major version in it: None if it names none."""

    text: str
    major: int | None


@cache
def java_version(java: str) -> JavaVersion:
    """Return the version of a `java`, with an empty text if it cannot be run."""
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return JavaVersion("", None)
    text = told.stderr + told.stdout
    found = _MAJOR.search(text)
    return JavaVersion(text, int(found[1]) if found else None)


def find_java(peer: str, at_least: int = 17) -> str:
    """The path of a `java` that can run `peer`.

    Raises PeerUnavailableError when there is none, or none of major version `at_least` or newer.
    """
    java = shutil.which("java")
    if java is None:
        raise PeerUnavailableError(peer, f"no `java` is on the PATH; install a Java {at_least} runtime")
    major = java_version(java).major
    if major is None:
        raise PeerUnavailableError(peer, f"`{java} -version` names no version")
    if major < at_least:
        raise PeerUnavailableError(peer, f"`{java}` is Java {major}, and it needs Java {at_least} or newer")
    return java
