"""The state of a broker's registration, in a file in its data directory, for `tidelog zookeeper`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from tidelog.kernel.status_file import read_status_file, status_path, write_status_file

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.kernel.config import Config

_log = logging.getLogger(__name__)

FILE_NAME: Final = "tidelog-zookeeper.json"
INTERVAL_S: Final = 1.0
"""The least time between two writes."""


@attrs.define
class RegistrationStatus:
    """What a registration has done since the start.

    `state` is `connecting`, `registered`, `not registered` or `disconnected`, since `since_ms`; `session` is
    empty without one. `topics` are those that are in ZooKeeper as they should be, `refused_topics` those that
    it does not take.
    """

    connect: str
    state: str = "connecting"
    session: str = ""
    since_ms: int = 0
    topics: int = 0
    refused_topics: int = 0
    failures: int = 0
    last_error: str = ""


def status_file(config: Config) -> Path | None:
    """Return the file in the first data directory, None if the storage has no files."""
    return status_path(config, FILE_NAME)


def read_status(file: Path) -> RegistrationStatus | None:
    """Return the status that the running broker has written, None if no broker runs.

    Raises:
        OSError: there is a file, which cannot be read.
    """
    content = read_status_file(file)
    found = cast("dict[str, object]", content.get("zookeeper") or {})
    names = {field.name for field in attrs.fields(RegistrationStatus)}
    return RegistrationStatus(**found) if found.keys() == names else None  # type: ignore[arg-type]


async def publish_status(file: Path, status: RegistrationStatus) -> None:
    """Keep the file as the status is, until cancelled."""
    written: RegistrationStatus | None = None
    refused = False
    try:
        while True:
            if status != written:
                found = attrs.evolve(status)
                try:
                    await trio.to_thread.run_sync(write_status_file, file, {"zookeeper": attrs.asdict(found)})
                    written, refused = found, False
                except OSError as error:
                    # It is tried again: the disk may have room by then.
                    if not refused:
                        _log.warning("the status that `tidelog zookeeper` shows cannot be written: %s", error)
                    refused = True
            await trio.sleep(INTERVAL_S)
    finally:
        # Small and local; also where the task is cancelled.
        file.unlink(missing_ok=True)  # noqa: ASYNC240
