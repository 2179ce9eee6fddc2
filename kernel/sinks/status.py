"""What the sinks of a running broker do, in a file in its data directory, for `tidelog sinks`.

It is written when something has changed, once a second at most, and is gone when the broker has stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tidelog.kernel.status_file import read_status_file, status_path, write_status_file

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.sinks.statistics import SinkStatistics

FILE_NAME: Final = "tidelog-sinks.json"


def status_file(config: Config) -> Path | None:
    """Return the file in the first data directory, None if the storage has no files."""
    return status_path(config, FILE_NAME)


def write_status(file: Path, statistics: Mapping[str, SinkStatistics]) -> None:
    """Replace the file.

    Raises:
        OSError: the disk refuses.
    """
    write_status_file(file, {"sinks": {name: _described(each) for name, each in statistics.items()}})


def read_status(file: Path) -> dict[str, dict[str, Any]]:
    """Return what each sink of the running broker does, by KIND.NAME; empty if no broker runs.

    Raises:
        OSError: there is a file, which cannot be read; that of a broker of another user, for example.
    """
    return cast("dict[str, dict[str, Any]]", read_status_file(file).get("sinks", {}))


def _described(statistics: SinkStatistics) -> dict[str, object]:
    return {**attrs.asdict(statistics), "state": statistics.state.value}
