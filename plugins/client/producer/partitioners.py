"""Partitioners: which partition of its topic a record goes to when `send` names none.

A partitioner is chosen by name, or is a callable `(key, partitions) -> partition` of the user: the encoded
key (None for none) and the number of partitions of the topic.

Sources: KIP-480 and KIP-794 for records without a key; Apache Kafka, `BuiltInPartitioner`; librdkafka,
`rdkafka_msg.c`.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.plugins.client.errors import EncodingFailed
from tidelog.plugins.client.producer.hashing import murmur2

if TYPE_CHECKING:
    from tidelog.plugins.client.producer.accumulator import TopicQueues

AnyPartitioner: TypeAlias = str | Callable[[bytes | None, int], int]
Choose: TypeAlias = "Callable[[TopicQueues, bytes | None], int]"

_31_BITS: Final = 0x7FFFFFFF
# Not the generator of the process: a program that has a client may have seeded that one.
_random: Final = random.Random()


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key as in the Java client."""
    return (murmur2(key) & _31_BITS) % partitions


def crc32_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key as in librdkafka's `consistent` and `consistent_random`."""
    return zlib.crc32(key) % partitions


def _sticky(topic: TopicQueues, _key: bytes | None) -> int:
    return topic.sticky_partition()


def _random_partition(topic: TopicQueues, _key: bytes | None) -> int:
    return _random.choice(topic.available or range(len(topic.queues)))


def _round_robin(topic: TopicQueues, _key: bytes | None) -> int:
    choices: Sequence[int] = topic.available or range(len(topic.queues))
    topic.turn += 1
    return choices[topic.turn % len(choices)]


def _murmur2(topic: TopicQueues, key: bytes | None) -> int:
    return topic.sticky_partition() if key is None else murmur2_partition(key, len(topic.queues))


def _murmur2_random(topic: TopicQueues, key: bytes | None) -> int:
    return _random_partition(topic, key) if key is None else murmur2_partition(key, len(topic.queues))


def _consistent(topic: TopicQueues, key: bytes | None) -> int:
    return crc32_partition(key or b"", len(topic.queues))


def _consistent_random(topic: TopicQueues, key: bytes | None) -> int:
    # As in librdkafka, an empty key is none.
    return crc32_partition(key, len(topic.queues)) if key else topic.sticky_partition()


PARTITIONERS: Final[dict[str, Choose]] = {
    "murmur2": _murmur2,
    "murmur2_random": _murmur2_random,
    "consistent": _consistent,
    "consistent_random": _consistent_random,
    "sticky": _sticky,
    "round_robin": _round_robin,
    "random": _random_partition,
}
"""By name: `murmur2` is the default of the Java client, `consistent_random` that of librdkafka: by the hash
of the key, and records without one stick to a partition for a batch. `sticky`, `round_robin` and `random`
ignore the key."""


STICKY: Final = ("murmur2", "consistent_random", "sticky")
"""Those by which records without a key stick to a partition."""


def chooser(partitioner: AnyPartitioner) -> Choose:
    """Return the function that chooses the partition among those of a topic.

    Raises:
        ValueError: there is no partitioner of that name.
    """
    if isinstance(partitioner, str):
        if partitioner not in PARTITIONERS:
            raise ValueError(
                f"partitioner {partitioner!r} is none of {', '.join(PARTITIONERS)}, and no callable"
            )
        return PARTITIONERS[partitioner]

    def choose(topic: TopicQueues, key: bytes | None) -> int:
        count = len(topic.queues)
        try:
            chosen = partitioner(key, count)
        except Exception as error:
            raise EncodingFailed(f"the partitioner raised {type(error).__name__}: {error}") from error
        if chosen not in range(count):
            raise EncodingFailed(f"the partitioner returned {chosen!r}, not a partition below {count}")
        return chosen

    return choose
