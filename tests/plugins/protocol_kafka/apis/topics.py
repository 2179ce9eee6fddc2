"""Topics with records in them, for the tests of handlers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.topics import Topic


async def new_topic(
    broker: Broker, name: str = "flights", partitions: int = 1, config: Mapping[str, str] | None = None
) -> Topic:
    """A topic without records."""
    return await broker.topics.create(TopicSpec(name, partitions, config=config or {}))


def fill(topic: Topic, partition: int, counts: Sequence[int], value: bytes = b"value") -> None:
    """Append a batch of each size."""
    for count in counts:
        topic.partitions[partition].log.append_nowait(make_batch([value] * count))
