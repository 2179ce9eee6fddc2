"""The kills, and the comparison of each directory with the topic."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow.dataset as ds

from tests.deadlines import DEADLINE_S
from tests.peers import ServerProcess
from tests.random_kills import RandomKills, check_each_once
from tidelog.plugins.client import (
    BlockingClient,
    FetchLimits,
    NewRecord,
    NewTopic,
    TopicPartition,
    or_raise,
)

TOPIC = "records"
PARTITIONS = 3
BATCHES = 40
BATCH_RECORDS = 200
# A chunk takes about as long as the pause before a kill.
CHUNK_RECORDS = 800
SETTINGS = {
    "spark.master": "local[2,8]",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
COMMITTED = FetchLimits(read_committed=True)
Read = tuple[int, int, bytes]
"""Partition, offset and value of a record."""


class LoadKills(RandomKills[str]):
    """All kills of one seed."""

    def __init__(self, place: Path, seed: int, report: Callable[[str], None]) -> None:
        super().__init__(place, seed, report)
        self._loads = 0
        self._records: list[Read] = []
        self._load = self._new_load()

    def run(self, kills: int) -> None:
        """Kill so often, and compare.

        Raises:
            AssertionError: a record is missing, or there more than once; or a load does not continue.
        """
        self._broker.start()
        try:
            self._produce()
            self._load.start()
            self._kill_all(
                kills, self._kill_load, self._kill_load_alone, self._kill_worker, self._kill_broker
            )
            self._finish()
        finally:
            self._load.kill()
            self._broker.stop()

    @property
    def _target(self) -> Path:
        return self._place / f"load-{self._loads}"

    def _new_load(self) -> ServerProcess:
        self._loads += 1
        flags = ["--into", str(self._target), "--bootstrap-server", self._broker.bootstrap, "--json"]
        flags += ["--chunk-records", str(CHUNK_RECORDS), "--task-records", str(CHUNK_RECORDS // 4)]
        for name, value in SETTINGS.items():
            flags += ["--conf", f"{name}={value}"]
        command = [sys.executable, "-m", "tidelog.kernel", "load", TOPIC, *flags]
        return ServerProcess("tidelog load", command, self._place / "load.log", dict(os.environ))

    def _produce(self) -> None:
        """Records of transactions, each third of which is aborted."""
        with BlockingClient(self._broker.bootstrap) as client:
            or_raise(client.create_topics([NewTopic(TOPIC, PARTITIONS)]))
            producer = client.init_transactions("load-kills")
            for batch in range(BATCHES):
                producer.begin_transaction()
                for index in range(PARTITIONS):
                    values = [b"%d-%d-%d" % (batch, index, number) for number in range(BATCH_RECORDS)]
                    client.produce(
                        TopicPartition(TOPIC, index), [NewRecord(each) for each in values], producer=producer
                    )
                end = client.abort_transaction if batch % 3 == 0 else client.commit_transaction
                end(producer)
            self._records = [
                (index, each.offset, each.value or b"")
                for index in range(PARTITIONS)
                for each in client.read(TopicPartition(TOPIC, index), 0, None, COMMITTED)
            ]

    def _kill_load(self) -> str:
        self._load.kill()
        self._load.start()
        return "the load with its JVM"

    def _kill_load_alone(self) -> str:
        """Its JVM outlives it for a moment, and may still write."""
        with suppress(ProcessLookupError):
            os.kill(self._load.pid, signal.SIGKILL)
        self._load.wait(DEADLINE_S)
        self._load.start()
        return "the load without its JVM"

    def _kill_worker(self) -> str:
        return self._kill_worker_of(self._load.pid)

    def _commits(self) -> int:
        return len(list((self._target / "_tidelog_load" / "commits").glob("*.json")))

    def _progress(self) -> str:
        return f"{self._commits()} commits of load {self._loads}"

    def _has_moved(self, before: str) -> bool:
        """Whether a chunk was committed; a load that has ended is compared, and another one begins."""
        if not self._load.is_running:
            if self._load.wait(DEADLINE_S) != 0:
                self._report(f"a load failed by itself: {self._load.log_tail().splitlines()[-1]}")
                self._load.start()
                return False
            self._compare()
            self._load = self._new_load()
            self._load.start()
            return False
        return self._commits() > 0 and self._progress() != before

    def _finish(self) -> None:
        status = self._load.wait(DEADLINE_S)
        if status != 0:
            self._report(f"a load failed by itself: {self._load.log_tail().splitlines()[-1]}")
            self._load.start()
            status = self._load.wait(DEADLINE_S)
        assert status == 0, str(self._load.failed("failed at the end"))
        self._compare()

    def _compare(self) -> None:
        table = ds.dataset(self._target, format="parquet", partitioning="hive").to_table(
            ["partition", "offset", "value"]
        )
        rows = Counter(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))
        check_each_once(f"load {self._loads}", self._records, rows)
        self._report(f"load {self._loads} has each of {len(self._records)} records once")
