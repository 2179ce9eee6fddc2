"""The features of this broker: those of its own and of its metadata store, and how levels may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import InvalidUpdateVersion
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.seams.features import (
    DISABLED,
    OF_COORDINATORS,
    FeatureUpdate,
    SupportedLevels,
    UpgradeType,
)

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import MetadataStore


class Features:
    """The features of this broker and their levels in the image.

    Attributes:
        supported: the lowest and the highest level of each feature, by name
    """

    def __init__(self, metadata: MetadataStore, *, has_coordinator: bool) -> None:
        self._metadata = metadata
        own: Mapping[str, SupportedLevels] = OF_COORDINATORS if has_coordinator else {}
        self.supported: Mapping[str, SupportedLevels] = {**own, **metadata.supported_features}

    @property
    def finalized(self) -> Mapping[str, int]:
        """The finalized levels of the supported features; one that is missing is disabled."""
        levels = self._metadata.image.features
        return {name: level for name, level in levels.items() if name in self.supported and level > DISABLED}

    @property
    def epoch(self) -> int:
        """A number that grows with each change; of two answers the one with the larger epoch is newer."""
        return self._metadata.image.features_epoch

    def level(self, name: str) -> int:
        """Return the finalized level of a feature, 0 if it is disabled or not supported."""
        return self._metadata.image.features.get(name, DISABLED) if name in self.supported else DISABLED


def decide_levels(
    image: MetadataImage, supported: Mapping[str, SupportedLevels], updates: Sequence[FeatureUpdate]
) -> MetadataDelta:
    """Return the change to all of these levels; of a feature that is repeated the last one counts.

    Raises:
        InvalidUpdateVersion: one is refused.
    """
    wanted = {update.name: update for update in updates}
    for update in wanted.values():
        _check(image, supported, update)
    return MetadataDelta(
        features={
            name: update.level
            for name, update in wanted.items()
            if update.level != image.features.get(name, DISABLED)
        }
    )


def _check(image: MetadataImage, supported: Mapping[str, SupportedLevels], update: FeatureUpdate) -> None:
    """Check an update by the rules of Kafka's controller.

    Raises:
        InvalidUpdateVersion: it is refused.
    """
    name, level, upgrade_type = update
    invalid = f"invalid update of feature {name} to level {level}:"
    if upgrade_type is None:
        raise InvalidUpdateVersion(f"{invalid} there is no such upgrade type")
    levels = supported.get(name)
    if levels is None:
        raise InvalidUpdateVersion(f"{invalid} this broker does not support the feature")
    if not levels.lowest <= level <= levels.highest:
        raise InvalidUpdateVersion(
            f"{invalid} this broker supports the levels {levels.lowest} to {levels.highest}"
        )
    current = image.features.get(name, DISABLED)
    if level < current and upgrade_type is UpgradeType.UPGRADE:
        raise InvalidUpdateVersion(
            f"{invalid} it is at level {current}, and a downgrade needs the upgrade type of a safe or "
            "unsafe downgrade"
        )
    if level > current and upgrade_type is not UpgradeType.UPGRADE:
        raise InvalidUpdateVersion(f"{invalid} it is at level {current}, which is no downgrade")
