"""Finalized feature levels in the metadata log, and which of their changes can be written.

Source: Apache Kafka 4.4's `MetadataVersion` and `FeatureControlManager`; KIP-778, KIP-966.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, TypeAlias

from tidelog.kernel.errors import InvalidUpdateVersion
from tidelog.kernel.seams.features import ELR_VERSION, SupportedLevels
from tidelog.plugins.metadata_kraft.changes import Change
from tidelog.plugins.metadata_kraft.image import METADATA_VERSION, MetadataImage
from tidelog.plugins.metadata_kraft.log import MetadataLog
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
from tidelog.plugins.metadata_kraft.records.cluster import FeatureLevelRecord
from tidelog.plugins.metadata_kraft.records.settings import BROKER_RESOURCE, ConfigRecord
from tidelog.plugins.metadata_kraft.records.types import ELR_SINCE, NEWEST_KNOWN, OLDEST_WRITABLE

PutLevels: TypeAlias = Callable[[Mapping[str, int]], Awaitable[None]]

KRAFT_VERSION: Final = "kraft.version"
WRITABLE_LEVELS: Final[Mapping[str, SupportedLevels]] = {
    METADATA_VERSION: SupportedLevels(OLDEST_WRITABLE, NEWEST_KNOWN),
    KRAFT_VERSION: SupportedLevels(0, 1),
    ELR_VERSION: SupportedLevels(0, 1),
    "share.version": SupportedLevels(0, 2),
    "streams.version": SupportedLevels(0, 1),
}
"""The features of the log itself, with the levels that this broker can write.

No part of this broker uses share groups and streams groups. Their levels are changed for Apache Kafka, whose
tools raise all features at once.
"""

_RECORDS_CHANGED_AT: Final = (17, 23, 30, 32, 33)
"""Levels of `metadata.version` that brought records, or fields, which lower levels lack."""

_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class LoggedLevels:
    """The levels in a metadata log; `put` writes them and is called for changes that `check` accepts."""

    supported: Mapping[str, SupportedLevels] = WRITABLE_LEVELS

    def __init__(self, replay: MetadataReplay, log: MetadataLog, put: PutLevels) -> None:
        self._replay = replay
        self._log = log
        self._put = put

    @property
    def levels(self) -> Mapping[str, int]:
        """Return the finalized levels; `kraft.version` is in control records, and so not in the image."""
        return {**self._replay.image.features, KRAFT_VERSION: self._replay.kraft_version}

    @property
    def epoch(self) -> int:
        """Return the offset of the last record, as Kafka does."""
        return max(self._log.high_watermark - 1, 0)

    def check(self, levels: Mapping[str, int]) -> None:
        """Check changes of levels by the rules of each feature."""
        check_levels(self._replay.image, self._replay.kraft_version, levels)

    async def put(self, levels: Mapping[str, int]) -> None:
        """Change levels; durable on return."""
        await self._put(levels)


def check_levels(image: MetadataImage, kraft_version: int, levels: Mapping[str, int]) -> None:
    """Check changes of levels by the rules of each feature.

    Raises:
        InvalidUpdateVersion: one breaks them.
    """
    metadata_version = levels.get(METADATA_VERSION, image.metadata_version)
    if metadata_version < image.metadata_version:
        _check_downgrade(image.metadata_version, metadata_version)
    if levels.get(KRAFT_VERSION, kraft_version) < kraft_version:
        raise InvalidUpdateVersion(
            f"{KRAFT_VERSION} cannot be downgraded from {kraft_version}: the log has its voters since then"
        )
    has_elr = levels.get(ELR_VERSION, image.features.get(ELR_VERSION, 0)) > 0
    if has_elr and metadata_version < ELR_SINCE:
        raise InvalidUpdateVersion(
            f"{ELR_VERSION} 1 needs {METADATA_VERSION} {ELR_SINCE} or higher, and it is {metadata_version}"
        )


def _check_downgrade(current: int, wanted: int) -> None:
    changed = [level for level in _RECORDS_CHANGED_AT if wanted < level <= current]
    if changed:
        raise InvalidUpdateVersion(
            f"{METADATA_VERSION} cannot be downgraded from {current} to {wanted}: the records of level "
            f"{changed[-1]} may have content that lower levels lack"
        )


def level_changes(image: MetadataImage, levels: Mapping[str, int]) -> Iterator[Change]:
    """Return the records that change levels; `metadata.version` comes first, `kraft.version` has none.

    With eligible leader replicas `min.insync.replicas` counts for the whole cluster (KIP-966).
    """
    for name in sorted(levels.keys() - {KRAFT_VERSION}, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=levels[name]), 0
    if levels.get(ELR_VERSION) and _MIN_INSYNC_REPLICAS not in image.configs.get((BROKER_RESOURCE, ""), {}):
        yield (
            ConfigRecord(
                resource_type=BROKER_RESOURCE, resource_name="", name=_MIN_INSYNC_REPLICAS, value="1"
            ),
            0,
        )
