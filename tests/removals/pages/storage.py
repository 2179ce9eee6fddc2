"""What docs/storage.md claims, taken out of the code."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"

REMOVALS: Final = (
    Removal(
        "A partition is a directory of segments, files named by the base offset in 20 digits",
        f"{_FILE}/names.py",
        'return f"{base_offset:020d}{suffix}"',
        'return f"{base_offset:019d}{suffix}"',
        "plugins/storage_file/test_names.py",
    ),
)
