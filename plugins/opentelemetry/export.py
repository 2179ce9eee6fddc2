"""The task that sends the meters to a collector, by OTLP over HTTP, as long as the broker runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from tidelog import __version__
from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.tasks import LifespanTask
from tidelog.plugins.opentelemetry import keys
from tidelog.plugins.opentelemetry.instruments import CARDINALITY_LIMITS, MeterInstruments

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.tasks import Lifespan


def export_task(broker: BrokerContext) -> LifespanTask:
    """Return the task.

    Raises:
        ConfigError: `opentelemetry.headers` is malformed.
    """
    config = broker.config
    exporter = _exporter(config)
    interval_s = config[keys.OPENTELEMETRY_INTERVAL_MS] / 1000
    timeout_ms = config[keys.OPENTELEMETRY_TIMEOUT_MS]

    async def run(lifespan: Lifespan) -> None:
        broker.meters.listen()
        # Without an interval the reader has no thread of its own: this task says when.
        reader = PeriodicExportingMetricReader(exporter, math.inf, timeout_ms, CARDINALITY_LIMITS)
        resource = Resource.create(
            {
                "service.name": config[keys.OPENTELEMETRY_SERVICE_NAME],
                "service.instance.id": str(config[kernel_keys.NODE_ID]),
                "service.version": __version__,
                "kafka.cluster.id": broker.cluster.cluster_id,
            }
        )
        provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        instruments = MeterInstruments(broker.meters, provider, __version__)

        def send() -> None:
            instruments.refresh()
            reader.collect(timeout_millis=timeout_ms)

        lifespan.ready()
        stopping = False
        while not stopping:
            with trio.move_on_after(interval_s):
                await lifespan.wait_stopping()
                stopping = True
            await trio.to_thread.run_sync(send, abandon_on_cancel=True)
        await trio.to_thread.run_sync(provider.shutdown, timeout_ms, abandon_on_cancel=True)

    return LifespanTask("opentelemetry", run)


def _exporter(config: Config) -> OTLPMetricExporter:
    return OTLPMetricExporter(
        config[keys.OPENTELEMETRY_ENDPOINT],
        headers=_headers(config),
        timeout=config[keys.OPENTELEMETRY_TIMEOUT_MS] / 1000,
    )


def _headers(config: Config) -> dict[str, str]:
    secret = config[keys.OPENTELEMETRY_HEADERS]
    pairs = [] if secret is None else [pair.partition("=") for pair in secret.value.split(",")]
    if not all(name.strip() and separator for name, separator, _ in pairs):
        raise ConfigError("opentelemetry.headers is no list of name=value between commas.")
    return {name.strip(): value.strip() for name, _, value in pairs}
