"""A producer that never ends by itself: records arrive while processes are killed."""

from __future__ import annotations

import random
import threading

from tests.spark_kills.names import RECORDS
from tidelog.plugins.client import BlockingClient, NewRecord, TopicPartition
from tidelog.plugins.client.errors import ClientError

_PAUSE_S = 0.05
_MOST_RECORDS = 50


class Feeder:
    """Produces batches to random partitions; what fails while the broker is away is left out."""

    def __init__(self, bootstrap: str, partitions: int, seed: int) -> None:
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._chance = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when the last batch has been produced."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        with BlockingClient(self._bootstrap) as client:
            while not self._ended.wait(_PAUSE_S):
                count = self._chance.randint(1, _MOST_RECORDS)
                partition = TopicPartition(RECORDS, self._chance.randrange(self._partitions))
                records = [NewRecord(f"record {number + index}".encode()) for index in range(count)]
                number += count
                try:
                    client.produce(partition, records)
                except ClientError:
                    continue
