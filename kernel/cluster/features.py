"""The features of this broker: those of its own and of its metadata store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.kernel.seams.features import DISABLED, OF_COORDINATORS, SupportedLevels

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
