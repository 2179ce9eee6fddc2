"""`/metrics`: what was produced, fetched and refused is there by the names of Kafka's dashboards."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.plugins.protocol_http.http_client import BROKER, HttpClient
from tidelog.kernel.metering import BrokerMeters
from tidelog.kernel.seams.meters import MeterFamily, MeterKind, MeterSample
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import BlockingClient, NewTopic
from tidelog.plugins.protocol_http.prometheus import prometheus_text

DOCS = Path(__file__).resolve().parents[3] / "docs"
LINE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")


def values(text: str) -> dict[tuple[str, str], float]:
    """The values of a page by name and labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches), lines
    return {(each[1], each[2] or ""): float(each[3]) for each in matches if each}


async def metrics(http: HttpClient) -> dict[tuple[str, str], float]:
    answer = await http.send("GET", "/metrics")
    assert answer.status == 200
    return values(answer.body.decode())


async def test_what_is_produced_and_fetched_over_http_is_counted_by_topic(http: HttpClient) -> None:
    await http.send("POST", "/topics", {"topic_name": "t", "partitions_count": 1, "replication_factor": 1})
    await http.send("POST", "/topics/t", {"records": [{"value": 1}, {"value": 2}]})
    await http.get("/topics/t/partitions/0/records?offset=earliest")
    found = await metrics(http)
    prefix, topic = "kafka_server_brokertopicmetrics_", 'topic="t"'
    assert found[prefix + "messagesin_total", topic] == found[prefix + "messagesin_total", ""] == 2
    assert found[prefix + "totalproducerequests_total", topic] == 1
    assert (
        found[prefix + "bytesin_total", topic] == found["kafka_log_log_size", 'topic="t",partition="0"'] > 0
    )
    assert found[prefix + "bytesout_total", topic] > 0
    assert found["kafka_log_log_logendoffset", 'topic="t",partition="0"'] == 2
    await http.send("DELETE", "/topics/t")
    found = await metrics(http)
    assert (prefix + "messagesin_total", topic) not in found
    assert found[prefix + "messagesin_total", ""] == 2, "what was counted stays in the total"


def test_requests_of_clients_are_counted_and_timed_once_metrics_are_read() -> None:
    with broker_in_thread(BROKER) as running, BlockingClient(running.bootstrap) as client:
        client.create_topics([NewTopic("t", 1)])
        before = values(prometheus_text(running.broker.meters.collect()).decode())
        assert sum(value for (name, _), value in before.items() if name.endswith("_requests_total")) > 0
        assert not [name for name, _ in before if name.startswith("kafka_network_requestmetrics_totaltimems")]
        running.broker.meters.listen()
        client.create_topics([NewTopic("u", 1)])
        found = values(prometheus_text(running.broker.meters.collect()).decode())
        label = 'request="CreateTopics"'
        assert found["kafka_network_requestmetrics_totaltimems_count", label] == 1
        assert found["kafka_network_requestmetrics_errors_total", label + ',error="NONE"'] == 1
        assert found["kafka_network_requestmetrics_totaltimems", label + ',quantile="0.99"'] > 0


def test_each_metric_of_the_dashboard_and_the_page_is_exported() -> None:
    with broker_in_thread(BROKER) as running, BlockingClient(running.bootstrap) as client:
        client.create_topics([NewTopic("t", 1)])
        names = {family.name for family in running.broker.meters.collect()}
    dashboard = (DOCS / "grafana-dashboard.json").read_text()
    json.loads(dashboard)
    page = (DOCS / "metrics.md").read_text()
    named = set(re.findall(r"\b(?:kafka|process|tidelog)_[a-z_]+_[a-z_]+", dashboard))
    assert len(named) > 15
    assert named <= names
    assert [name for name in names if f"`{name}`" not in page and not _abbreviated(name, page)] == []


def _abbreviated(name: str, page: str) -> bool:
    parts = name.split("_")
    return any(f"`…_{'_'.join(parts[-count:])}`" in page for count in range(1, len(parts)))


def test_a_source_that_raises_is_logged_and_hides_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def families(self) -> list[MeterFamily]:
            raise ZeroDivisionError

    class Fine:
        def families(self) -> list[MeterFamily]:
            return [MeterFamily("a_b", MeterKind.GAUGE, "x\ny", [MeterSample(2**60 + 1, (("l", 'a"\\\n'),))])]

    meters = BrokerMeters()
    meters.add("broken_one", [Broken()])
    meters.add("fine", [Fine()])
    assert prometheus_text(meters.collect()) == (
        b'# HELP a_b x\\ny\n# TYPE a_b gauge\na_b{l="a\\"\\\\\\n"} 1152921504606846977\n'
    )
    assert "broken_one" in caplog.text
