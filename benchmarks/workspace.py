"""The folder that a run writes to, and no other."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .machine import file_system

if TYPE_CHECKING:
    from collections.abc import Generator

_IN_MEMORY = Path("/dev/shm")


def default_base(needed_bytes: int) -> Path:
    """Memory where there is room for `needed_bytes` twice over, so that no disk has a say; else temp."""
    if (
        _IN_MEMORY.is_dir()
        and min(shutil.disk_usage(_IN_MEMORY).free, _available_memory()) > 2 * needed_bytes
    ):
        return _IN_MEMORY
    return Path(tempfile.gettempdir())


def disk_base(data_dir: Path | None) -> Path | None:
    """The first of the usual folders for data that is not in memory; None if all of them are."""
    candidates = [data_dir, Path("/var/tmp"), Path(tempfile.gettempdir()), Path.home()]
    on_disk = (each for each in candidates if each and each.is_dir() and not _is_in_memory(each))
    return next(on_disk, None)


def _is_in_memory(folder: Path) -> bool:
    return file_system(folder) in {"tmpfs", "ramfs"}


@contextmanager
def workspace(base: Path) -> Generator[Path]:
    """A new folder in `base`, removed at the end with all that is in it."""
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidelog-benchmarks-", dir=base) as folder:
        yield Path(folder)


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
