"""What a test asks of a server for tests; each kind of server has what it can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

PATIENCE_S: Final = 30.0
_QUIET: Final[Mapping[str, Any]] = {"log_level": 0}


class CannotBeDoneError(Exception):
    """The server has nothing for that; the text says what is missing."""


class Kit(ABC):
    """A server of one kind, as a context manager; and the clients of the tests, which are the same for all.

    What a kind does not override cannot be done with it.
    """

    title: ClassVar[str]
    """What the page calls it."""
    lacks: ClassVar[Mapping[str, str]] = {}
    """What cannot be done by what the server does, by the names of tests, and why."""
    is_shared: ClassVar[bool] = False
    """All tests have one server, since a start takes too long for each to have its own."""
    bootstrap: str
    _admin: AdminClient | None = None

    @abstractmethod
    def start(self) -> None:
        """Start the server; `bootstrap` is known then."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server."""

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

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic."""
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        self.admin().create_topics([topic])[name].result(PATIENCE_S)

    def crash(self) -> None:
        """End the server without a chance to finish, and start it again at the same address."""
        raise CannotBeDoneError("it has no crash: its records are gone with it")

    def pass_time(self, seconds: float) -> None:
        """Let time pass that the server measures."""
        raise CannotBeDoneError("time cannot be moved")

    def expire(self, topic: str) -> None:
        """Have records that are older than a week removed; those there are nine days old."""
        raise CannotBeDoneError("it has no retention")

    def compact(self, topic: str) -> None:
        """Have a topic compacted now."""
        raise CannotBeDoneError("it has no compaction")

    def refuse_produce(self, times: int) -> None:
        """Answer so many Produce requests with NOT_LEADER_OR_FOLLOWER."""
        raise CannotBeDoneError("no error can be injected")

    def lose_produce_response(self) -> None:
        """Append what the next Produce request has, and let its client not know."""
        raise CannotBeDoneError("no response can be lost")

    def delay_produce(self, seconds: float) -> None:
        """Let the next Produce request take so long."""
        raise CannotBeDoneError("no request can be delayed")

    def acks_of_produce(self) -> list[int]:
        """Return the field acks of the Produce requests so far."""
        raise CannotBeDoneError("requests cannot be looked at")

    def admin(self) -> AdminClient:
        """Return the admin client of this server, which has to live as long as its requests."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, **_QUIET})
        return self._admin

    def producer(self, **options: Any) -> Producer:
        """Return a producer; an underscore in the name of an option is a dot."""
        return Producer(self._options(options))

    def consumer(self, group: str, **options: Any) -> Consumer:
        """Return a consumer that begins with the oldest record."""
        begin = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        return Consumer(self._options({**begin, **options}))

    def produce(self, topic: str, *values: bytes, key: bytes | None = None, **options: Any) -> None:
        """Write records to partition 0."""
        producer = self.producer(**options)
        for value in values:
            producer.produce(topic, value, key, 0)
        assert producer.flush(PATIENCE_S) == 0

    def values(self, topic: str, count: int, **options: Any) -> list[bytes | None]:
        """Return so many records of partition 0."""
        consumer = self.consumer("reader", **options)
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            return [each.value() for each in consumer.consume(count, PATIENCE_S)]
        finally:
            consumer.close()

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        dotted = {name.replace("_", "."): value for name, value in options.items()}
        return {"bootstrap.servers": self.bootstrap, **_QUIET, **dotted}
