"""Features of the cluster and their levels: ApiVersions and UpdateFeatures (KIP-584)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.sending import retrying, send_request
from tidelog.plugins.client.requests import versions_request
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.plugins.client.steps import Session, Steps


@attrs.frozen
class Feature:
    """Levels of a feature that the broker supports, and the one in force: 0 when it is disabled."""

    lowest: int
    highest: int
    level: int


def describe_features(session: Session) -> Steps[dict[str, Feature]]:
    """Return the features that the broker supports or the cluster has finalized, by name.

    Brokers before Apache Kafka 2.7 have none.

    Raises:
        ErrorResponse: the broker refuses.
        ClientError: no broker answered.
    """

    def attempt() -> Steps[dict[str, Feature]]:
        answer: ApiVersionsResponse = yield from send_request(session, versions_request())
        if answer.error_code:
            raise ErrorResponse(ErrorCode.of(answer.error_code), "features")
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        return {
            feature.name: Feature(feature.min_version, feature.max_version, levels.get(feature.name, 0))
            for feature in answer.supported_features
        }

    return (yield from retrying(session, attempt))


def update_features(
    session: Session,
    levels: Mapping[str, int],
    *,
    downgrade: bool = False,
    lossy: bool = False,
    validate_only: bool = False,
) -> Steps[None]:
    """Set the levels of features by name, 0 disables one; all of them or none.

    A lower level needs `downgrade`, and one at which the cluster loses metadata `lossy`.

    Raises:
        UnsupportedByBroker: the broker does not serve UpdateFeatures (Kafka before 2.7).
        ErrorResponse: a level is refused.
        ClientError: no broker answered.
    """
    upgrade_type = UNSAFE_DOWNGRADE if lossy else SAFE_DOWNGRADE if downgrade else UPGRADE
    request = UpdateFeaturesRequest(
        timeout_ms=int(session.settings.request_timeout_s * 1000),
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )

    def attempt() -> Steps[None]:
        answer: UpdateFeaturesResponse = yield from send_request(session, request)
        if answer.error_code:
            raise ErrorResponse(ErrorCode.of(answer.error_code), "features", answer.error_message)
        for result in answer.results:
            if result.error_code:
                subject = f"feature {result.feature}"
                raise ErrorResponse(ErrorCode.of(result.error_code), subject, result.error_message)

    yield from retrying(session, attempt)
