"""The hook of the metrics of clients.

No entry point names this module: a broker that receives no metrics announces no APIs for them, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.client_telemetry import TelemetryReceiver


@hookimpl
def tidelog_client_telemetry_receivers() -> Iterable[TelemetryReceiver]:
    """Return what keeps the newest values, and is a source of meters."""
    from tidelog.plugins.client_metrics.client_meters import ClientMeters

    return [ClientMeters()]
