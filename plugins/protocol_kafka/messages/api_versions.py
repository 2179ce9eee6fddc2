"""ApiVersions (key 18): the APIs and versions that the broker serves.

A request in a version that the broker does not know is answered in version 0 with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS
from tidelog.plugins.schema.declare import array, boolean, int16, int32, int64, string, struct


@struct(API_VERSIONS.versions)
class ApiVersionsRequest:
    """Name and version of the client (KIP-511), and the broker that it expects (KIP-1242)."""

    client_software_name: str = string(versions="3+", default="", ignorable=True)
    client_software_version: str = string(versions="3+", default="", ignorable=True)
    cluster_id: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32(versions="5+", default=-1, ignorable=True)


@struct()
class ApiVersion:
    """An API and the versions of it that are served, both inclusive."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct()
class SupportedFeatureKey:
    """A feature and the levels that the broker supports (KIP-584)."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@struct()
class FinalizedFeatureKey:
    """A feature and its finalized levels."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@struct(API_VERSIONS.versions)
class ApiVersionsResponse:
    """ApiVersions response; `finalized_features_epoch` is -1 when there are no finalized features."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, versions="3+", tag=0, factory=list, ignorable=True
    )
    finalized_features_epoch: int = int64(versions="3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, versions="3+", tag=2, factory=list, ignorable=True
    )
    zk_migration_ready: bool = boolean(versions="3+", tag=3, default=False, ignorable=True)
