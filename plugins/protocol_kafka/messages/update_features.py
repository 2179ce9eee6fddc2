"""UpdateFeatures (key 57): change the finalized levels of features (KIP-584, KIP-778)."""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import UPDATE_FEATURES
from tidelog.plugins.schema.declare import array, boolean, int8, int16, int32, string, struct

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


@struct()
class FeatureUpdateKey:
    """New level of a feature, 0 to disable it."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(versions="0", default=False)
    upgrade_type: int = int8(versions="1+", default=UPGRADE)


@struct(UPDATE_FEATURES.versions)
class UpdateFeaturesRequest:
    """Request new levels, all of them or none; `validate_only` changes nothing."""

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(versions="1+", default=False)


@struct()
class UpdatableFeatureResult:
    """Result of one feature."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct(UPDATE_FEATURES.versions)
class UpdateFeaturesResponse:
    """UpdateFeatures response; from version 2 on an error is in the first fields only."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(
        UpdatableFeatureResult, versions="0-1", factory=list, ignorable=True
    )
