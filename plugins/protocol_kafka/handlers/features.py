"""Features and their levels, which clients use beside the versions of the APIs (KIP-584).

A client uses transaction version 2 only when it is the finalized level of `transaction.version`.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernel.errors import UnsupportedVersion
from tidelog.kernel.seams.features import CONSUMER_PROTOCOL, GROUP_VERSION, Features
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.api_versions import FinalizedFeatureKey, SupportedFeatureKey

LEVEL_0_SINCE: Final = 4
"""First version of ApiVersions whose clients can decode a feature with lowest level 0."""


def supported(features: Features, version: int) -> list[SupportedFeatureKey]:
    """Return the supported levels that a client of that version of ApiVersions can decode."""
    return [
        SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
        for name, levels in features.supported.items()
        if levels.lowest > 0 or version >= LEVEL_0_SINCE
    ]


def finalized(features: Features) -> list[FinalizedFeatureKey]:
    """Return the finalized levels."""
    return [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in features.finalized.items()
    ]


def check_consumer_protocol(context: RequestContext) -> None:
    """Check that clients may use the consumer protocol.

    Raises:
        UnsupportedVersion: the finalized level of `group.version` does not have it.
    """
    if context.broker.features.level(GROUP_VERSION) < CONSUMER_PROTOCOL:
        raise UnsupportedVersion(
            f"the consumer protocol is disabled: it needs {GROUP_VERSION} {CONSUMER_PROTOCOL}, which "
            "kafka-features.sh upgrade sets"
        )
