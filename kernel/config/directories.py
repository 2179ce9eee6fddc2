"""Where the storage has its files, whichever plugin it is: its keys have the names of Kafka's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from tidelog.kernel.config.config import Config

_KEYS: Final = ("log.dirs", "log.dir")
"""The first one that is set counts."""


def data_directories(config: Config) -> tuple[Path, ...]:
    """Return the data directories, absolute, in the order of the configuration; none without files."""
    for name in _KEYS:
        key = config.keys.find(name, "broker")
        directories = cast("tuple[str, ...] | None", config[key]) if key is not None else None
        if directories:
            return tuple(Path(text).absolute() for text in directories)
    return ()
