"""The kills, and the comparison of what both queries have written with what they have read."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Assigned

from tests.deadlines import DEADLINE_S, wait_until
from tests.peers import ServerProcess
from tests.random_kills import RandomKills, check_each_once, python_workers
from tests.spark_kills.feeder import Feeder
from tests.spark_kills.names import FINISH, RECORDS, RESULT, TABLE, TRANSFORMED
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("driver.py")
PARTITIONS = {RECORDS: 2, TRANSFORMED: 3}
Read = tuple[int, int, bytes]
"""Partition, offset and value of a record."""


class Kills(RandomKills[list[int]]):
    """All kills of one seed."""

    def __init__(self, place: Path, seed: int, report: Callable[[str], None]) -> None:
        super().__init__(place, seed, report)
        prefetched = [self._chance.choice(["0", "8192"]) for _ in (TABLE, TRANSFORMED)]
        arguments = [self._broker.bootstrap, str(self._broker.data_dir), str(place), *prefetched]
        self._driver = ServerProcess(
            "Spark",
            [sys.executable, "-m", "tidelog.kernel", "spark", str(DRIVER), *arguments],
            place / "spark.log",
            {**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def run(self, kills: int) -> None:
        """Kill so often, and compare.

        Raises:
            AssertionError: a record is missing, or there more than once; or a process does not recover.
        """
        self._broker.start()
        try:
            self._create_topics()
            feeder = Feeder(self._broker.bootstrap, PARTITIONS[RECORDS], self._chance.randrange(1 << 32))
            self._driver.start()
            self._kill_all(kills, self._kill_driver, self._kill_worker, self._kill_broker)
            feeder.stop()
            self._finish()
            self._compare()
        finally:
            self._driver.kill()
            self._broker.stop()

    def _create_topics(self) -> None:
        with BlockingClient(self._broker.bootstrap) as client:
            or_raise(client.create_topics([NewTopic(name, count) for name, count in PARTITIONS.items()]))

    def _kill_driver(self) -> str:
        """Its JVM, too; its workers have a process group of their own, and find out."""
        self._driver.kill()
        self._driver.start()
        return "Spark's driver"

    def _kill_worker(self) -> str:
        wait_until(lambda: bool(python_workers(self._driver.pid)), "a Python worker of Spark")
        return self._kill_worker_of(self._driver.pid)

    def _progress(self) -> list[int]:
        """How many micro-batches each query has finished."""
        folders = [self._place / f"{sink}-checkpoint" / "commits" for sink in (TABLE, TRANSFORMED)]
        return [
            max([int(file.name) + 1 for file in folder.glob("[0-9]*") if file.name.isdigit()], default=0)
            for folder in folders
        ]

    def _has_moved(self, before: Sequence[int]) -> bool:
        if not self._driver.is_running:
            raise AssertionError(str(self._driver.failed("ended by itself")))
        return all(now > then for now, then in zip(self._progress(), before, strict=True))

    def _finish(self) -> None:
        (self._place / FINISH).touch()
        status = self._driver.wait(DEADLINE_S)
        assert status == 0, str(self._driver.failed("failed at the end"))

    def _compare(self) -> None:
        with BlockingClient(self._broker.bootstrap) as client:
            parts = [TopicPartition(RECORDS, index) for index in range(PARTITIONS[RECORDS])]
            records: list[Read] = [
                (part.partition, each.offset, each.value or b"")
                for part in parts
                for each in client.read(part, 0, None)
            ]
        table = pq.read_table(self._place / RESULT)
        rows = Counter(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))
        assert table.column_names == ["partition", "offset", "value"]
        check_each_once("the table", records, rows)
        expected = [b"%d %d %s" % (partition, offset, value.upper()) for partition, offset, value in records]
        check_each_once("the topic", expected, Counter(read_committed(self._broker.bootstrap)))
        failures = (self._place / "spark.log").read_text(errors="replace").count("a query failed:")
        self._report(
            f"{len(records)} records are once in the table and once in the topic, after "
            f"{self._progress()} micro-batches; queries started again {failures} times by themselves"
        )


def read_committed(bootstrap: str) -> list[bytes]:
    """The values that a consumer with `read_committed` gets."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": "kills",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    consumer.assign([Assigned(TRANSFORMED, index, 0) for index in range(PARTITIONS[TRANSFORMED])])
    values: list[bytes] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + DEADLINE_S
    while len(ended) < PARTITIONS[TRANSFORMED]:
        assert time.monotonic() < deadline, "the consumer does not reach the end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.append(message.value() or b"")
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return values
