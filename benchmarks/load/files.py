"""How many files and sockets the process of a load may have open."""

from __future__ import annotations

import resource


def allow_files(count: int) -> None:
    """Raise the limit to `count`, or as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
