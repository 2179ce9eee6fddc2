"""What a producer makes of brokers that fail, and of code of its user that does, over each driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.plugins.client.producer.fake_cluster import TOPIC
from tests.plugins.client.producer.socket_cluster import SocketCluster
from tests.plugins.client.producer.three_drivers import RUNNERS, Body
from tidelog.client import errors

IMPATIENT: dict[str, Any] = {"request_timeout_ms": 200, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5}
RECORDS = 30


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    return RUNNERS[request.param]


def expected() -> list[bytes]:
    return [b"%d" % number for number in range(RECORDS)]


@pytest.mark.parametrize(
    "fault", ["drop", "lose", "cut", "silent", "late", "move", "hint", "refuse", "timeout", "vanish"]
)
@pytest.mark.parametrize("at", [0, 2])
def test_records_are_in_the_log_once_and_in_order_though_a_broker_fails(
    run: Callable[[Body], None], fault: str, at: int
) -> None:
    faults = [*[""] * at, fault, *[""] * 5, "" if fault == "vanish" else fault]
    with SocketCluster(1, faults) as cluster:

        async def body(producer: Any) -> None:
            async with producer(cluster.bootstrap, batch_num_messages=2, **IMPATIENT) as sending:
                sent = [await sending.send(TOPIC, value) for value in expected()]
                for number, delivery in enumerate(sent):
                    # An append whose answer was lost may be too old for the broker to know its offset.
                    assert (await delivery).offset in (number, -1)

        run(body)
        assert cluster.partitions[0].values == expected()


def test_a_broker_that_talks_nonsense_fails_the_batch_and_no_other(run: Callable[[Body], None]) -> None:
    with SocketCluster(1, ["", "garbage"]) as cluster:

        async def body(producer: Any) -> None:
            async with producer(cluster.bootstrap, **IMPATIENT) as sending:
                await sending.send_and_wait(TOPIC, b"before")
                with pytest.raises(errors.ProtocolError) as raised:
                    await sending.send_and_wait(TOPIC, b"nonsense")
                assert raised.value.reached_broker
                await sending.send_and_wait(TOPIC, b"after")

        run(body)
        assert cluster.partitions[0].values == [b"before", b"nonsense", b"after"]


def test_brokers_that_lie_about_the_leader_are_asked_until_the_deadline(run: Callable[[Body], None]) -> None:
    with SocketCluster(1) as cluster:

        async def body(producer: Any) -> None:
            async with producer(cluster.bootstrap, delivery_timeout_ms=2000, **IMPATIENT) as sending:
                await sending.send_and_wait(TOPIC, b"true")
                # Metadata names it, and it refuses every batch.
                cluster.lies = True
                with pytest.raises(errors.DeliveryTimedOut, match="NOT_LEADER_OR_FOLLOWER"):
                    await sending.send_and_wait(TOPIC, b"a lie")
                cluster.lies = False
                await sending.send_and_wait(TOPIC, b"true again")

        run(body)
        assert cluster.partitions[0].values == [b"true", b"true again"]


def test_a_full_queue_raises_or_drops_the_oldest(run: Callable[[Body], None]) -> None:
    with SocketCluster(1, ["silent"] * 1000) as cluster:

        async def body(producer: Any) -> None:
            options = {"queue_buffering_max_messages": 3, "linger_ms": 3_600_000, **IMPATIENT}
            raising = producer(cluster.bootstrap, when_full="raise", **options)
            for number in range(3):
                await raising.send(TOPIC, b"%d" % number)
            with pytest.raises(errors.QueueFull):
                await raising.send(TOPIC, b"3")
            await raising.close(timeout=0.01)

            dropping = producer(cluster.bootstrap, when_full="drop_oldest", **options)
            sent = [await dropping.send(TOPIC, b"%d" % number) for number in range(5)]
            for dropped in sent[:2]:
                with pytest.raises(errors.RecordDropped):
                    await dropped
            assert not any(each.done() for each in sent[2:])
            await dropping.close(timeout=0.01)

        run(body)


def test_a_partitioner_that_raises_fails_its_record_alone(run: Callable[[Body], None]) -> None:
    def choose(key: bytes | None, _partitions: int) -> int:
        if key == b"bad":
            raise KeyError("no such table")
        return 7 if key == b"none" else 0

    with SocketCluster(1) as cluster:

        async def body(producer: Any) -> None:
            async with producer(cluster.bootstrap, partitioner=choose) as sending:
                early = await sending.send(TOPIC, b"early", b"bad")
                with pytest.raises(errors.EncodingFailed, match="no such table"):
                    await early
                await sending.send_and_wait(TOPIC, b"0", b"good")
                for key in (b"bad", b"none"):
                    with pytest.raises((errors.EncodingFailed, ValueError)):
                        await sending.send(TOPIC, b"x", key)
                await sending.send_and_wait(TOPIC, b"1", b"good")

        run(body)
        assert cluster.partitions[0].values == [b"0", b"1"]


def test_a_callback_that_raises_is_logged_and_holds_up_no_record(
    run: Callable[[Body], None], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    def callback(delivery: Any) -> None:
        seen.append(delivery.result().offset)
        raise RuntimeError("callback")

    with SocketCluster(1) as cluster:

        async def body(producer: Any) -> None:
            async with producer(cluster.bootstrap, batch_num_messages=1) as sending:
                for number in range(3):
                    await sending.send(TOPIC, b"%d" % number, on_delivery=callback)

        run(body)
    assert seen == [0, 1, 2]
    assert "callback" in caplog.text
