"""What the sinks of a running broker do, in a file in its data directory, for `tidelog sinks`.

It is written when something has changed, once a second at most, and is gone when the broker has stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tidelog.kernel import disk
from tidelog.kernel.config.directories import data_directories

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.sinks.statistics import SinkStatistics

FILE_NAME: Final = "tidelog-sinks.json"


def status_file(config: Config) -> Path | None:
    """Return the file in the first data directory, None if the storage has no files."""
    folder = next(iter(data_directories(config)), None)
    return folder / FILE_NAME if folder is not None and folder.is_dir() else None


def write_status(file: Path, statistics: Mapping[str, SinkStatistics]) -> None:
    """Replace the file.

    Raises:
        OSError: the disk refuses.
    """
    found = {"pid": os.getpid(), "sinks": {name: _described(each) for name, each in statistics.items()}}
    draft = file.with_name(file.name + disk.TEMPORARY_SUFFIX)
    disk.write_file(draft, json.dumps(found, indent=1).encode(), durable=False)
    # So that a reader finds the old content or the new, and never a part.
    disk.rename(draft, file)


def read_status(file: Path) -> dict[str, dict[str, Any]]:
    """Return what each sink of the running broker does, by KIND.NAME; empty if no broker runs.

    Raises:
        OSError: there is a file, which cannot be read; that of a broker of another user, for example.
    """
    try:
        found = json.loads(file.read_text())
        if _is_running(found["pid"]):
            return cast("dict[str, dict[str, Any]]", found["sinks"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # A file that is not whole is that of a broker that was stopped by the end of its machine.
        pass
    return {}


def _described(statistics: SinkStatistics) -> dict[str, object]:
    return {**attrs.asdict(statistics), "state": statistics.state.value}


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    # There is such a process, of another user.
    except PermissionError:
        pass
    return True
