"""A disk for tests that simulate what it holds, or do not care."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.plugins.storage_file.testing.interposing import Interposer


class Unsynced(Interposer):
    """Waits for no device: a real sync would only take time."""

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Leave syncs out."""
        return None if name in ("fsync", "sync_data") else perform(*arguments)
