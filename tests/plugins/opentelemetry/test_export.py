"""Meters of a broker, read by the SDK of OpenTelemetry and received by OTLP."""

from __future__ import annotations

import gzip
import traceback
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from tests.deadlines import DEADLINE_S
from tidelog.client import Producer
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.meters import MeterFamily, MeterKind, MeterSample
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.opentelemetry import plugin
from tidelog.plugins.opentelemetry.instruments import CARDINALITY_LIMITS, MeterInstruments

MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"


class Collector(ThreadingHTTPServer):
    """Receives OTLP on loopback, as a collector does."""

    def __init__(self) -> None:
        self.received: Queue[tuple[dict[str, str], ExportMetricsServiceRequest]] = Queue()
        super().__init__(("127.0.0.1", 0), _Receiver)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/metrics"


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportMetricsServiceRequest.FromString(body)
        self.server.received.put((dict(self.headers.items()), request))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Log nothing."""


@pytest.fixture
def collector() -> Generator[Collector]:
    with Collector() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def received(request: ExportMetricsServiceRequest) -> dict[str, dict[str, Any]]:
    """Values by name and topic; without one it is ''."""
    found: dict[str, dict[str, Any]] = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
        for point in points:
            labels = {each.key: each.value.string_value for each in point.attributes}
            value = point.as_int if point.HasField("as_int") else point.as_double
            found.setdefault(metric.name, {})[labels.get("topic", "")] = value
    return found


def test_a_broker_sends_its_meters_at_intervals_and_when_it_stops(collector: Collector) -> None:
    settings = {
        "opentelemetry.endpoint": collector.endpoint,
        "opentelemetry.interval.ms": "100",
        "opentelemetry.headers": "authorization=Bearer T,x-tenant=a=b",
        "node.id": "7",
    }
    with broker_in_thread(settings) as running:
        headers, request = collector.received.get(timeout=DEADLINE_S)
        with Producer(running.bootstrap) as producer:
            producer.send_and_wait("t", b"tea")
    while not collector.received.empty():
        _, request = collector.received.get()
    (resource,) = request.resource_metrics
    about = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (headers["authorization"], headers["x-tenant"]) == ("Bearer T", "a=b")
    assert (about["service.name"], about["service.instance.id"]) == ("tidelog", "7")
    assert len(about["kafka.cluster.id"]) == 22
    found = received(request)
    assert found[MESSAGES_IN] == {"": 1, "t": 1}
    assert found["kafka_server_kafkaserver_brokerstate"] == {"": 7}
    (counter,) = [each for each in resource.scope_metrics[0].metrics if each.name == MESSAGES_IN]
    assert counter.sum.is_monotonic


def test_a_collector_that_is_away_harms_no_client(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = collector.endpoint
    collector.server_close()
    settings = {
        "opentelemetry.endpoint": endpoint,
        "opentelemetry.interval.ms": "100",
        "opentelemetry.timeout.ms": "100",
    }
    with broker_in_thread(settings) as running, Producer(running.bootstrap) as producer:
        assert producer.send_and_wait("t", b"tea").offset == 0
    assert any(record.name.startswith("opentelemetry.") for record in caplog.records)


class FakeMeters:
    """Meters whose families a test sets."""

    families: list[MeterFamily]
    is_listened = True

    def listen(self) -> None: ...

    def when_listened(self, begin: object) -> None: ...

    def collect(self) -> list[MeterFamily]:
        return self.families


def test_instruments_show_what_was_refreshed_and_leave_out_what_is_gone() -> None:
    meters, reader = FakeMeters(), InMemoryMetricReader()
    instruments = MeterInstruments(meters, MeterProvider([reader], shutdown_on_exit=False), "1")

    def read() -> dict[str, list[tuple[float, dict[str, Any]]]]:
        instruments.refresh()
        data = reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: [
                (point.value, dict(point.attributes or {}))
                for point in metric.data.data_points
                if isinstance(point, NumberDataPoint)
            ]
            for metric in data.resource_metrics[0].scope_metrics[0].metrics
        }

    samples = [MeterSample(1, (("topic", "a"),)), MeterSample(2, (("topic", "b"),))]
    meters.families = [MeterFamily("a_total", MeterKind.COUNTER, "A", samples)]
    assert read() == {"a_total": [(1, {"topic": "a"}), (2, {"topic": "b"})]}
    meters.families = [
        MeterFamily("a_total", MeterKind.COUNTER, "A", samples[:1]),
        MeterFamily("g", MeterKind.GAUGE, "G", [MeterSample(0.5)]),
    ]
    assert read() == {"a_total": [(1, {"topic": "a"})], "g": [(0.5, {})]}
    meters.families = []
    assert read() == {}


def test_instruments_have_room_for_the_partitions_of_a_broker() -> None:
    meters = FakeMeters()
    samples = [MeterSample(number, (("partition", str(number)),)) for number in range(5_000)]
    meters.families = [MeterFamily("kafka_log_log_size", MeterKind.GAUGE, "Bytes", samples)]
    reader = InMemoryMetricReader(cardinality_limits=CARDINALITY_LIMITS)
    MeterInstruments(meters, MeterProvider([reader], shutdown_on_exit=False), "1").refresh()
    data = reader.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    assert len(metric.data.data_points) == 5_000


def test_wrong_settings_are_refused() -> None:
    with (
        pytest.raises(ConfigError, match="is no http:// or https:// URL"),
        broker_in_thread({"opentelemetry.endpoint": "localhost:4318"}),
    ):
        pass
    settings = {"opentelemetry.endpoint": "http://127.0.0.1:1", "opentelemetry.headers": "secret"}
    with pytest.raises(ExceptionGroup) as refused, broker_in_thread(settings):
        pass
    printed = "".join(traceback.format_exception(refused.value))
    assert "opentelemetry.headers is no list of name=value" in printed
    assert "secret" not in printed


def test_without_an_endpoint_nothing_is_imported() -> None:
    with broker_in_thread() as running:
        assert list(plugin.tidelog_background_tasks(running.broker)) == []
