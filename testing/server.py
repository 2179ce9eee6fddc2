"""A whole Kafka in the process of a test."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidelog.kernel.allocator import keep_no_freed_blocks, return_freed_blocks
from tidelog.kernel.config.config import DEFAULT_CODEC
from tidelog.kernel.config.keys import CLEANUP_POLICY
from tidelog.kernel.config.listeners import format_address
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.testing.broker_thread import BrokerThread
from tidelog.testing.client_configs import client_config
from tidelog.testing.clock import ShiftedClock
from tidelog.testing.cut_connection import CODEC_NAME
from tidelog.testing.faults import InjectedFaults
from tidelog.testing.request_log import OWN_CLIENT_ID, RequestLog

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tidelog.kernel import Broker
    from tidelog.kernel.seams.cleanup import LogCleaner
    from tidelog.plugins.client.admin.admin import Admin
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.consumer.settings import IsolationLevel
    from tidelog.plugins.client.operations.groups import GroupDescription
    from tidelog.plugins.client.producer.delivery import RecordMetadata
    from tidelog.plugins.client.producer.producer import Producer
    from tidelog.testing.faults import InjectedFault
    from tidelog.testing.request_log import SeenRequest

T = TypeVar("T")

PATIENCE_S: Final = 30.0
"""How long what is waited for may take, in real time, unless a call says otherwise."""
_PAUSE_S: Final = 0.005
_STAGES: Final = "tidelog.testing.stages"
_FOR_AN_APPLICATION: Final[Mapping[str, object]] = {
    # A group waits for no further members: a test has them at once, or one after the other on purpose.
    "group.initial.rebalance.delay.ms": 0,
    # As Kafka's: with the clock in a test's hands records expire when it says so.
    "log.retention.ms": 7 * 24 * 3600 * 1000,
    "log.retention.check.interval.ms": 1000,
    # Ten seconds in Kafka: a transaction whose time has passed on the clock is aborted soon.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}


class KafkaServer:
    """A Kafka that a test has for itself: real sockets, and real clients of any kind.

        with KafkaServer(topics={"orders": 3}) as kafka:
            service = start_my_service(kafka.bootstrap)

    It runs in a thread of its own, and has its records in memory, or in a directory, where they survive
    `restart` and `kill`. Its methods are for blocking code, in any thread; `AsyncKafkaServer` has the
    same ones for async code.

    Attributes:
        clock: time of the broker; `clock.advance(days=7)` lets it pass
        faults: faults on purpose, such as `faults.produce(error="NOT_LEADER_OR_FOLLOWER", times=2)`
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        topics: Mapping[str, int] | Iterable[str] = (),
        directory: Path | str | None = None,
    ) -> None:
        """Prepare a server, which `start` or a `with` block starts.

        Args:
            settings: configuration of the broker, by Kafka's keys
            topics: topics that are there at once, with their numbers of partitions, 1 without them
            directory: where records are kept in files; with None they are in memory
        """
        self.clock = ShiftedClock()
        self._settings = dict(settings or {})
        self._topics = _partition_counts(topics)
        self._directory = None if directory is None else Path(directory)
        self._data = 0
        self._thread: BrokerThread | None = None
        self._port = 0
        self._admin: Admin | None = None
        self._producer: Producer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker; clients can connect when this returns, after a restart at the same address.

        Raises:
            RuntimeError: it runs already.
            ConfigError: a setting is none, or cannot be used.
        """
        if self._thread is not None:
            raise RuntimeError("this server runs already")
        # Servers come and go with their threads, and the memory is that of the application's tests.
        keep_no_freed_blocks()
        self._thread = BrokerThread(self._all_settings(), self.clock)
        self._port = int(self.bootstrap.rpartition(":")[2])
        topics, self._topics = self._topics, {}
        if topics:
            from tidelog.plugins.client.operations.topics import NewTopic

            self.admin.create_topics([NewTopic(name, partitions=count) for name, count in topics.items()])

    def stop(self) -> None:
        """Stop the broker gracefully, and close what belongs to it; without effect if it does not run."""
        self._close_clients()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
            # What its thread had is free now, in pages between what other threads have.
            return_freed_blocks()

    def restart(self) -> None:
        """Stop the broker gracefully and start it again, at the same address.

        Raises:
            RuntimeError: it does not run, or its records are in memory.
        """
        self._require_directory("restart")
        self.stop()
        self.start()

    def kill(self) -> None:
        """Let the broker end as by SIGKILL: what is not in a file is lost. `start` starts it again.

        Raises:
            RuntimeError: it does not run, or its records are in memory.
        """
        directory = self._require_directory("kill")
        thread = self._running
        before, self._data = self._data, self._data + 1
        # In the broker's thread: nothing of it runs meanwhile.
        thread.call(_copy_at_rest, directory / str(before), directory / str(self._data))
        self._close_clients()
        self._thread = None
        thread.stop(at_once=True)
        shutil.rmtree(directory / str(before))

    def pause(self) -> None:
        """Let no request be answered until `resume`, as if the process was stopped."""
        self._running.call(self.faults.pause)

    def resume(self) -> None:
        """Let requests be answered again, those that came meanwhile too."""
        self._running.call(self.faults.resume)

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return self._thread is not None

    @property
    def bootstrap(self) -> str:
        """The address for clients here, `127.0.0.1:port`: that of the first listener for Kafka's protocol."""
        return self.broker.listeners[self._kafka_listener]

    @property
    def advertised(self) -> str:
        """The address that clients get, `host:port`, which is another one with `advertised.listeners`."""
        endpoint = self.broker.cluster.this_broker(self._kafka_listener)
        return format_address(endpoint.host, endpoint.port)

    @property
    def broker(self) -> Broker:
        """The broker itself, whose objects belong to its thread."""
        return self._running.broker

    @property
    def faults(self) -> InjectedFaults:
        """The faults that a test injects."""
        return self._stage(InjectedFaults)

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[SeenRequest]:
        """Return what clients have asked for, the oldest first: all, or of one API, or of one client."""
        return self._stage(RequestLog).requests(api, client_id=client_id)

    def clear_requests(self) -> None:
        """Forget what clients have asked for."""
        self._stage(RequestLog).clear()

    def config_for(self, client: str, **options: Any) -> dict[str, Any]:
        """Return the configuration by which a client finds the broker, with further options of it.

        Args:
            client: `confluent`, `java`, `aiokafka`, `kafka-python` or `tidelog`
            options: added as they are; for the first two an underscore in a name is a dot

        Raises:
            ValueError: there is no such client.
        """
        return client_config(client, self.bootstrap, options)

    @property
    def admin(self) -> Admin:
        """An admin client of `tidelog.client`, which is closed with the server."""
        if self._admin is None:
            # Not at the top, here and below: a test that has clients of its own needs none of these.
            from tidelog.plugins.client.admin.admin import Admin

            self._admin = Admin(self.bootstrap, client_id=OWN_CLIENT_ID)
        return self._admin

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic, with keys of its own such as `{"cleanup.policy": "compact"}`.

        Raises:
            ErrorResponse: it exists, or a key cannot have that value.
        """
        from tidelog.plugins.client.operations.topics import NewTopic

        values = {key: str(value) for key, value in (config or {}).items()}
        self.admin.create_topics([NewTopic(name, partitions=partitions, config=values)])

    def delete_topic(self, name: str) -> None:
        """Delete a topic; raises `ErrorResponse` if there is none."""
        self.admin.delete_topics([name])

    def alter_topic(self, name: str, config: Mapping[str, object]) -> None:
        """Set keys of a topic; raises `ErrorResponse` for what it refuses."""
        from tidelog.plugins.client.operations.configs import ConfigChange

        self.admin.alter_configs({name: [ConfigChange(key, str(value)) for key, value in config.items()]})

    def topics(self) -> list[str]:
        """Return the names of the topics in order, without Kafka's own."""
        return sorted(self.admin.list_topics())

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> RecordMetadata:
        """Append a record and return where it is; text is encoded as UTF-8, None is a tombstone.

        Its timestamp is that of the server's clock unless it is given.

        Raises:
            ClientError: it was not appended.
        """
        if self._producer is None:
            from tidelog.plugins.client.producer.producer import Producer

            self._producer = Producer(self.bootstrap, client_id=OWN_CLIENT_ID)
        return self._producer.send_and_wait(
            topic,
            _bytes(value),
            _bytes(key),
            partition=partition,
            timestamp_ms=self.clock.now_ms if timestamp_ms is None else timestamp_ms,
            headers=headers,
        )

    def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> list[ConsumerRecord]:
        """Return all records of a topic, or of one partition, in the order of partitions and offsets.

        Raises:
            ErrorResponse: there is no such topic.
        """
        from tidelog.plugins.client.consumer.consumer import Consumer

        with Consumer(
            self.bootstrap,
            client_id=OWN_CLIENT_ID,
            auto_offset_reset="earliest",
            isolation_level=isolation_level,
            fetch_max_wait_ms=1,
        ) as consumer:
            indexes = consumer.partitions_for(topic) if partition is None else [partition]
            partitions = [TopicPartition(topic, each) for each in indexes]
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            found: list[ConsumerRecord] = []
            while any(consumer.position(each) < end for each, end in ends.items()):
                found += consumer.poll(_PAUSE_S)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def wait_for_records(
        self, topic: str, count: int, *, timeout: float = PATIENCE_S
    ) -> list[ConsumerRecord]:
        """Return all records of a topic once there are so many.

        Raises:
            TimeoutError: there are fewer; it says how many.
        """
        found: list[ConsumerRecord] = []

        def are_there() -> bool:
            nonlocal found
            found = self.records(topic) if topic in self.topics() else []
            return len(found) >= count

        self.wait_until(are_there, lambda: f"{count} records in {topic!r}: there are {len(found)}", timeout)
        return found

    def groups(self) -> dict[str, GroupDescription]:
        """Return the groups with their members, by their names."""
        names = [each.group_id for each in self.admin.list_groups()]
        return self.admin.describe_groups(names) if names else {}

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return what a group has committed: the next offset to read of each partition."""
        return {partition: each.offset for partition, each in self.admin.committed_offsets(group).items()}

    def lag(self, group: str, topic: str | None = None) -> int:
        """Return how many records a group has still to read of what it has committed offsets for."""
        committed = {
            partition: offset
            for partition, offset in self.committed(group).items()
            if topic is None or partition.topic == topic
        }
        ends = self.admin.list_offsets(list(committed)) if committed else {}
        return sum(max(0, ends[partition].offset - offset) for partition, offset in committed.items())

    def fence(self, transactional_id: str) -> None:
        """Let a producer with a transactional id be an older one from now on: its next request is refused."""
        from tidelog.plugins.client.producer.producer import Producer

        with Producer(self.bootstrap, client_id=OWN_CLIENT_ID, transactional_id=transactional_id) as producer:
            producer.init_transactions()

    def rebalance(self, group: str) -> InjectedFault | None:
        """Let a group rebalance now: each of its members joins again with its next heartbeat.

        A member of a classic group is answered that the group rebalances, as another one has come and
        gone. One of a consumer group is fenced, and loses its partitions before it has them again: the fault
        that does so is returned, and counts them.

        Raises:
            ValueError: there is no such group, or it has no members.
        """
        found = self.groups().get(group)
        if found is None or not found.members:
            raise ValueError(f"there is no group {group!r} with members")
        if found.type == "classic":
            from tidelog.testing.rebalance import rebalance_classic

            self._running.await_(rebalance_classic, self.broker.coordinator.groups, found)
            return None
        left = {each.member_id for each in found.members}

        def is_next(message: Any) -> bool:
            if message.group_id != group or message.member_id not in left:
                return False
            left.discard(message.member_id)
            return True

        return self.faults.inject("ConsumerGroupHeartbeat", error="FENCED_MEMBER_EPOCH", where=is_next)

    def expire_now(self) -> None:
        """Let each cleanup policy look at each log: what retention does not keep any more is deleted."""
        self._running.await_(self._cleaner().clean_now)

    def compact_now(self, *topics: str) -> None:
        """Compact topics, or all that are compacted, however little there is to compact.

        Raises:
            ValueError: a topic is not there, or its `cleanup.policy` has no `compact`.
            RuntimeError: a log could not be compacted.
        """
        for name in topics:
            topic = self._running.call(self.broker.topics.find, name)
            if topic is None:
                raise ValueError(f"there is no topic {name!r} to compact")
            if "compact" not in topic.config[CLEANUP_POLICY]:
                raise ValueError(f"the cleanup.policy of {name!r} has no compact: nothing is to be compacted")
        outcome = self._running.await_(self._cleaner().rewrite_now, topics)
        if outcome.failed:
            raise RuntimeError(f"not compacted: {', '.join(map(str, outcome.failed))}; the log says why")

    def wait_until_clean(self, *, timeout: float = PATIENCE_S) -> None:
        """Let the log cleaner do what the topics' own settings ask for, until it finds nothing more to do.

        Other than `compact_now` it heeds `min.cleanable.dirty.ratio`, `min.compaction.lag.ms` and their like.

        Raises:
            TimeoutError: it is not done by then.
            RuntimeError: a log could not be cleaned.
        """
        cleaner = self._cleaner()
        at_first = self._running.call(_work_of, cleaner)

        def is_clean() -> bool:
            before = self._running.call(_work_of, cleaner)
            self._running.await_(cleaner.clean_now)
            after = self._running.call(_work_of, cleaner)
            if after.failures > at_first.failures:
                raise RuntimeError("a log could not be cleaned; the log of the broker says why")
            # What another round has in its hands was passed over.
            return before == after and not self._running.call(lambda: cleaner.is_busy)

        self.wait_until(is_clean, "the log cleaner to find nothing more to do", timeout)

    def wait_until(
        self,
        condition: Callable[[], T],
        what: str | Callable[[], str] = "the condition",
        timeout: float = PATIENCE_S,
    ) -> T:
        """Ask again and again until something is true, and return it.

        Raises:
            TimeoutError: it is not within `timeout` seconds; `what` says what.
        """
        deadline = time.monotonic() + timeout
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() >= deadline:
                raise TimeoutError(f"waited {timeout:g} s for {what if isinstance(what, str) else what()}")
            time.sleep(_PAUSE_S)

    @property
    def _running(self) -> BrokerThread:
        if self._thread is None:
            raise RuntimeError("this server does not run: start it, or use it in a with block")
        return self._thread

    @property
    def _kafka_listener(self) -> str:
        served = self.broker.config.served_listeners()
        return next(each.name for each in served if each.codec in (CODEC_NAME, DEFAULT_CODEC))

    def _cleaner(self) -> LogCleaner:
        cleaner = self.broker.log_cleaner
        if cleaner is None:
            raise RuntimeError("this server has no log cleaner: its plugin is blocked")
        return cleaner

    def _stage(self, kind: type[T]) -> T:
        return next(each for each in self.broker.request_stages if isinstance(each, kind))

    def _require_directory(self, what: str) -> Path:
        if self._directory is None:
            raise RuntimeError(f"to {what} a server it needs a directory: KafkaServer(directory=...)")
        return self._directory

    def _close_clients(self) -> None:
        producer, self._producer = self._producer, None
        admin, self._admin = self._admin, None
        for client in (producer, admin):
            if client is not None:
                client.close()

    def _all_settings(self) -> dict[str, object]:
        given = self._settings
        plugins: Any = given.get("plugins", ())
        named: Iterable[str] = plugins.split(",") if isinstance(plugins, str) else plugins
        settings = {
            **_FOR_AN_APPLICATION,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            **given,
            "plugins": ",".join([*named, _STAGES]),
        }
        settings["listener.codec.map"] = _codec_map(settings)
        if self._directory is not None:
            settings |= {"storage": "file", "log.dirs": str(self._directory / str(self._data))}
        return settings


class _Work(NamedTuple):
    """How much a log cleaner has done since it was started."""

    done: int
    failures: int


def _work_of(cleaner: LogCleaner) -> _Work:
    policies = cleaner.statistics().values()
    done = sum(each.rewrites + each.rolled_segments + each.deleted_segments for each in policies)
    return _Work(done, sum(each.failures for each in policies))


def _codec_map(settings: Mapping[str, object]) -> str:
    """Return which codec each listener has: that with faults, unless another one is named."""
    given = [each for each in str(settings.get("listener.codec.map", "")).split(",") if each.strip()]
    named = {each.partition(":")[0].strip() for each in given}
    listeners = (each.partition("://")[0].strip() for each in str(settings["listeners"]).split(","))
    return ",".join([*given, *(f"{each}:{CODEC_NAME}" for each in listeners if each not in named)])


def _partition_counts(topics: Mapping[str, int] | Iterable[str]) -> dict[str, int]:
    counts: Any = topics
    return dict(counts) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)


def _copy_at_rest(source: Path, target: Path) -> None:
    """Copy a directory as it is at one moment; the caller holds the event loop of what writes there.

    Raises:
        RuntimeError: something else keeps writing there.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        # Of a file that a thread renames meanwhile, either call may not find the name that it has just seen.
        with suppress(shutil.Error, OSError):
            before = _files(source)
            shutil.copytree(source, target)
            if _files(source) == before:
                return
        # A thread was about to finish its work there.
        shutil.rmtree(target, ignore_errors=True)
    raise RuntimeError(f"files in {source} were written for {PATIENCE_S:g} s without a rest")


def _files(directory: Path) -> list[tuple[Path, int, int]]:
    found = [(each, each.stat()) for each in sorted(directory.rglob("*"))]
    return [(path, status.st_size, status.st_mtime_ns) for path, status in found]


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
