"""PushTelemetry (API 72): hand the metrics of a client to the receivers of plugins."""

from __future__ import annotations

import uuid

import trio

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.compression import UnpackedTooLarge, decompress, is_registered
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.client_telemetry import PushedMetrics
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from tidelog.plugins.schema.types import ZERO_UUID

RESERVED_IDS = frozenset((ZERO_UUID, ZERO_UUID[:-1] + b"\1"))
"""Kafka's ids of no and of the metadata topic, which no client instance has."""
UNCOMPRESSED = 0


async def handle(context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Check a push, decompress it within `telemetry.max.bytes` and deliver it."""
    instance_id = request.client_instance_id
    if instance_id in RESERVED_IDS:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    context.client_instance_id = instance_id
    attributes = context.client_attributes(instance_id)
    broker, telemetry = context.broker, context.telemetry
    code = await telemetry.check_push(
        instance_id,
        request.subscription_id,
        attributes,
        broker.resource_configs,
        broker.clock(),
        terminating=request.terminating,
    )
    if code is ErrorCode.NONE:
        code, payload = await _payload(request, broker.config[keys.TELEMETRY_MAX_BYTES], telemetry.unpacking)
        if code is ErrorCode.NONE and payload:
            pushed = PushedMetrics(
                uuid.UUID(bytes=instance_id),
                attributes,
                context.peer,
                request.terminating,
                payload,
                telemetry.interval_ms(instance_id),
            )
            code = ErrorCode.NONE if await telemetry.deliver(pushed) else ErrorCode.INVALID_RECORD
        telemetry.record_error(instance_id, code)
    return PushTelemetryResponse(error_code=code)


async def _payload(
    request: PushTelemetryRequest, max_bytes: int, limiter: trio.CapacityLimiter
) -> tuple[ErrorCode, bytes]:
    """Return the decompressed metrics, or the error."""
    codec, metrics = request.compression_type, request.metrics
    if codec != UNCOMPRESSED and not is_registered(codec):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, b""
    if len(metrics) > max_bytes:
        return ErrorCode.TELEMETRY_TOO_LARGE, b""
    if codec == UNCOMPRESSED or not metrics:
        return ErrorCode.NONE, metrics
    try:
        payload = await trio.to_thread.run_sync(decompress, codec, metrics, max_bytes, limiter=limiter)
    except UnpackedTooLarge:
        return ErrorCode.TELEMETRY_TOO_LARGE, b""
    except CorruptBatch:
        return ErrorCode.INVALID_RECORD, b""
    return ErrorCode.NONE, payload
