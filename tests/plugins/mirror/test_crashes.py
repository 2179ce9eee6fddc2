"""A mirror that crashes at any step, again and again, has copied each committed record once, in order.

The clusters are brokers in memory, asked over their sockets; a crash is at any exchange with them, before it
or after it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.mirror.clusters import (
    SETTINGS,
    Crash,
    Steps,
    content,
    copied,
    some_records,
    without_offsets,
)
from tests.plugins.mirror.clusters import settings as mirror_settings
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise
from tidelog.plugins.mirror.ledger import ledger_topic
from tidelog.plugins.mirror.ledger_reading import LedgerReader
from tidelog.plugins.mirror.offset_translation import OffsetTranslation
from tidelog.plugins.mirror.settings import Renaming

PARTITIONS = 2


@st.composite
def writes(draw: st.DrawFn) -> tuple[str, int, int, str]:
    """How a batch is written (plain, committed or aborted), where, how many records, which codec."""
    return (
        draw(st.sampled_from(["plain", "plain", "committed", "aborted"])),
        draw(st.integers(0, PARTITIONS - 1)),
        draw(st.integers(1, 20)),
        draw(st.sampled_from(["none", "gzip", "lz4"])),
    )


ROUNDS = st.lists(st.tuples(st.lists(writes(), max_size=4), st.integers(0, 80)), min_size=1, max_size=6)


@settings(max_examples=60)
@given(rounds=ROUNDS)
def test_a_mirror_that_crashes_at_any_step_copies_each_record_once(
    clusters: tuple[str, str], rounds: Sequence[tuple[Sequence[tuple[str, int, int, str]], int]]
) -> None:
    source, target = clusters
    topic = f"t{uuid.uuid4().hex}"
    mirror = mirror_settings(topic, source, topic)
    with BlockingClient(source, settings=SETTINGS) as client:
        or_raise(client.create_topics([NewTopic(topic, PARTITIONS)]))
        for number, (batches, steps) in enumerate(rounds):
            for index, batch in enumerate(batches):
                write(client, topic, f"{number}.{index}", *batch)
            with suppress(Crash):
                copied(mirror, target, Steps(steps))
            check_is_beginning(source, target, topic)
        copied(mirror, target)
    for partition in range(PARTITIONS):
        expected = content(source, topic, partition)
        assert without_offsets(content(target, topic, partition)) == without_offsets(expected)
        check_translation(source, target, mirror.name, TopicPartition(topic, partition))


def write(
    client: BlockingClient, topic: str, name: str, kind: str, partition: int, count: int, codec: str
) -> None:
    records = some_records(*(f"{name}.{each}" for each in range(count)))
    place = TopicPartition(topic, partition)
    if kind == "plain":
        client.produce(place, records, compression=codec)
        return
    producer = client.init_transactions(f"writer-{topic}")
    producer.begin_transaction()
    client.produce(place, records, compression=codec, producer=producer)
    (client.commit_transaction if kind == "committed" else client.abort_transaction)(producer)


def check_is_beginning(source: str, target: str, topic: str) -> None:
    with BlockingClient(target, settings=SETTINGS) as client:
        if topic not in client.metadata([topic]).topics:
            return
    for partition in range(PARTITIONS):
        expected = without_offsets(content(source, topic, partition))
        found = without_offsets(content(target, topic, partition))
        assert found == expected[: len(found)]


def check_translation(source: str, target: str, name: str, partition: TopicPartition) -> None:
    """No translated offset skips a record: as many follow it as follow the one at the source, or more."""
    ours, theirs = content(source, *partition), content(target, *partition)
    with BlockingClient(target, settings=SETTINGS) as client:
        ledger = client.run(LedgerReader(TopicPartition(ledger_topic(name), 0)).read)
    offsets = ledger.maps.get(partition, OffsetTranslation())
    for offset in range(ledger.positions[partition] + 1):
        translated = offsets.translate(offset)
        left = sum(record[0] >= offset for record in ours)
        if translated is None:
            assert not ours
        else:
            assert sum(record[0] >= translated for record in theirs) >= left, (offset, translated)


def test_a_mirror_that_crashes_at_each_of_its_steps_in_turn(clusters: tuple[str, str]) -> None:
    source, target = clusters
    topic = f"t{uuid.uuid4().hex}"
    with BlockingClient(source, settings=SETTINGS) as client:
        or_raise(client.create_topics([NewTopic(topic, PARTITIONS)]))
        for index, kind in enumerate(["plain", "committed", "aborted", "plain"]):
            write(client, topic, str(index), kind, index % PARTITIONS, 5, "lz4")
        whole = Steps()
        copied(mirror_settings(f"whole-{topic}", source, topic, **renamed("whole.")), target, whole)
        assert whole.done > 20
        for number in range(whole.done):
            name, prefix = f"m{number}-{topic}", f"m{number}."
            mirror = mirror_settings(name, source, topic, **renamed(prefix))
            with pytest.raises(Crash):
                copied(mirror, target, Steps(number))
            copied(mirror, target)
            for partition in range(PARTITIONS):
                found = content(target, prefix + topic, partition)
                assert without_offsets(found) == without_offsets(content(source, topic, partition)), number


def renamed(prefix: str) -> dict[str, Any]:
    return {"renaming": Renaming(prefix)}
