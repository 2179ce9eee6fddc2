"""Removing files some time after they were renamed, so that whoever still opens them by name gets done.

Source: seed 001, "Two-phase `.deleted` removal".
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import trio

from tidelog.plugins.storage_file import disk

_log = logging.getLogger(__name__)

INTERVAL_MS = 1000
"""How often it is looked whether something is due."""


class DeletionQueue:
    """Files and directories that wait for their removal; what still waits at the end goes next time."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[Sequence[str], int]] = deque()
        self._waiting: list[tuple[float, Sequence[str]]] = []

    def add(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove `paths` after `delay_ms`; any thread may call this."""
        self._arrived.append((paths, delay_ms))

    async def run_due(self) -> None:
        """Remove what is due."""
        now = trio.current_time()
        while self._arrived:
            paths, delay_ms = self._arrived.popleft()
            self._waiting.append((now + delay_ms / 1000, paths))
        due = [path for when, paths in self._waiting if when <= now for path in paths]
        self._waiting = [item for item in self._waiting if item[0] > now]
        if due:
            await trio.to_thread.run_sync(remove_all, due)


def remove_all(paths: Sequence[str]) -> None:
    """Blocking: remove files and whole directories; one that cannot be removed is logged and stays."""
    for path in paths:
        try:
            if Path(path).is_dir():
                disk.remove_tree(path)
            else:
                disk.remove_if_there(path)
        except OSError as error:
            _log.error("%s could not be removed: %s", path, error)
