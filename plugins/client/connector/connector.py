"""Consumer connector for blocking code: a thread of its own fetches, and keeps its place in the group."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from tidelog.plugins.client.connector.coordination import new_coordination
from tidelog.plugins.client.connector.core import ConnectorCore
from tidelog.plugins.client.connector.settings import ConnectorSettings
from tidelog.plugins.client.connector.streams import by_topic
from tidelog.plugins.client.drivers.thread_driver import ThreadDriver
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import RequestTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.connector.settings import ConnectorOptions
    from tidelog.plugins.client.connector.streams import StreamState
    from tidelog.plugins.client.connector.topic_filters import TopicFilter
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers


class MessageStream:
    """Records of the partitions that a connector has given to this stream, for one thread at a time.

    An iteration waits for records. It ends when the connector is shut down, and after `consumer_timeout_ms`
    without a record; another one continues then. A record counts as consumed once it was returned.
    """

    def __init__(self, core: ConnectorCore, state: StreamState) -> None:
        self._core = core
        self._state = state
        self._records = state.records
        self._timeout_s = core.settings.consumer_timeout_s

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        try:
            return self._records.popleft()
        except IndexError:
            record = self.get(self._timeout_s)
        if record is None:
            raise StopIteration
        return record

    def get(self, timeout: float | None = None) -> ConsumerRecord | None:
        """Return the next record, None after `timeout` seconds or when the connector is shut down.

        Raises:
            ClientError: as `Consumer.poll`; the next call continues where that is possible.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._records.popleft()
            except IndexError:
                event = self._core.refill(self._state)
            if event is not None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    self._state.event = None
                    return None
                event.wait(left)
            elif self._core.is_closed:
                return None


class ConsumerConnector:
    """Divides topics among the members of a group, and its own share of them among streams.

        with ConsumerConnector("127.0.0.1:9092", group_id="kitchen") as connector:
            streams = connector.create_message_streams({"orders": 2})
            for record in streams["orders"][0]:
                print(record.value)

    Each partition goes to exactly one stream of one member, and each stream may have a thread of its own.
    `AsyncConsumerConnector` is the same for async code. Any thread may call the methods.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Unpack[ConnectorOptions]) -> None:
        """Set the brokers (`BootstrapServers`), and `ConnectorSettings`.

        Raises:
            InvalidAddress: an address has another form.
            ValueError: a setting has a value that it cannot have.
            TypeError: there is no such setting.
            ModuleNotFoundError: ZooKeeper is named, and kazoo is not installed.
        """
        settings = ConnectorSettings(**options)
        self._driver = ThreadDriver()
        self._engine = Engine(bootstrap_servers, settings.client(), self._driver)
        self._core = ConnectorCore(self._engine, settings, threading.Event, self._driver.lock)
        self._core.coordination = new_coordination(self._core, bootstrap_servers)
        self._driver.start(self._engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    def create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Join the group; return so many streams for each topic.

        Raises:
            ValueError: the connector has streams already, or is to have none of a topic.
        """
        states = self._core.create_streams(topics)
        return by_topic(states, lambda state: MessageStream(self._core, state))

    def create_message_streams_by_filter(
        self, topic_filter: TopicFilter, streams: int = 1
    ) -> list[MessageStream]:
        """Join the group; return streams for all topics that a filter lets through, also for later ones.

        Raises:
            ValueError: the connector has streams already, or is to have none.
        """
        states = self._core.create_streams({}, topic_filter, streams)
        return [MessageStream(self._core, state) for state in states]

    def assignment(self) -> dict[TopicPartition, int]:
        """Return the partitions of this connector, and the number of the stream that each of them feeds."""
        return self._core.assignment()

    def commit_offsets(self) -> None:
        """Commit what the streams have returned, and wait until that is stored.

        Raises:
            ClientError: an offset was not committed.
        """
        error = self._call(self._core.commit, "commit_offsets")
        if error is not None:
            raise error

    def shutdown(self) -> None:
        """Commit what was returned, if that is automatic, leave the group, and end all iterations."""
        if self._core.is_closed:
            return
        try:
            self._call(lambda done: self._core.shut_down(lambda: done(None)), "shutdown")
        except RequestTimedOut:
            # The group drops a member that is silent.
            pass
        finally:
            self._driver.stop()

    def _call(
        self, begin: Callable[[Callable[[ClientError | None], None]], None], name: str
    ) -> ClientError | None:
        outcomes: list[ClientError | None] = []
        ended = threading.Event()

        def done(outcome: ClientError | None) -> None:
            outcomes.append(outcome)
            ended.set()

        begin(done)
        timeout_s = 2 * self._core.settings.api_timeout_s
        if not ended.wait(timeout_s):
            raise RequestTimedOut(name, timeout_s)
        return outcomes[0]
