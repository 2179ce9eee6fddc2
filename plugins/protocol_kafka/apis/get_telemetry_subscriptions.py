"""GetTelemetrySubscriptions (API 71): what metrics a client is to push, and how often."""

from __future__ import annotations

import uuid

from tidelog.kernel.records.compression import is_registered
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.client_telemetry import MetricsSubscription
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.plugins.schema.types import ZERO_UUID

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
ACCEPTED_CODECS = (ZSTD, LZ4, GZIP, SNAPPY)
"""Those of Kafka's clients, in the order in which they choose; this broker accepts those that it has."""


async def handle(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the subscription of a client instance, with a new id for one that has none."""
    broker = context.broker
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = uuid.uuid4().bytes
    context.client_instance_id = instance_id
    attributes = context.client_attributes(instance_id)
    found = await context.telemetry.get(instance_id, attributes, broker.resource_configs, broker.clock())
    if not isinstance(found, MetricsSubscription):
        return GetTelemetrySubscriptionsResponse(
            error_code=found,
            client_instance_id=ZERO_UUID,
            subscription_id=0,
            accepted_compression_types=[],
            push_interval_ms=0,
            telemetry_max_bytes=0,
            delta_temporality=False,
            requested_metrics=[],
        )
    return GetTelemetrySubscriptionsResponse(
        error_code=0,
        client_instance_id=instance_id,
        subscription_id=found.id,
        accepted_compression_types=[codec for codec in ACCEPTED_CODECS if is_registered(codec)],
        push_interval_ms=found.interval_ms,
        telemetry_max_bytes=broker.config[keys.TELEMETRY_MAX_BYTES],
        delta_temporality=True,
        requested_metrics=list(found.metrics),
    )
