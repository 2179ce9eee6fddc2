"""DescribeClientQuotas (key 48): the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_CLIENT_QUOTAS
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    string,
    struct,
)


@struct()
class ComponentData:
    """What an entity has to be: of a type, and of the name `match`, of the default name or of any."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


@struct(DESCRIBE_CLIENT_QUOTAS.versions)
class DescribeClientQuotasRequest:
    """Request the quotas of all entities that match; with `strict` of those that have no other types."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@struct()
class DescribeClientQuotasEntity:
    """Part of an entity; a name of null is the default of its type."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct()
class ValueData:
    """One quota."""

    key: str = string()
    value: float = float64()


@struct()
class DescribeClientQuotasEntry:
    """An entity with its quotas."""

    entity: list[DescribeClientQuotasEntity] = array(DescribeClientQuotasEntity)
    values: list[ValueData] = array(ValueData)


@struct(DESCRIBE_CLIENT_QUOTAS.versions)
class DescribeClientQuotasResponse:
    """DescribeClientQuotas response; the entries are null in an error."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[DescribeClientQuotasEntry] | None = array(DescribeClientQuotasEntry, nullable="0+")
