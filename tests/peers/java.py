"""The Java runtime of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache

from .unavailable import PeerUnavailableError

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@cache
def _major_version(java: str) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=180, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told.stderr + told.stdout)
    return int(found[1]) if found else None


def find_java(peer: str, at_least: int = 17) -> str:
    """The path of a `java` that can run `peer`.

    Raises PeerUnavailableError when there is none, or none of major version `at_least` or newer.
    """
    java = shutil.which("java")
    if java is None:
        raise PeerUnavailableError(peer, f"no `java` is on the PATH; install a Java {at_least} runtime")
    major = _major_version(java)
    if major is None:
        raise PeerUnavailableError(peer, f"`{java} -version` names no version")
    if major < at_least:
        raise PeerUnavailableError(peer, f"`{java}` is Java {major}, and it needs Java {at_least} or newer")
    return java
