"""Simple consumer for blocking code: every call names the offset, and nothing is kept between calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.settings import SimpleConsumerSettings
from tidelog.plugins.client.drivers.thread_driver import ThreadDriver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.operations.fetching import fetch, fetch_partitions
from tidelog.plugins.client.operations.offsets import offsets_before

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from tidelog.plugins.client.consumer.settings import SimpleConsumerOptions
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.fetched import Fetched
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers


class SimpleConsumer:
    """Reads partitions from given offsets.

        with SimpleConsumer("127.0.0.1:9092") as consumer:
            for record in consumer.fetch("orders", 0, 17).records():
                print(record.offset, record.value)

    The caller keeps the offsets: `Fetched.next_offset` is the one to continue with. `AsyncSimpleConsumer` is
    the same for async code. All methods may be called by any thread.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Unpack[SimpleConsumerOptions]) -> None:
        """Set the brokers (`BootstrapServers`), and `SimpleConsumerSettings`.

        Raises:
            InvalidAddress: an address has another form.
            ValueError: a setting has a value that it cannot have.
            TypeError: there is no such setting.
        """
        settings = SimpleConsumerSettings(**options)
        self._limits = settings.limits()
        self._timeout_s = settings.api_timeout_s
        self._driver = ThreadDriver()
        self._engine = Engine(bootstrap_servers, settings.client(), self._driver)
        self._driver.start(self._engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        """Return what a partition has from an offset on; empty when none arrives in `fetch_max_wait_ms`.

        A first message that does not fit into `max_partition_fetch_bytes` is requested with twice as much
        where the broker has cut it, until it fits.

        Raises:
            ErrorResponse: with OFFSET_OUT_OF_RANGE, the log has no such offset.
            ClientError: the leader did not answer.
        """
        place = TopicPartition(topic, partition)
        operation = fetch(self._engine.session, place, offset, self._limits)
        return self._driver.run(operation, self._timeout_s)

    def multi_fetch(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Fetched | ClientError]:
        """Return the same of several partitions, each from its offset on, or why one cannot be read."""
        operation = fetch_partitions(self._engine.session, offsets, self._limits)
        return self._driver.run(operation, self._timeout_s)

    def offsets_before(self, topic: str, partition: int, time_ms: int, max_offsets: int = 1) -> list[int]:
        """Return valid offsets before a time, at most `max_offsets`, in descending order.

        `time_ms` is in milliseconds since the epoch, `LATEST_TIMESTAMP` or `EARLIEST_TIMESTAMP`. Brokers
        before Apache Kafka 4.0 and tidelog return where segments begin, and for the latest time the end of
        the log before them; newer ones know the first record that is not older, and the start of the log.

        Raises:
            ErrorResponse: the partition cannot be read.
            ClientError: the leader did not answer.
        """
        place = TopicPartition(topic, partition)
        operation = offsets_before(self._engine.session, place, time_ms, max_offsets)
        return self._driver.run(operation, self._timeout_s)

    def close(self) -> None:
        """Close the connections; calls that wait fail with `ClientClosed`."""
        self._driver.stop()
