"""The producer against brokers that fail: order is kept, nothing is lost, nothing twice with idempotence."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.client.producer.fake_cluster import FakeCluster, FakeProducer
from tidelog.client import AsyncDelivery
from tidelog.plugins.client.errors import ClientError

FAULTS = (
    "",
    "",
    "",
    "drop",
    "lose",
    "silent",
    "timeout",
    "refuse",
    "move",
    "hint",
    "large",
    "throttle",
    "fail",
)
STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 30), st.sampled_from([0.0, 0.0, 0.001, 0.5, 20.0])),
    min_size=1,
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(
    steps=STEPS,
    faults=st.lists(st.sampled_from(FAULTS), max_size=25),
    in_flight=st.integers(1, 5),
    batch_size=st.sampled_from([1, 100, 400, 100_000]),
    linger_ms=st.sampled_from([0, 5, 1000]),
    delivery_timeout_ms=st.sampled_from([2_000, 35_000, 120_000]),
    idempotent=st.booleans(),
    compression=st.sampled_from(["none", "lz4"]),
)
def test_order_is_kept_and_nothing_is_lost_or_appended_twice(
    steps: list[tuple[int, int, float]],
    faults: list[str],
    in_flight: int,
    batch_size: int,
    linger_ms: int,
    delivery_timeout_ms: int,
    idempotent: bool,
    compression: str,
) -> None:
    cluster = FakeCluster(2, iter(faults))
    producer = FakeProducer(
        cluster,
        max_in_flight_requests_per_connection=in_flight,
        batch_size=batch_size,
        linger_ms=linger_ms,
        delivery_timeout_ms=delivery_timeout_ms,
        enable_idempotence=idempotent,
        compression_type=compression,
    )
    sent: list[list[AsyncDelivery]] = [[], []]
    try:
        for partition, count, pause_s in steps:
            for _ in range(count):
                value = b"%d" % len(sent[partition])
                sent[partition].append(producer.send(value, partition))
            producer.advance(pause_s)
        producer.flush()
        producer.advance(1000.0)
    finally:
        cluster.driver.close()
    for partition, deliveries in enumerate(sent):
        _check(cluster.partitions[partition].values, deliveries, idempotent=idempotent)
    accumulator = producer.core.accumulator
    assert (accumulator.queued_bytes, accumulator.queued_records) == (0, 0)
    assert not accumulator.active


def _check(log: list[bytes], deliveries: list[AsyncDelivery], *, idempotent: bool) -> None:
    found = [int(value) for value in log]
    first = list(dict.fromkeys(found))
    assert first == sorted(first)
    if idempotent:
        assert found == first
    for number, delivery in enumerate(deliveries):
        assert delivery.done()
        outcome = delivery.outcome()
        if isinstance(outcome, ClientError):
            assert outcome.reached_broker or number not in first
        else:
            assert found[outcome.offset] == number
