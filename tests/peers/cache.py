"""Where fetched peers are kept between runs."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

CACHE_VARIABLE = "PEERS_CACHE"


def peers_cache() -> Path:
    """Where fetched peers live: `$PEERS_CACHE`, else `tidelog/peers` in the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    user_cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(user_cache) if user_cache else Path.home() / ".cache") / "tidelog" / "peers"


@contextmanager
def exclusive(lock_file: Path) -> Generator[None]:
    """Hold `lock_file` against every other process; its folder must exist. Waits as long as it takes.

    The lock ends with its holder, even one that was killed, so a stale file never blocks anybody.
    """
    with lock_file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
