"""A source that has lost records which were copied, or a topic of it that was made again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.mirror.clusters import SETTINGS, content, copied, produce, settings, some_records
from tidelog.kernel.records.stored import iter_stored
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise
from tidelog.plugins.mirror.following import SourceTopic
from tidelog.plugins.mirror.ledger import Ledger, ledger_topic
from tidelog.plugins.mirror.ledger_reading import LedgerReader
from tidelog.plugins.mirror.statistics import MirrorStatistics

TOPIC = "orders"
PLACE = TopicPartition(TOPIC, 0)


@pytest.fixture
def target() -> Iterator[str]:
    with broker_in_thread() as broker:
        yield broker.bootstrap


class Source:
    """A broker with files, which is started anew for each step and has another port then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._values = {"storage": "file", "log.dirs": str(folder)}

    def write(self, *values: str) -> None:
        """Append each as a batch of its own."""
        with (
            broker_in_thread(self._values) as broker,
            BlockingClient(broker.bootstrap, settings=SETTINGS) as client,
        ):
            if TOPIC not in client.metadata().topics:
                or_raise(client.create_topics([NewTopic(TOPIC, 1)]))
            produce(client, TOPIC, *(some_records(each * 1000) for each in values))

    def delete(self) -> None:
        with (
            broker_in_thread(self._values) as broker,
            BlockingClient(broker.bootstrap, settings=SETTINGS) as client,
        ):
            or_raise(client.delete_topics([TOPIC]))

    def lose_last(self, batches: int) -> None:
        """Remove batches from the end of the log, as a crash does which was before they were written."""
        (log,) = self._folder.glob(f"{TOPIC}-0/*.log")
        sizes = [header.size for header, _ in iter_stored(memoryview(log.read_bytes()))]
        os.truncate(log, sum(sizes[:-batches]))
        for clean in self._folder.glob(".kafka_cleanshutdown"):
            clean.unlink()

    def copy(self, target: str) -> MirrorStatistics:
        with broker_in_thread(self._values) as broker:
            figures: MirrorStatistics = copied(settings("m", broker.bootstrap, TOPIC), target)
            return figures


def values(target: str) -> str:
    return "".join((each[2] or b"").decode()[0] for each in content(target, TOPIC))


def ledger(target: str) -> Ledger:
    with BlockingClient(target, settings=SETTINGS) as client:
        return client.run(LedgerReader(TopicPartition(ledger_topic("m"), 0)).read)


def test_a_copy_continues_where_the_source_was_truncated(
    tmp_path: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(tmp_path)
    source.write(*"abcde")
    source.copy(target)
    source.lose_last(2)
    figures = source.copy(target)
    assert values(target) == "abcde"
    assert figures.truncated == 2
    assert "orders-0: the source was truncated to the offset 3; its records up to 4" in caplog.text
    source.write(*"xyz")
    source.copy(target)
    assert values(target) == "abcdexyz"
    assert ledger(target).positions[PLACE] == 6
    # A record that both have, one that only the copy has, and those behind.
    translate = ledger(target).maps[PLACE].translate
    there = [each[0] for each in content(target, TOPIC)]
    assert [translate(offset) for offset in (2, 3, 5)] == [there[2], there[5], there[7]]


def test_a_source_that_was_truncated_and_written_again_is_noticed_by_the_epoch(
    tmp_path: Path, target: str
) -> None:
    source = Source(tmp_path)
    source.write(*"abcde")
    source.copy(target)
    source.lose_last(2)
    source.write(*"vwxyz")
    figures = source.copy(target)
    assert values(target) == "abcdevwxyz"
    assert figures.truncated == 2


def test_a_topic_that_is_made_again_is_copied_from_its_beginning(tmp_path: Path, target: str) -> None:
    source = Source(tmp_path)
    source.write(*"abcde")
    source.copy(target)
    source.delete()
    source.write(*"xy")
    figures = source.copy(target)
    assert values(target) == "abcdexy"
    assert figures.truncated == 0


def test_a_source_without_topic_ids_is_copied_again(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its topic may have been made again: brokers before Apache Kafka 2.8 do not say."""
    source = Source(tmp_path)
    source.write(*"abcde")
    source.copy(target)
    source.lose_last(2)
    monkeypatch.setattr(SourceTopic, "has_id", False)
    source.copy(target)
    assert values(target) == "abcdeabc"
    assert "the source has less than the 5 offsets that were copied" in caplog.text
    there = [each[0] for each in content(target, TOPIC)]
    assert [ledger(target).maps[PLACE].translate(offset) for offset in range(3)] == there[5:]
