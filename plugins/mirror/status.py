"""What the mirrors of a broker do, in a file in its data directory, for `tidelog mirrors`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from tidelog.kernel.status_file import read_status_file, status_path, write_status_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tidelog.kernel.config import Config
    from tidelog.plugins.mirror.statistics import MirrorStatistics

_log: Final = logging.getLogger(__name__)

FILE_NAME: Final = "tidelog-mirrors.json"
INTERVAL_S: Final = 1.0
"""The least time between two writes."""


def mirror_status_file(config: Config) -> Path | None:
    """Return the file in the first data directory, None if the storage has no files."""
    return status_path(config, FILE_NAME)


def read_mirror_status(file: Path) -> list[dict[str, Any]]:
    """Return what the running broker has written of each mirror; empty if no broker runs.

    Raises:
        OSError: there is a file, which cannot be read.
    """
    return cast("list[dict[str, Any]]", read_status_file(file).get("mirrors") or [])


async def publish_mirror_status(file: Path, mirrors: Sequence[MirrorStatistics]) -> None:
    """Keep the file as the statistics are, until cancelled."""
    is_refused = False
    try:
        while True:
            content = {"mirrors": [each.as_json(trio.current_time()) for each in mirrors]}
            try:
                await trio.to_thread.run_sync(write_status_file, file, content)
                is_refused = False
            except OSError as error:
                # It is tried again: the disk may have room by then.
                if not is_refused:
                    _log.warning("the status that `tidelog mirrors` shows cannot be written: %s", error)
                is_refused = True
            await trio.sleep(INTERVAL_S)
    finally:
        # Small and local; also where the task is cancelled.
        file.unlink(missing_ok=True)  # noqa: ASYNC240
