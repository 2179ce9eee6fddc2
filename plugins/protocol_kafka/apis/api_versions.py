"""ApiVersions (API 18): the APIs, versions and features that this broker serves (KIP-584).

A client uses transaction version 2 only when it is the finalized level of `transaction.version`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.kernel.cluster.features import Features


SOFTWARE_SINCE = 3
TARGET_SINCE = 5
ANY_NODE = -1

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
LEVEL_0_SINCE: Final = 4
"""First version of ApiVersions whose clients can decode a feature with lowest level 0."""


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List what is served; refuse malformed client software names, and requests for another broker."""
    version = context.api_version
    if version >= SOFTWARE_SINCE and not (_is_well_named(request) and _names_a_broker_or_none(request)):
        return _refusal(ErrorCode.INVALID_REQUEST)
    if version >= TARGET_SINCE and not _is_meant(context, request):
        return _refusal(ErrorCode.REBOOTSTRAP_REQUIRED)
    if version >= SOFTWARE_SINCE:
        context.client_software = request.client_software_name, request.client_software_version
    features = context.broker.features
    return ApiVersionsResponse(
        error_code=0,
        api_keys=_served(context),
        supported_features=_supported(features, version),
        finalized_features_epoch=features.epoch,
        finalized_features=_finalized(features),
    )


def handle_unsupported_version(context: RequestContext, request: None) -> ApiVersionsResponse:
    """Answer a version that is not served, in version 0, with the versions that are (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_served(context))


def _served(context: RequestContext) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in context.served
    ]


def _refusal(code: ErrorCode) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code, api_keys=[])


def _is_well_named(request: ApiVersionsRequest) -> bool:
    name, version = request.client_software_name, request.client_software_version
    return _SOFTWARE.fullmatch(name) is not None and _SOFTWARE.fullmatch(version) is not None


def _names_a_broker_or_none(request: ApiVersionsRequest) -> bool:
    """Return whether the client states both a cluster and a node, or neither."""
    return (request.cluster_id is None) == (request.node_id == ANY_NODE)


def _is_meant(context: RequestContext, request: ApiVersionsRequest) -> bool:
    cluster = context.broker.cluster
    return request.cluster_id is None or (request.cluster_id, request.node_id) == (
        cluster.cluster_id,
        cluster.node_id,
    )


def _supported(features: Features, version: int) -> list[SupportedFeatureKey]:
    """Return the supported levels that a client of that version of ApiVersions can decode."""
    return [
        SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
        for name, levels in features.supported.items()
        if levels.lowest > 0 or version >= LEVEL_0_SINCE
    ]


def _finalized(features: Features) -> list[FinalizedFeatureKey]:
    """Return the finalized levels."""
    return [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in features.finalized.items()
    ]
