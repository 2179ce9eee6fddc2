"""Interceptors of a consumer: what they leave out, change and raise, and what they learn."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.plugins.client.consumer.three_drivers import RUNNERS, Body, Consumers
from tidelog.client import ConsumerInterceptor, ConsumerRecord, GroupOffset, TopicPartition
from tidelog.plugins.client import BlockingClient, NewRecord, NewTopic, or_raise


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs the body of a test with the consumers of a driver."""
    return RUNNERS[request.param]


class Even(ConsumerInterceptor):
    """Leaves out every other record, and notes what it learns."""

    def __init__(self) -> None:
        self.commits: list[int] = []
        self.is_closed = False

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return [each for each in records if each.offset % 2 == 0 and each.offset < 50]

    def on_commit(self, offsets: Mapping[TopicPartition, GroupOffset]) -> None:
        self.commits += [each.offset for each in offsets.values()]

    def close(self) -> None:
        self.is_closed = True


class Failing(ConsumerInterceptor):
    """Raises whatever it is called with."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        raise LookupError("no")

    def on_commit(self, offsets: Mapping[TopicPartition, GroupOffset]) -> None:
        raise LookupError("no")

    def close(self) -> None:
        raise LookupError("no")


def filled(bootstrap: str) -> TopicPartition:
    """A partition with records 0 to 99, ten in a batch."""
    place = TopicPartition(f"t-{uuid.uuid4()}", 0)
    with BlockingClient(bootstrap) as client:
        or_raise(client.create_topics([NewTopic(place.topic, 1)]))
        for start in range(0, 100, 10):
            client.produce(place, [NewRecord(b"%d" % each) for each in range(start, start + 10)])
    return place


def test_poll_and_iterations_return_what_interceptors_leave(
    run: Callable[[Body], None], shared_tidelog: str
) -> None:
    place = filled(shared_tidelog)

    async def body(consumers: Consumers) -> None:
        even = Even()
        options: dict[str, Any] = {
            "group_id": str(uuid.uuid4()),
            "auto_offset_reset": "earliest",
            "interceptors": [Failing(), even],
            "max_poll_records": 7,
        }
        async with consumers.consumer(shared_tidelog, **options) as consumer:
            consumer.assign([place])
            found = [each.offset for each in await consumer.poll(DEADLINE_S)]
            assert found == [0, 2, 4, 6]
            async for record in consumer:
                found.append(record.offset)
                if record.offset == 48:
                    break
            assert found == list(range(0, 50, 2))
            # What was left out at the end counts as read, too.
            while await consumer.position(place) < 100:
                assert await consumer.poll(0.05) == []
            await consumer.commit()
            assert even.commits[-1] == 100
        assert even.is_closed

    run(body)
