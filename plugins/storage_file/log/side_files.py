"""Files beside a partition's segments: producer snapshots and the leader-epoch checkpoint.

The kernel knows their content; here they are only stored, atomically and durably. The names are read once
when the partition is opened, so that a lookup of a file which is not there costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from tidelog.kernel import disk
from tidelog.plugins.storage_file.names import SIDE_FILES, is_side_file


class SideFiles:
    """The side files of one partition."""

    __slots__ = ("_names", "_writing", "directory")

    def __init__(self, directory: str, names: Iterable[str]) -> None:
        """`names` are the existing side files."""
        self.directory = directory
        self._names = set(names)
        self._writing = threading.Lock()

    def names(self) -> Sequence[str]:
        """Return all names, sorted."""
        return sorted(self._names)

    def read(self, name: str) -> bytes | None:
        """Return the content, None when there is no such file."""
        return disk.read_file(f"{self.directory}/{name}") if name in self._names else None

    def write(self, name: str, content: bytes) -> None:
        """Blocking: replace atomically and durably.

        Raises:
            ValueError: the name is not one of a side file.
        """
        if not is_side_file(name) or "/" in name:
            raise ValueError(f"{name!r} is no side file: {', '.join(SIDE_FILES)} and *.snapshot are")
        with self._writing:
            disk.replace_file(f"{self.directory}/{name}", content)
            self._names.add(name)

    def delete(self, name: str, *, durable: bool) -> None:
        """Blocking: remove a file, durably with `durable`; no error when it is missing."""
        if name in self._names:
            disk.remove_if_there(f"{self.directory}/{name}")
            self._names.discard(name)
            if durable:
                disk.sync_directory(self.directory)
