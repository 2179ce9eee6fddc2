"""Heartbeat (key 12): extend a member's session, and notify it of rebalances."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import HEARTBEAT
from tidelog.plugins.schema.declare import int16, int32, string, struct


@struct(HEARTBEAT.versions)
class HeartbeatRequest:
    """Extend the session of a member."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)


@struct(HEARTBEAT.versions)
class HeartbeatResponse:
    """Heartbeat response."""

    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16()
