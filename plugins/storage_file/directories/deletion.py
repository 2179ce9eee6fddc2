"""Deferred deletion of renamed files and directories, so that readers that open them by name can finish.

Source: Apache Kafka's `LocalLog` and `LogManager` (asynchronous deletion).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from tidelog.kernel import disk
from tidelog.plugins.storage_file.names import DELETED_SUFFIX

_log = logging.getLogger(__name__)

INTERVAL_MS = 1000
"""Interval of the checks for due deletions."""


class DeletionQueue:
    """Files and directories of one log directory that wait for deletion.

    What is left when the queue is `closed` is deleted at the next start, by its name.
    """

    def __init__(self) -> None:
        self._arrived: deque[tuple[Sequence[str], int]] = deque()
        self._waiting: list[tuple[float, str]] = []
        self._removing = threading.Lock()
        self.closed = False

    def add(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove `paths` after `delay_ms`; any thread may call this."""
        self._arrived.append((paths, delay_ms))

    async def remove_files(self) -> None:
        """Remove the segments' files that are due."""
        await self._run_due(_is_segment_file)

    async def remove_partitions(self) -> None:
        """Remove the directories of partitions that are due."""
        await self._run_due(lambda path: not _is_segment_file(path))

    async def _run_due(self, concerns: Callable[[str], bool]) -> None:
        now = trio.current_time()
        # The delay counts from here: `add` may run in a thread, where trio has no time.
        while self._arrived:
            paths, delay_ms = self._arrived.popleft()
            self._waiting += [(now + delay_ms / 1000, path) for path in paths]
        due = [path for when, path in self._waiting if when <= now and concerns(path)]
        if due:
            # Before the thread: the task that removes the other kind may change the list meanwhile.
            self._waiting = [(when, path) for when, path in self._waiting if when > now or not concerns(path)]
            await trio.to_thread.run_sync(self._remove, due)

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            # Taken for each path, so that `close` waits for one removal and not for all of them.
            with self._removing:
                if self.closed:
                    return
                remove_all([path])

    def close(self) -> None:
        """Blocking: stop deleting, after the end of a deletion in progress.

        Only then may the directory's lock be released: another broker may give its own files the same names.
        """
        # First the flag: the deleting thread could otherwise take the lock again before this one does.
        self.closed = True
        with self._removing:
            pass


def _is_segment_file(path: str) -> bool:
    return path.endswith(DELETED_SUFFIX)


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
