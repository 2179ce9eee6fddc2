"""What clients push, as meters."""

from __future__ import annotations

import uuid

import pytest

from tests.plugins.client_metrics.test_otlp import CUMULATIVE, gauge, pushed, total
from tidelog.kernel.seams.meters import MeterKind
from tidelog.kernel.seams.wire import Peer
from tidelog.plugins.client_metrics import client_meters
from tidelog.plugins.client_metrics.client_meters import ClientMeters, meter_name
from tidelog.plugins.client_metrics.otlp import InvalidMetrics
from tidelog.plugins.protocol_kafka.client_telemetry import PushedMetrics

PEER = Peer("127.0.0.1", 1, "PLAINTEXT")
NAME = "kafka_client_producer_record_send_total"
METRIC = "org.apache.kafka.producer.record.send.total"


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def meters(time: Time) -> ClientMeters:
    return ClientMeters(time)


def push(payload: bytes, client: int = 1, *, terminating: bool = False) -> PushedMetrics:
    attributes = {"client_id": f"shop{client}"}
    return PushedMetrics(uuid.UUID(int=client), attributes, PEER, terminating, payload, 40_000)


def values(meters: ClientMeters, name: str = NAME) -> dict[tuple[str, ...], float]:
    """The values of a name by client id and the labels but the instance's id."""
    families = {family.name: family for family in meters.families()}
    if name not in families:
        return {}
    return {
        tuple(value for label, value in labels if label != "client_instance_id"): number
        for number, labels in families[name].samples
    }


def test_sums_of_a_client_grow_by_deltas_and_are_replaced_by_totals(meters: ClientMeters) -> None:
    for _ in range(3):
        meters.take(push(pushed(total(METRIC, 5, topic="t"))))
        meters.take(push(pushed(total("cumulated", 5, CUMULATIVE))))
    meters.take(push(pushed(total(METRIC, 1, topic="t")), client=2))
    assert values(meters) == {("shop1", "t"): 15, ("shop2", "t"): 1}
    assert values(meters, "kafka_client_cumulated_total") == {("shop1",): 5}
    assert values(meters, "tidelog_client_metrics_pushes_total") == {(): 7}


def test_gauges_have_the_newest_value_and_labels_of_the_client(meters: ClientMeters) -> None:
    for value in (1.5, 2.5):
        meters.take(push(pushed(gauge("org.apache.kafka.consumer.poll-idle", value), group_id="g")))
    (family,) = [each for each in meters.families() if each.name == "kafka_client_consumer_poll_idle"]
    assert family.kind is MeterKind.GAUGE
    labels = (("client_id", "shop1"), ("client_instance_id", str(uuid.UUID(int=1))), ("group_id", "g"))
    assert family.samples == [(2.5, labels)]


def test_a_client_that_says_it_is_another_does_not_become_one(meters: ClientMeters) -> None:
    meters.take(push(pushed(total("kafka_server_brokertopicmetrics", 1), client_id="boss")))
    assert values(meters, "kafka_client_kafka_server_brokertopicmetrics_total") == {("shop1",): 1}


def test_clients_are_forgotten_after_silence(meters: ClientMeters, time: Time) -> None:
    meters.take(push(pushed(total(METRIC, 1)), terminating=True))
    time.now = 60
    meters.take(push(pushed(total(METRIC, 2)), client=2))
    assert values(meters) == {("shop1",): 1, ("shop2",): 2}
    time.now = 121
    assert values(meters) == {("shop2",): 2}
    time.now = 181
    assert values(meters) == {}
    assert values(meters, "tidelog_client_metrics_clients") == {(): 0}


@pytest.mark.parametrize(
    ("limit", "most"), [("MAX_SERIES", 3), ("MAX_SERIES_OF_CLIENT", 3), ("MAX_NAMES", 3)]
)
def test_what_is_beyond_the_limits_is_counted_and_left_out(
    meters: ClientMeters, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(client_meters, limit, most)
    for _ in range(2):
        meters.take(push(pushed(*(gauge(f"g{number}", 1) for number in range(5)))))
    families = [family.name for family in meters.families() if family.name.startswith("kafka_client_")]
    assert families == ["kafka_client_g0", "kafka_client_g1", "kafka_client_g2"]
    assert values(meters, "tidelog_client_metrics_dropped_total") == {(): 4}


def test_room_is_free_again_when_clients_are_forgotten(
    meters: ClientMeters, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_meters, "MAX_SERIES", 1)
    meters.take(push(pushed(gauge("g", 1))))
    time.now = 121
    meters.take(push(pushed(gauge("g", 1)), client=2))
    assert values(meters, "kafka_client_g") == {("shop2",): 1}


def test_one_name_has_one_kind(meters: ClientMeters) -> None:
    meters.take(push(pushed(gauge("a.total", 1), total("a.total", 1))))
    assert values(meters, "kafka_client_a_total") == {("shop1",): 1}
    assert values(meters, "tidelog_client_metrics_dropped_total") == {(): 1}


async def test_a_malformed_push_is_refused(meters: ClientMeters) -> None:
    with pytest.raises(InvalidMetrics):
        await meters(push(b"\xff"))
    await meters(push(b""))
    assert values(meters, "tidelog_client_metrics_pushes_total") == {(): 1}


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        (
            "org.apache.kafka.producer.request.latency.avg",
            MeterKind.GAUGE,
            "kafka_client_producer_request_latency_avg",
        ),
        ("org.apache.kafka.client.connection.count", MeterKind.COUNTER, "kafka_client_connection_count"),
        ("1 ü", MeterKind.COUNTER, "kafka_client__1___total"),
        ("", MeterKind.GAUGE, "kafka_client__"),
    ],
)
def test_meter_name(name: str, kind: MeterKind, expected: str) -> None:
    assert meter_name(name, kind) == expected
