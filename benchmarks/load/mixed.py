"""What a busy broker does beside: a producer at full speed, groups that rebalance, compaction, monitoring."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Final

import attrs
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from benchmarks.payloads import make_values

from .clients import consumer_config, prompt_producer_config

_MEMBERS: Final = 3
_MEMBERSHIP_S: Final = 3.0
"""Then all members of a group leave, and others join."""
_POLL_S: Final = 0.05
_PAUSE_S: Final = 1.0
"""Between two descriptions of everything."""
_KEYS: Final = 5_000
_PER_PAUSE: Final = 200
_KEYED_PAUSE_S: Final = 0.02
"""Ten thousand records a second, for the log that is compacted."""
_QUEUE_KIB: Final = 16 * 1024


@attrs.frozen
class MixedSpec:
    """Topics of the producer at full speed, of the groups, and to be compacted.

    `warm_file` is created when all of it runs.
    """

    bootstrap: str
    full_topic: str
    group_topic: str
    compacted_topic: str
    value_bytes: int
    groups: int
    warm_file: str


@attrs.frozen
class MixedResult:
    """Never returned: the load is ended."""


def mixed(spec: MixedSpec) -> MixedResult:
    """Run all of it until the process is ended."""
    threads = [
        Thread(target=_produce_at_full_speed, args=(spec,), daemon=True),
        Thread(target=_produce_keyed, args=(spec,), daemon=True),
        Thread(target=_describe, args=(spec,), daemon=True),
        *(Thread(target=_rebalance, args=(spec, number), daemon=True) for number in range(spec.groups)),
    ]
    for thread in threads:
        thread.start()
    time.sleep(_MEMBERSHIP_S)
    Path(spec.warm_file).touch()
    for thread in threads:
        thread.join()
    return MixedResult()


def _produce_at_full_speed(spec: MixedSpec) -> None:
    producer = Producer(
        {
            **prompt_producer_config(spec.bootstrap),
            "linger.ms": 5,
            "queue.buffering.max.kbytes": _QUEUE_KIB,
        }
    )
    values = make_values(spec.value_bytes)
    for number in count():
        try:
            producer.produce(spec.full_topic, values[number % len(values)])
        except BufferError:
            producer.poll(_POLL_S)


def _produce_keyed(spec: MixedSpec) -> None:
    producer = Producer({**prompt_producer_config(spec.bootstrap), "linger.ms": 20})
    values = make_values(spec.value_bytes)
    for number in count():
        producer.produce(spec.compacted_topic, values[number % len(values)], b"%d" % (number * 7919 % _KEYS))
        if number % _PER_PAUSE == 0:
            producer.poll(0)
            time.sleep(_KEYED_PAUSE_S)


def _rebalance(spec: MixedSpec, number: int) -> None:
    config = {**consumer_config(spec.bootstrap), "group.id": f"mixed-{number}"}
    while True:
        members = [Consumer(config) for _ in range(_MEMBERS)]
        for member in members:
            member.subscribe([spec.group_topic])
        until = time.monotonic() + _MEMBERSHIP_S
        while time.monotonic() < until:
            for member in members:
                member.poll(_POLL_S)
        for member in members:
            member.close()


def _describe(spec: MixedSpec) -> None:
    """What a monitor asks each second."""
    admin = AdminClient({"bootstrap.servers": spec.bootstrap})
    brokers = [
        ConfigResource(ResourceType.BROKER, str(each)) for each in admin.list_topics(timeout=10).brokers
    ]
    topic = ConfigResource(ResourceType.TOPIC, spec.full_topic)
    while True:
        admin.list_topics(timeout=10)
        groups = admin.list_consumer_groups().result()
        for each in (*brokers, topic):
            admin.describe_configs([each])[each].result()
        if names := [group.group_id for group in groups.valid]:
            for described in admin.describe_consumer_groups(names).values():
                described.result()
        time.sleep(_PAUSE_S)
