"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import ALTER_CLIENT_QUOTAS
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    float64,
    int16,
    int32,
    string,
    struct,
)


@struct()
class AlterClientQuotasEntity:
    """Part of an entity; a name of null is the default of its type."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct()
class OpData:
    """Set a quota, or remove it."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct()
class AlterClientQuotasEntry:
    """An entity, and the changes of its quotas."""

    entity: list[AlterClientQuotasEntity] = array(AlterClientQuotasEntity)
    ops: list[OpData] = array(OpData)


@struct(ALTER_CLIENT_QUOTAS.versions)
class AlterClientQuotasRequest:
    """Change quotas."""

    entries: list[AlterClientQuotasEntry] = array(AlterClientQuotasEntry)
    validate_only: bool = boolean()


@struct()
class EntryResponseData:
    """Result for one entity."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[AlterClientQuotasEntity] = array(AlterClientQuotasEntity)


@struct(ALTER_CLIENT_QUOTAS.versions)
class AlterClientQuotasResponse:
    """AlterClientQuotas response."""

    throttle_time_ms: int = int32(default=0)
    entries: list[EntryResponseData] = array(EntryResponseData)
