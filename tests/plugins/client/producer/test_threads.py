"""The producer for blocking code: many threads, callbacks that block or send, an end in the middle."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.plugins.client.producer.test_real_producers import log_of, new_topic
from tidelog.client import Delivery, Producer


def test_threads_share_a_producer(shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog, 2)
    with Producer(shared_tidelog, batch_size=2000, buffer_memory=50_000) as producer:

        def send(thread: int) -> None:
            for number in range(2000):
                producer.send(topic, b"%d %d" % (thread, number), partition=thread % 2)

        threads = [threading.Thread(target=send, args=(each,), daemon=True) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for partition in range(2):
        found = [
            tuple(map(int, (record.value or b"").split()))
            for record in log_of(shared_tidelog, topic, partition)
        ]
        for sender in (partition, partition + 2):
            assert [number for owner, number in found if owner == sender] == list(range(2000))


def test_a_callback_that_blocks_holds_up_no_record(shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog)
    released, called = threading.Event(), threading.Event()

    def block(_delivery: Delivery) -> None:
        called.set()
        released.wait(DEADLINE_S)

    with Producer(shared_tidelog) as producer:
        producer.send(topic, b"0", on_delivery=block)
        assert called.wait(DEADLINE_S)
        assert producer.send(topic, b"1").result(DEADLINE_S).offset == 1
        released.set()


def test_a_callback_may_send_and_wait(shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog)
    found: list[Any] = []
    ended = threading.Event()

    with Producer(shared_tidelog) as producer:

        def again(delivery: Delivery) -> None:
            found.append(delivery.result().offset)
            found.append(producer.send(topic, b"1").result(DEADLINE_S).offset)
            ended.set()

        producer.send(topic, b"0", on_delivery=again)
        assert ended.wait(DEADLINE_S)
    assert found == [0, 1]


def test_a_producer_that_never_sends_starts_no_thread() -> None:
    before = threading.active_count()
    producer = Producer("127.0.0.1:9")
    assert threading.active_count() == before
    producer.close()
    with pytest.raises(ValueError, match="batch_size is -1"):
        Producer("127.0.0.1:9", batch_size=-1)
    with pytest.raises(ValueError, match="needs acks all"):
        Producer("127.0.0.1:9", acks=1, enable_idempotence=True)
    with pytest.raises(TypeError, match="linger"):
        Producer("127.0.0.1:9", linger=3)  # type: ignore[call-arg]  # pyright: ignore
