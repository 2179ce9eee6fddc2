"""Features: levels of what brokers and clients do, beside the versions of the APIs (KIP-584).

A client works by transaction version 2 only if it is told that the cluster has settled on it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.kernel.errors import CoordinatorNotAvailable
from tidelog.kernel.seams.coordination.transactions import EPOCH_PER_TRANSACTION
from tidelog.kernel.seams.wire import WireContext
from tidelog.plugins.protocol_kafka.messages.api_versions import FinalizedFeatureKey, SupportedFeatureKey

LEVEL_0_SINCE: Final = 4
"""Older clients cannot decode a feature whose lowest level is 0."""
FINALIZED_EPOCH: Final = 0
"""Levels do not change while the broker runs."""
NO_EPOCH: Final = -1


class Feature(NamedTuple):
    """A feature and the levels of it that are served; the highest is the one in use."""

    name: str
    lowest: int
    highest: int


CONSUMER_PROTOCOL: Final = 1
"""The level of `group.version` with which clients may use the consumer protocol (KIP-848)."""

OF_COORDINATORS: Final = (
    Feature("group.version", 0, CONSUMER_PROTOCOL),
    Feature("transaction.version", 0, EPOCH_PER_TRANSACTION),
)


def served_features(broker: WireContext) -> tuple[Feature, ...]:
    """What this broker serves: without a coordinator nothing."""
    try:
        _ = broker.coordinator
    except CoordinatorNotAvailable:
        return ()
    return OF_COORDINATORS


def supported(features: tuple[Feature, ...], version: int) -> list[SupportedFeatureKey]:
    """The levels that could be used, as far as a client of that version of ApiVersions can be told."""
    return [
        SupportedFeatureKey(name=feature.name, min_version=feature.lowest, max_version=feature.highest)
        for feature in features
        if feature.lowest > 0 or version >= LEVEL_0_SINCE
    ]


def finalized(features: tuple[Feature, ...]) -> list[FinalizedFeatureKey]:
    """The levels in use."""
    return [
        FinalizedFeatureKey(
            name=feature.name, max_version_level=feature.highest, min_version_level=feature.highest
        )
        for feature in features
    ]
