"""Where tests keep files that need no device: thousands of flushes take minutes on a disk with other work."""

from __future__ import annotations

import os
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")


def memory_folder() -> Path | None:
    """Return a directory in memory, or None where the system has none: `tempfile` then takes its own."""
    return _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
