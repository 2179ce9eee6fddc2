"""Levels of features: how they may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.kernel.errors import InvalidUpdateVersion
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.seams.features import DISABLED, FeatureUpdate, SupportedLevels, UpgradeType


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
