"""Client for blocking code: one thread, one operation at a time, a timeout on everything."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from tidelog.plugins.client.drivers.blocking_driver import BlockingDriver
from tidelog.plugins.client.operations import all_operations as operations
from tidelog.plugins.client.operations.fetching import DEFAULT_LIMITS
from tidelog.plugins.client.operations.reading import PartitionReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.kernel.records.record import Record
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import FetchedBatch
    from tidelog.plugins.client.operations.fetching import FetchLimits
    from tidelog.plugins.client.steps import Session, Steps

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    operation: Callable[Concatenate[Session, P], Steps[T]],
) -> Callable[Concatenate[BlockingClient, P], T]:
    @wraps(operation)
    def method(self: BlockingClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(operation, *args, **kwargs)

    return method


class BlockingClient(BlockingDriver):
    """Client of a cluster for one thread; it connects at its first use and reconnects when needed.

        with BlockingClient("127.0.0.1:9092") as client:
            client.create_topics([NewTopic("orders", partitions=3)])

    The methods are the operations of `tidelog.plugins.client.operations`, without their session. They raise
    `ClientError`; an operation that does not end within `operation_timeout_s` raises `RequestTimedOut`.
    """

    metadata = _method(operations.metadata)
    create_topics = _method(operations.create_topics)
    create_partitions = _method(operations.create_partitions)
    delete_topics = _method(operations.delete_topics)
    describe_configs = _method(operations.describe_configs)
    alter_configs = _method(operations.alter_configs)
    list_offsets = _method(operations.list_offsets)
    init_producer = _method(operations.init_producer)
    produce = _method(operations.produce)
    produce_batches = _method(operations.produce_batches)
    init_transactions = _method(operations.init_transactions)
    send_offsets = _method(operations.send_offsets)
    commit_transaction = _method(operations.commit_transaction)
    abort_transaction = _method(operations.abort_transaction)
    commit_offsets = _method(operations.commit_offsets)
    committed_offsets = _method(operations.committed_offsets)
    fetch = _method(operations.fetch)
    fetch_partitions = _method(operations.fetch_partitions)
    close_fetch_sessions = _method(operations.close_fetch_sessions)
    request = _method(operations.send_request)
    request_all = _method(operations.send_requests)

    def read(
        self,
        partition: TopicPartition,
        start: int,
        stop: int | None = None,
        limits: FetchLimits = DEFAULT_LIMITS,
    ) -> Iterator[Record]:
        """Yield a partition's records from offset `start` up to `stop`; see `PartitionReader` for `stop`.

        Raises:
            ClientError: as `fetch`, and `CorruptRecords`.
        """
        reader = PartitionReader(partition, start, stop, limits)
        while not reader.finished:
            yield from self.run(reader.poll)

    def read_batches(
        self,
        partition: TopicPartition,
        start: int,
        stop: int | None = None,
        limits: FetchLimits = DEFAULT_LIMITS,
    ) -> Iterator[list[FetchedBatch]]:
        """Yield the committed batches from offset `start` up to `stop`, those of one response at once.

        The batches are whole, so that the first and the last one may have other records as well; see
        `PartitionReader` for `stop`.

        Raises:
            ClientError: as `fetch`, and `CorruptRecords`.
        """
        reader = PartitionReader(partition, start, stop, limits)
        while not reader.finished:
            yield self.run(reader.poll_batches)
