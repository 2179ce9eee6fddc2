"""Choice of the log directory for the metadata log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError
from tidelog.plugins.metadata_kraft.log import METADATA_PARTITION

METADATA_DIRECTORY: Final = str(METADATA_PARTITION)
_OF_A_METADATA_LOG = (".log", ".checkpoint")


def has_metadata_log(root: Path) -> bool:
    """Blocking: return whether a log directory has a metadata log, or a part of one."""
    try:
        with disk.scandir(root / METADATA_DIRECTORY) as entries:
            return any(entry.name.endswith(_OF_A_METADATA_LOG) for entry in entries)
    except FileNotFoundError:
        return False


def choose_directory(
    wanted: str | None, candidates: Sequence[Path], having: Sequence[Path], offline: Mapping[Path, str]
) -> Path:
    """Return the log directory for the metadata log.

    `wanted` is `metadata.log.dir`, `having` are the `candidates` that have a metadata log, `offline` are
    directories that cannot be read, and why.

    Raises:
        ConfigError: there are several metadata logs, or there may be one in a directory that is offline.
    """
    if wanted is None:
        if offline and not having:
            _refuse_without(offline)
        # Kafka's rule is the first; one that lies elsewhere was made with another order of log.dirs.
        chosen = (having or candidates)[0]
    else:
        path = Path(wanted).absolute().resolve()
        chosen = next((each for each in candidates if each.resolve() == path), path)
    others = [each for each in having if each != chosen]
    if others:
        _refuse_several([*others, chosen])
    return chosen


def _refuse_without(offline: Mapping[Path, str]) -> NoReturn:
    reasons = "; ".join(f"{path}: {reason}" for path, reason in offline.items())
    raise ConfigError(
        f"the metadata log may be in a log directory that is offline ({reasons}); bring that back, or take "
        "it out of log.dirs if another one has never been used"
    )


def _refuse_several(directories: Sequence[Path]) -> NoReturn:
    names = " and ".join(str(directory / METADATA_DIRECTORY) for directory in directories)
    raise ConfigError(
        f"there are several metadata logs, or places for one: {names}. Only one broker's directories can be "
        "used, and metadata.log.dir has to name the one that has its metadata log"
    )
