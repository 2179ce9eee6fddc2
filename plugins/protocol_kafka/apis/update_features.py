"""UpdateFeatures (API 57): change the finalized levels of features (KIP-584, KIP-778)."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.features import FeatureUpdate, UpgradeType
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPES_SINCE = 1
_UPGRADE_TYPES = {int(upgrade_type): upgrade_type for upgrade_type in UpgradeType}


async def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change levels; an error concerns all of them, and so is in the first fields of every version."""
    pace = Pace()
    updates: list[FeatureUpdate] = []
    for asked in request.feature_updates:
        updates.append(_update(context.api_version, asked))
        await pace.turn()
    try:
        await context.broker.controller.update_features(updates, validate_only=request.validate_only)
    except BrokerError as error:
        context.warn("refusing to change the levels of features for", error)
        return UpdateFeaturesResponse(
            error_code=error_code(error), error_message=context.error_message(error)
        )
    results: list[UpdatableFeatureResult] = []
    for asked in request.feature_updates:
        results.append(UpdatableFeatureResult(feature=asked.feature, error_code=0, error_message=None))
        await pace.turn()
    return UpdateFeaturesResponse(error_code=0, error_message=None, results=results)


def _update(version: int, update: FeatureUpdateKey) -> FeatureUpdate:
    upgrade_type: UpgradeType | None
    if version < UPGRADE_TYPES_SINCE:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    else:
        upgrade_type = _UPGRADE_TYPES.get(update.upgrade_type)
    return FeatureUpdate(update.feature, update.max_version_level, upgrade_type)
