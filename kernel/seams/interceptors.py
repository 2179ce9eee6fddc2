"""The seam of interceptors: code of a plugin in the path of batches, and of changes of topics.

    produce   before_append   accept, refuse, or route to another topic; by the header of the batch
              rewrite         accept, refuse or replace each record
              after_append    it is in the log
    fetch     before_fetch    refuse, or whether records have to be looked at
              show            show, replace or hide each record
    changes   before_change   refuse

A table `[interceptors.NAME]` of the configuration has an interceptor and says for which topics and listeners
it is. Where none is named for a topic and listener, their batches pass no further function.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs

from tidelog.kernel.records.record import Record
from tidelog.kernel.seams.requests import Principal

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.config.tables import TableConfig
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.seams.partition import AppendResult


class RunsIn(enum.Enum):
    """Where `rewrite` runs; `show` always runs in a thread, as it reads what is stored."""

    LOOP = enum.auto()
    """On the event loop for small batches, in a thread for all others: for what takes microseconds a record
    and waits for nothing."""
    THREAD = enum.auto()
    """In a thread, always: for what may wait, or takes longer."""


class BatchInfo(NamedTuple):
    """A batch, and the client that sends or fetches it.

    Of a client's batch `header` is as it was sent: nothing of it is checked before `before_append`, except
    that there are 61 bytes of format 2. `size_bytes` is that of the batch with its header.
    """

    topic: str
    partition: int
    header: BatchHeader
    size_bytes: int
    listener: str
    host: str
    principal: Principal
    client_id: str | None


class FetchInfo(NamedTuple):
    """A partition that a client fetches."""

    topic: str
    partition: int
    listener: str
    host: str
    principal: Principal
    client_id: str | None


class RefusedRecord(NamedTuple):
    """The answer for a record with which its batch cannot be appended (KIP-467)."""

    message: str


class TopicCreation(NamedTuple):
    """A topic that is to be created, by a request or by itself; counts are -1 for the broker's defaults."""

    topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class PartitionsCreation(NamedTuple):
    """A topic that is to have so many partitions."""

    topic: str
    partitions: int


class TopicDeletion(NamedTuple):
    """A topic that is to be deleted."""

    topic: str


class TopicConfigChange(NamedTuple):
    """A change of what a topic sets for itself: all of it `before` and `after`."""

    topic: str
    before: Mapping[str, str]
    after: Mapping[str, str]


Change = TopicCreation | PartitionsCreation | TopicDeletion | TopicConfigChange


class Interceptor:
    """What is done with batches and changes; an interceptor overrides the methods that it needs.

    A `BrokerError` that a method raises refuses the batch, the fetch of the partition or the change, and its
    text goes to the client. Any other exception is a failure: it is logged with the name of the interceptor,
    and `on.failure` decides between refusing and passing over.

    A batch that was refused is not changed in the log, one that is sent again since its response was lost is
    not asked for a second time.
    """

    runs_in: RunsIn = RunsIn.THREAD

    def before_append(self, batch: BatchInfo) -> str | None:
        """Return the topic to which a batch is routed, None to leave it where it is.

        It runs on the event loop and has to return at once. A routed batch is appended to the partition of
        the same number, modulo the number of partitions there. Its offsets are not those of the response. An
        idempotent producer's place in the sequence is kept by an empty batch in the partition that it wrote
        to. A batch of a transaction cannot be routed.
        """
        return None

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        """Return an answer for each record, in order: itself, another one, or why it is refused.

        `records` have offsets from 0 on. An answer is returned before the next record is taken, as `map` and
        generators with one `yield` in a loop do. Another record keeps the offset. If each is the record
        itself, the batch is appended as it was sent. All records that are refused are reported to the client.
        """
        return records

    def after_append(self, batch: BatchInfo, result: AppendResult) -> None:
        """Take note that a batch is in the log, on the event loop; also of one that is sent again.

        With `flush.messages` it may not be durable yet. The header is that of the batch as it was sent.
        """
        return

    def before_fetch(self, fetch: FetchInfo) -> bool:
        """Return whether `show` is to be called with what is fetched; False sends the batches as they are.

        It runs on the event loop and has to return at once.
        """
        return True

    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
        """Return an answer for each record, as `rewrite` does: itself, another one, or None to hide it.

        Other records keep their offsets, as after compaction. Markers of transactions are not among them.
        It is called again for each client that fetches a batch.
        """
        return records

    def before_change(self, change: Change) -> None:
        """Refuse a change of a topic by raising a `BrokerError` such as `PolicyViolation`.

        It runs on the event loop, perhaps more than once for a change, and also where one is only validated.
        """
        return


@attrs.frozen
class InterceptorContext:
    """What an interceptor may use of its broker.

    `name` is that of its table, or of its kind where `create.topic.policy.class.name` or
    `alter.config.policy.class.name` has chosen it, which have no `table`. `clock` returns milliseconds.
    """

    name: str
    config: Config
    table: TableConfig | None
    clock: Callable[[], int]


class InterceptorKind(Protocol):
    """A kind of interceptor, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that `interceptors.NAME.type` chooses it by."""
        ...

    def create(self, context: InterceptorContext) -> Interceptor:
        """Return an interceptor.

        Raises:
            ConfigError: it cannot be used as it is configured.
        """
        ...


__all__ = [
    "BatchInfo",
    "Change",
    "FetchInfo",
    "Interceptor",
    "InterceptorContext",
    "InterceptorKind",
    "PartitionsCreation",
    "Record",
    "RefusedRecord",
    "RunsIn",
    "TopicConfigChange",
    "TopicCreation",
    "TopicDeletion",
]
