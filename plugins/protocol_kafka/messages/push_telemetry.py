"""PushTelemetry (key 72): metrics of a client, in OpenTelemetry's format (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import PUSH_TELEMETRY
from tidelog.plugins.schema.declare import (
    boolean,
    byte_string,
    int8,
    int16,
    int32,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct(PUSH_TELEMETRY.versions)
class PushTelemetryRequest:
    """Push metrics; `terminating`: these are the last ones of this client instance."""

    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = byte_string()


@struct(PUSH_TELEMETRY.versions)
class PushTelemetryResponse:
    """PushTelemetry response."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
