"""Features and their levels: what the brokers and clients of a cluster have agreed to use (KIP-584, KIP-778).

A feature is finalized at a level that all brokers support. It counts for the whole cluster, is stored in the
metadata, and changes only by request. Level 0 disables a feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
"""Eligible leader replicas (KIP-966)."""

CONSUMER_PROTOCOL: Final = 1
"""Level of `group.version` with which clients may use the consumer protocol (KIP-848)."""

SECOND_TRANSACTION_VERSION: Final = 2
"""Level of `transaction.version` with which clients may use transaction version 2 (KIP-890)."""

DISABLED: Final = 0


class SupportedLevels(NamedTuple):
    """The lowest and the highest level of a feature that this broker supports."""

    lowest: int
    highest: int


OF_COORDINATORS: Final[Mapping[str, SupportedLevels]] = {
    GROUP_VERSION: SupportedLevels(DISABLED, CONSUMER_PROTOCOL),
    TRANSACTION_VERSION: SupportedLevels(DISABLED, SECOND_TRANSACTION_VERSION),
}
"""Features of a broker that coordinates groups and transactions."""

HIGHEST_LEVELS: Final[Mapping[str, int]] = {name: levels.highest for name, levels in OF_COORDINATORS.items()}
"""Levels of these features in new metadata."""


class UpgradeType(IntEnum):
    """Direction of a change that the client permits; an unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """New level of a feature; `upgrade_type` is None if the client named none that exists."""

    name: str
    level: int
    upgrade_type: UpgradeType | None
