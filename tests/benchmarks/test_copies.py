from __future__ import annotations

import os

from benchmarks.load.copies import MIRROR, RAW, CopySpec, copy_topic
from tests.tables import for_each
from tidelog.client import Admin, NewTopic, Producer, TopicPartition
from tidelog.kernel.testing.broker import broker_in_thread

PARTITIONS, RECORDS = 2, 60


@for_each("by", (RAW, MIRROR))
def test_a_copy_has_every_record(by: str) -> None:
    with broker_in_thread() as source, broker_in_thread() as target:
        with Admin(source.bootstrap) as admin:
            admin.create_topics([NewTopic("copied", PARTITIONS), NewTopic("empty", 1)])
        with Producer(source.bootstrap, batch_size=1000) as producer:
            for number in range(RECORDS):
                producer.send("copied", bytes(300), partition=number % PARTITIONS)
        with Admin(target.bootstrap) as admin:
            admin.create_topics([NewTopic("copied", PARTITIONS)])
            each = RECORDS // PARTITIONS
            spec = CopySpec(
                source.bootstrap, target.bootstrap, os.getpid(), "copied", "empty", PARTITIONS, each, by
            )
            assert copy_topic(spec).copied > 300 * RECORDS
            places = [TopicPartition("copied", index) for index in range(PARTITIONS)]
            ends = admin.list_offsets(places)
        # A mirror adds markers of transactions.
        assert all(end.offset >= each for end in ends.values())
