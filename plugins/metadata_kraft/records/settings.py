"""Metadata records of configuration, quotas, access control, credentials and delegation tokens.

Source: the schemas of Apache Kafka 4.4's metadata records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.schema.declare import (
    VersionSpan,
    array,
    boolean,
    byte_string,
    float64,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import STRING

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ResourceScope
    from tidelog.plugins.schema.types import Uuid

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
RESOURCE_TYPES: dict[ResourceScope, int] = {"client-metrics": 16, "group": 32}


@struct(VersionSpan(0, 0, flexible=0))
class ConfigRecord:
    """A configuration key of a resource was set, or removed if its value is null."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+")


@struct()
class PartOfEntity:
    """Part of a quota's entity, such as a user; a name of null is the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct(VersionSpan(0, 0, flexible=0))
class ClientQuotaRecord:
    """A quota was set or removed."""

    entity: list[PartOfEntity] = array(PartOfEntity)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct(VersionSpan(0, 0, flexible=0))
class AccessControlEntryRecord:
    """A principal is allowed or denied an operation on a resource."""

    id: Uuid = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct(VersionSpan(0, 0, flexible=0))
class RemoveAccessControlEntryRecord:
    """An access control entry was removed."""

    id: Uuid = uuid()


@struct(VersionSpan(0, 0, flexible=0))
class UserScramCredentialRecord:
    """A user's salted password."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = byte_string()
    stored_key: bytes = byte_string()
    server_key: bytes = byte_string()
    iterations: int = int32()


@struct(VersionSpan(0, 0, flexible=0))
class RemoveUserScramCredentialRecord:
    """A user's salted password was removed."""

    name: str = string()
    mechanism: int = int8()


@struct(VersionSpan(0, 0, flexible=0))
class DelegationTokenRecord:
    """A token that a client may present instead of a password; times are milliseconds since the epoch."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(STRING)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


@struct(VersionSpan(0, 0, flexible=0))
class RemoveDelegationTokenRecord:
    """A delegation token was removed."""

    token_id: str = string()
