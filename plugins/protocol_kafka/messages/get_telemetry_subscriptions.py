"""GetTelemetrySubscriptions (key 71): which metrics a client is to push, and how often (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import GET_TELEMETRY_SUBSCRIPTIONS
from tidelog.plugins.schema.declare import array, boolean, int16, int32, struct, uuid
from tidelog.plugins.schema.types import INT8, STRING

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct(GET_TELEMETRY_SUBSCRIPTIONS.versions)
class GetTelemetrySubscriptionsRequest:
    """Request the subscription of a client instance; zero asks for a new id."""

    client_instance_id: Uuid = uuid()


@struct(GET_TELEMETRY_SUBSCRIPTIONS.versions)
class GetTelemetrySubscriptionsResponse:
    """The subscription; no requested metrics means none, and one empty name means all."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(INT8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(STRING)
