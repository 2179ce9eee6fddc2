"""The features of this broker: those of its own and of its metadata store, and how levels may change."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import trio

from tidelog.kernel.errors import InvalidUpdateVersion, StorageError
from tidelog.kernel.seams.features import (
    DISABLED,
    OF_COORDINATORS,
    FeatureUpdate,
    SupportedLevels,
    UpgradeType,
)
from tidelog.kernel.seams.metadata import MetadataStore

_log = logging.getLogger(__name__)


class Features:
    """Reads and changes the levels that the metadata store has."""

    def __init__(self, metadata: MetadataStore, *, has_coordinator: bool) -> None:
        self._metadata = metadata
        self._own: Mapping[str, SupportedLevels] = OF_COORDINATORS if has_coordinator else {}
        self._changing = trio.Lock()

    @property
    def supported(self) -> Mapping[str, SupportedLevels]:
        """The features that this broker supports, by name."""
        return {**self._own, **self._metadata.features.supported}

    @property
    def finalized(self) -> Mapping[str, int]:
        """The finalized levels; those of features that this broker lacks are left out."""
        supported = self.supported
        levels = self._metadata.features.levels
        return {name: level for name, level in levels.items() if name in supported and level > DISABLED}

    @property
    def epoch(self) -> int:
        """The epoch of the levels."""
        return self._metadata.features.epoch

    def level(self, name: str) -> int:
        """Return the finalized level of a feature, 0 if it is disabled or not supported."""
        store = self._metadata.features
        is_supported = name in self._own or name in store.supported
        return store.levels.get(name, DISABLED) if is_supported else DISABLED

    async def update(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        """Change all of these levels or none, durably; of a feature that is repeated the last one counts."""
        async with self._changing:
            wanted = {update.name: update for update in updates}
            for update in wanted.values():
                self._check(update)
            before = self._metadata.features.levels
            changes = {
                name: update.level
                for name, update in wanted.items()
                if update.level != before.get(name, DISABLED)
            }
            self._metadata.features.check(changes)
            if changes and not validate_only:
                await self._change(changes)

    def _check(self, update: FeatureUpdate) -> None:
        """Check an update by the rules of Kafka's controller.

        Raises:
            InvalidUpdateVersion: it is refused.
        """
        name, level, upgrade_type = update
        invalid = f"invalid update of feature {name} to level {level}:"
        if upgrade_type is None:
            raise InvalidUpdateVersion(f"{invalid} there is no such upgrade type")
        levels = self.supported.get(name)
        if levels is None:
            raise InvalidUpdateVersion(f"{invalid} this broker does not support the feature")
        if not levels.lowest <= level <= levels.highest:
            raise InvalidUpdateVersion(
                f"{invalid} this broker supports the levels {levels.lowest} to {levels.highest}"
            )
        current = self.level(name)
        if level < current and upgrade_type is UpgradeType.UPGRADE:
            raise InvalidUpdateVersion(
                f"{invalid} it is at level {current}, and a downgrade needs the upgrade type of a safe or "
                "unsafe downgrade"
            )
        if level > current and upgrade_type is not UpgradeType.UPGRADE:
            raise InvalidUpdateVersion(f"{invalid} it is at level {current}, which is no downgrade")

    async def _change(self, changes: Mapping[str, int]) -> None:
        with trio.CancelScope(shield=True):
            try:
                await self._metadata.features.put(changes)
            except OSError as error:
                raise StorageError(f"the levels of features cannot be changed: {error}") from error
        for name, level in changes.items():
            _log.info("feature %s is at level %d now", name, level)
