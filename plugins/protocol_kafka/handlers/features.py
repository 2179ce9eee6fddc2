"""Features and their levels, which clients use beside the versions of the APIs (KIP-584).

A client uses transaction version 2 only when it is the finalized level of `transaction.version`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.kernel.errors import CoordinatorNotAvailable
from tidelog.kernel.seams.coordination.transactions import EPOCH_PER_TRANSACTION
from tidelog.kernel.seams.wire import WireContext
from tidelog.plugins.protocol_kafka.messages.api_versions import FinalizedFeatureKey, SupportedFeatureKey

LEVEL_0_SINCE: Final = 4
"""First version of ApiVersions whose clients can decode a feature with lowest level 0."""
FINALIZED_EPOCH: Final = 0
"""Constant, since levels do not change while the broker runs."""
NO_EPOCH: Final = -1


class Feature(NamedTuple):
    """Feature with its supported levels; the highest is the finalized one."""

    name: str
    lowest: int
    highest: int


CONSUMER_PROTOCOL: Final = 1
"""Level of `group.version` with which clients may use the consumer protocol (KIP-848)."""

OF_COORDINATORS: Final = (
    Feature("group.version", 0, CONSUMER_PROTOCOL),
    Feature("transaction.version", 0, EPOCH_PER_TRANSACTION),
)


def served_features(broker: WireContext) -> tuple[Feature, ...]:
    """Return the features of this broker: none without a coordinator."""
    try:
        _ = broker.coordinator
    except CoordinatorNotAvailable:
        return ()
    return OF_COORDINATORS


def supported(features: tuple[Feature, ...], version: int) -> list[SupportedFeatureKey]:
    """Return the supported levels that a client of that version of ApiVersions can decode."""
    return [
        SupportedFeatureKey(name=feature.name, min_version=feature.lowest, max_version=feature.highest)
        for feature in features
        if feature.lowest > 0 or version >= LEVEL_0_SINCE
    ]


def finalized(features: tuple[Feature, ...]) -> list[FinalizedFeatureKey]:
    """Return the finalized levels."""
    return [
        FinalizedFeatureKey(
            name=feature.name, max_version_level=feature.highest, min_version_level=feature.highest
        )
        for feature in features
    ]
