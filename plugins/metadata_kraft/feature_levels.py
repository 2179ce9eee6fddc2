"""Finalized feature levels in the metadata log, and which of their changes can be written.

Source: Apache Kafka 4.4's `MetadataVersion` and `FeatureControlManager`; KIP-778, KIP-966.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.kernel.errors import InvalidUpdateVersion
from tidelog.kernel.seams.features import ELR_VERSION, SupportedLevels
from tidelog.plugins.metadata_kraft.changes import KRAFT_VERSION
from tidelog.plugins.metadata_kraft.image import METADATA_VERSION, RecordImage
from tidelog.plugins.metadata_kraft.records.types import ELR_SINCE, NEWEST_KNOWN, OLDEST_WRITABLE

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


def check_levels(image: RecordImage, kraft_version: int, levels: Mapping[str, int]) -> None:
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
