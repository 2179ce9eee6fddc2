"""Disks that become full and have room again.

As root on Linux it is a file system in memory, whose size is what it holds: even one byte more is refused,
also to the processes that rewrite segments. Where that cannot be mounted, the broker's own file operations
are refused while a mark exists.
"""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from tidelog.plugins.storage_file.testing.interposing import Interposer

if TYPE_CHECKING:
    from collections.abc import Callable

MARK_VARIABLE: Final = "FULL_DISK_MARK"
_LARGEST_BYTES: Final = 8 << 30
"""Memory is used for what is written only."""
_SECONDS: Final = 30
_ATTEMPTS: Final = 20


class RefusingDisk(Interposer):
    """Refuses what takes room, with ENOSPC, while `mark` exists."""

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self._mark = mark

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Refuse or perform a call."""
        creates = name == "open_file" and arguments[1] & os.O_CREAT and not Path(arguments[0]).exists()
        if (creates or name in ("pwrite", "preallocate", "mkdir")) and self._mark.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return perform(*arguments)


@attrs.define
class FullDisk:
    """The disk of a broker whose directories are in `folder`; `mark` is beside it."""

    folder: Path
    is_mounted: bool = False

    @property
    def mark(self) -> Path:
        """What a `RefusingDisk` looks for."""
        return self.folder.with_name("disk-is-full")

    def mount(self) -> None:
        """Mount a file system in memory, if that is allowed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.is_mounted = not self._run("mount", "-t", "tmpfs", "-o", f"size={_LARGEST_BYTES}", "tmpfs")

    def unmount(self) -> None:
        """Unmount it: what it holds is lost."""
        if self.is_mounted:
            self.is_mounted = bool(self._run("umount", "--lazy"))

    def fill(self) -> None:
        """Leave no room."""
        if not self.is_mounted:
            self.mark.touch()
            return
        for _ in range(_ATTEMPTS):
            status = os.statvfs(self.folder)
            if self._resize((status.f_blocks - status.f_bfree) * status.f_frsize):
                return

    def free(self) -> None:
        """Leave much room."""
        self.mark.unlink(missing_ok=True)
        if self.is_mounted:
            self._resize(_LARGEST_BYTES)

    def _resize(self, size: int) -> bool:
        """Return whether it was done: it is refused if more was written meanwhile."""
        return not self._run("mount", "-o", f"remount,size={size}")

    def _run(self, *command: str) -> int:
        try:
            return subprocess.run(
                [*command, str(self.folder)], capture_output=True, check=False, timeout=_SECONDS
            ).returncode
        except FileNotFoundError:
            return 1
