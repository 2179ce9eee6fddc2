"""The hooks that this plugin declares, which other plugins may implement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookspec

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.apis import KafkaApi
    from tidelog.plugins.protocol_kafka.client_telemetry import TelemetryReceiver


@hookspec
def tidelog_kafka_apis() -> Iterable[KafkaApi]:  # type: ignore[empty-body]
    """Return the APIs of the Kafka protocol that the plugin serves, with their messages and handlers."""


@hookspec
def tidelog_client_telemetry_receivers() -> Iterable[TelemetryReceiver]:  # type: ignore[empty-body]
    """Return functions to call with the metrics that clients push (KIP-714)."""
