"""The real broker, killed again and again while clients write: what it acknowledged is there, once, in order.

Three rounds, and ten in the long test; the environment variable `KILL_ROUNDS` asks for more.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import TidelogServer, free_port
from tidelog.plugins.client import (
    BlockingClient,
    ClientSettings,
    ConfigChange,
    NewRecord,
    NewTopic,
    RetryPolicy,
    TopicPartition,
    or_raise,
)
from tidelog.plugins.client.errors import ClientError

ROUNDS = int(os.environ.get("KILL_ROUNDS", "10"))
CLEAN_STOPS = 0.2
LONGEST_LIFE_S = 0.7
PATIENCE = RetryPolicy(retries=2000, backoff_s=0.02, max_backoff_s=0.1)
PAUSE_S = 0.002
SEGMENT_BYTES = str(1 << 20)


@attrs.define
class Writer:
    """Writes numbers to one partition, each once, however often the broker dies meanwhile."""

    partition: TopicPartition
    compression: str
    records: int
    acknowledged: int = 0
    failure: BaseException | None = None

    def run(self, bootstrap: str, stop: threading.Event) -> None:
        """Until told to stop; an answer that does not come is asked for again."""
        settings = ClientSettings(request_timeout_s=30, operation_timeout_s=DEADLINE_S, retry=PATIENCE)
        try:
            with BlockingClient(bootstrap, settings=settings) as client:
                producer = client.init_producer()
                while not stop.is_set():
                    batch = [self.record(self.acknowledged + index) for index in range(self.records)]
                    client.produce(self.partition, batch, compression=self.compression, producer=producer)
                    self.acknowledged += self.records
                    time.sleep(PAUSE_S)
        except BaseException as error:
            self.failure = error

    def record(self, number: int) -> NewRecord:
        """The record of a number; its key tells the number, its value fills segments."""
        return NewRecord(random.Random(number).randbytes(8000 // self.records), key=str(number).encode())

    def check(self, client: BlockingClient) -> None:
        """All that was acknowledged is there, and perhaps the batch that was under way at the end."""
        found = [int(record.key or b"-1") for record in client.read(self.partition, 0)]
        assert found == list(range(len(found))), f"{self.partition}: not every number once and in order"
        assert 0 <= len(found) - self.acknowledged <= self.records


def change_topics(bootstrap: str, stop: threading.Event) -> None:
    """Create, change and delete topics without pause; whatever the broker's death leaves of it will do."""
    settings = ClientSettings(request_timeout_s=5, operation_timeout_s=5, retry=RetryPolicy(retries=1))
    number = 0
    while not stop.is_set():
        number += 1
        name = f"spare-{number % 5}"
        try:
            with BlockingClient(bootstrap, settings=settings) as client:
                client.create_topics([NewTopic(name, 2)])
                client.alter_configs({name: [ConfigChange("flush.ms", str(number))]})
                client.create_partitions({name: 3})
                client.produce(TopicPartition(name, 0), [NewRecord(b"x")])
                client.delete_topics([name])
        except ClientError:
            time.sleep(PAUSE_S)


@contextmanager
def in_threads(*jobs: Callable[[threading.Event], None]) -> Generator[None]:
    """Run jobs until the block ends."""
    stop = threading.Event()
    threads = [threading.Thread(target=job, args=(stop,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.fixture
def broker(tmp_path: Path) -> Generator[TidelogServer]:
    """A broker that keeps its address."""
    server = TidelogServer(tmp_path, requested_port=free_port())
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("rounds", [3, pytest.param(ROUNDS, marks=pytest.mark.long)])
def test_nothing_acknowledged_is_lost_or_doubled(broker: TidelogServer, rounds: int) -> None:
    choose = random.Random(rounds)
    topics = {"durable": {"flush.messages": "1"}, "lazy": {}}
    configs = {name: {"segment.bytes": SEGMENT_BYTES, **config} for name, config in topics.items()}
    with BlockingClient(broker.bootstrap) as client:
        or_raise(client.create_topics([NewTopic(name, 2, config=config) for name, config in configs.items()]))
    writers = [
        Writer(TopicPartition("durable", 0), "none", 1),
        Writer(TopicPartition("durable", 1), "zstd", 5),
        Writer(TopicPartition("lazy", 0), "none", 10),
        Writer(TopicPartition("lazy", 1), "lz4", 200),
    ]

    def job(writer: Writer) -> Callable[[threading.Event], None]:
        return lambda stop: writer.run(broker.bootstrap, stop)

    with in_threads(*map(job, writers), lambda stop: change_topics(broker.bootstrap, stop)):
        for _ in range(rounds):
            time.sleep(choose.uniform(0, LONGEST_LIFE_S))
            (broker.stop if choose.random() < CLEAN_STOPS else broker.kill)()
            broker.start()
    broker.kill()
    broker.start()
    assert [writer.failure for writer in writers] == [None] * len(writers)
    with BlockingClient(broker.bootstrap) as client:
        for writer in writers:
            writer.check(client)
