"""All partitions of which this broker has a replica: the one way to a log.

Source: Apache Kafka's `ReplicaManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError, UnknownTopicOrPartition
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.log.flush_threads import FlushThreads
from tidelog.kernel.log.traffic import Traffic
from tidelog.kernel.metadata import NO_LEADER
from tidelog.kernel.pace import ITEMS_PER_STEP, Pace
from tidelog.kernel.replica.partition import Leadership, Partition
from tidelog.kernel.seams.events import LeadershipChanged
from tidelog.kernel.seams.partition import NO_LEADER_EPOCH
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.log.memory_budget import Unpacking
    from tidelog.kernel.log.side_writes import SideWrites
    from tidelog.kernel.metadata import PartitionImage
    from tidelog.kernel.seams.events import Event
    from tidelog.kernel.seams.storage import PartitionSpec, PartitionStore, Storage
    from tidelog.kernel.seams.tasks import Tasks

_log = logging.getLogger(__name__)

LOADS_PER_THREAD_HOP = 64
NAMED = 10
"""Most topics that one message names."""


class ReplicaManager:
    """Opens, loads, finds, closes and deletes partitions, and applies who leads them.

    A partition can be found from `serve` on, until `close` or `discard`. `traffic` counts what is
    written and read.
    """

    def __init__(
        self,
        node_id: int,
        storage: Storage,
        clock: Clock,
        tasks: Tasks,
        unpacking: Unpacking,
        publish: Callable[[Event], None],
    ) -> None:
        """`node_id` is the id of this broker; `publish` gets `LeadershipChanged`."""
        self._node_id = node_id
        self._publish = publish
        self._storage = storage
        self.unpacking = unpacking
        self._clock = clock
        self._tasks = tasks
        self._flush_threads = FlushThreads(tasks.run_shielded)
        # By topic and number; a plain pair finds what a `TopicPartition` was stored under.
        self._partitions: dict[tuple[str, int], Partition] = {}
        self.traffic = Traffic()
        self._closed_at: Mapping[TopicPartition, int] | None = None

    # --- for requests

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._partitions.values()))

    def find(self, topic: str, number: int) -> Partition | None:
        """Return a partition of which this broker has a replica, led by any broker; None without one."""
        return self._partitions.get((topic, number))

    def get(self, topic: str, number: int) -> Partition:
        """Return a partition of which this broker has a replica that can be used, led by any broker.

        Raises:
            UnknownTopicOrPartition: there is none.
            StorageError: its log directory failed.
        """
        partition = self.find(topic, number)
        if partition is None:
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {number}")
        partition.log.availability.check()
        return partition

    def log_of(
        self,
        topic: str,
        number: int,
        current_epoch: int = NO_LEADER_EPOCH,
        *,
        leader_only: bool = True,
    ) -> UnifiedLog:
        """Return the log that a request for a partition uses, if it may.

        `current_epoch` is the leader epoch that its client knows, -1 if it says none. Without `leader_only`
        the log of a follower serves, too.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
            BrokerError: see `Partition.check`.
        """
        partition = self._partitions.get((topic, number))
        if partition is None:
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {number}")
        log = partition.log
        # Nearly always it leads, and this is done for each partition of each request.
        leads = log.availability.append_refusal is None
        if not leads or (current_epoch != NO_LEADER_EPOCH and current_epoch != log.leader_epoch):
            partition.check(current_epoch, leader_only=leader_only)
        return log

    # --- for what the cluster decides

    def assign(self, partition: Partition, image: PartitionImage) -> None:
        """Let a partition that no request finds yet be led as the image says; its log may not be loaded."""
        partition.begin(*self._by_image(partition, image))

    async def follow(
        self, partitions: Sequence[Partition], images: Sequence[PartitionImage], pace: Pace
    ) -> None:
        """Let partitions be led as the image of each says, in steps."""
        for start in range(0, len(partitions), ITEMS_PER_STEP):
            some = slice(start, start + ITEMS_PER_STEP)
            changed = {
                partition.topic_partition: wanted
                for partition, image in zip(partitions[some], images[some], strict=True)
                if (wanted := self._by_image(partition, image)) != partition.leadership
            }
            self.apply_leadership(changed)
            await pace.turn()

    def _by_image(self, partition: Partition, image: PartitionImage) -> Leadership:
        # The image is never old, but a log may know a later epoch, which the store had no room for.
        epoch = max(image.leader_epoch, partition.leader_epoch)
        leader_id = image.leader if image.replicas else self._node_id
        isr = image.isr if image.isr or leader_id == NO_LEADER else (leader_id,)
        return Leadership(leader_id, epoch, isr)

    def apply_leadership(self, leaderships: Mapping[TopicPartition, Leadership]) -> None:
        """Let each of these partitions be led by that broker, perhaps this one, in that epoch.

        One whose epoch is older than what was applied before is left as it is, and one without a replica here
        is not looked at. The others are published together, as one `LeadershipChanged`.
        """
        changed: list[Partition] = []
        for name, (leader_id, epoch, isr) in leaderships.items():
            partition = self._partitions.get(name)
            if partition is None:
                continue
            if leader_id == self._node_id:
                is_new = partition.make_leader(epoch, isr)
            else:
                is_new = partition.make_follower(leader_id, epoch, isr)
            if is_new:
                changed.append(partition)
        if changed:
            self._publish(LeadershipChanged(changed))

    async def open(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> list[Partition]:
        """Open the stores of partitions, whose state is loaded later; `progress` gets how many are open.

        Raises:
            OSError, StorageError: the disk refused; none is open, and none was created.
        """
        stores = await self._storage.open_partitions(specs, progress)
        partitions: list[Partition] = []
        pace = Pace()
        for spec, store in zip(specs, stores, strict=True):
            partitions.append(self._partition(spec, store))
            await pace.turn()
        return partitions

    def _partition(self, spec: PartitionSpec, store: PartitionStore) -> Partition:
        tasks = self._tasks
        log = UnifiedLog(
            spec.topic_partition,
            spec.topic_id,
            store,
            spec.config,
            self._clock,
            tasks.in_thread,
            self._flush_threads,
            self.unpacking,
        )
        # Its log exists all the same, so that requests get KAFKA_STORAGE_ERROR and not an unknown partition.
        reason = self._storage.failed_partitions.get(spec.topic_partition)
        if reason is not None:
            log.take_offline(StorageError(f"{spec.topic_partition} is offline: {reason}"))
        return Partition(log, self._node_id)

    async def load_state(self, partitions: Sequence[Partition]) -> None:
        """Load the producers and leader epochs of partitions, in threads.

        Raises:
            OSError, StorageError: the disk refused.
        """
        clean = self._storage.clean_start
        for start in range(0, len(partitions), LOADS_PER_THREAD_HOP):
            logs = [partition.log for partition in partitions[start : start + LOADS_PER_THREAD_HOP]]
            await trio.to_thread.run_sync(_load_all, logs, clean)
            for log in logs:
                # Not in the thread: jobs are started on the event loop.
                if log.epochs.is_owed:
                    log.epochs.pay_soon()

    def serve(self, partitions: Sequence[Partition]) -> None:
        """Let requests find partitions that were loaded."""
        for partition in partitions:
            partition.log.traffic = self.traffic.of(partition.topic_partition.topic)
        self._partitions.update((partition.topic_partition, partition) for partition in partitions)

    def withdraw(self, partitions: Sequence[Partition]) -> None:
        """Let no request find partitions any more; one of the same name may be served from now on."""
        for partition in partitions:
            self._partitions.pop(partition.topic_partition, None)
            self.traffic.forget(partition.topic_partition.topic)

    def take_offline(self, names: Sequence[TopicPartition], reason: str) -> Sequence[Partition]:
        """Take partitions whose log directory failed out of service until a restart; return those."""
        offline = [found for name in names if (found := self._partitions.get(name)) is not None]
        for partition in offline:
            partition.log.take_offline(StorageError(f"{partition.topic_partition} is offline: {reason}"))
        return offline

    def abandon_waiters(self) -> None:
        """Wake all that wait for records: there is nothing to wait for any more."""
        for partition in self:
            partition.log.abandon_waiters()

    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """Return the high watermark of each partition, after `close` as it was then.

        Before that they are looked up one by one, as they are at that moment; any thread may do it.
        """
        return _HighWatermarks(self) if self._closed_at is None else self._closed_at

    def high_watermark(self, name: TopicPartition) -> int | None:
        """Return the high watermark of a partition, after `close` as it was then; None without one."""
        partition = self._partitions.get(name)
        if partition is not None:
            return partition.log.high_watermark
        # Looked at last: what a thread no longer finds since `close` is in it.
        return None if self._closed_at is None else self._closed_at.get(name)

    async def close(self) -> None:
        """Close all partitions; the state of those that the disk does not refuse is on it afterwards."""
        partitions = [*self]
        # Before the partitions go: a thread that writes a checkpoint finds each watermark here or there.
        self._closed_at = {each.topic_partition: each.log.high_watermark for each in partitions}
        self._partitions.clear()
        await self._storage.close_partitions(
            [(partition.topic_partition, partial(_close, partition.log)) for partition in partitions]
        )

    async def discard(self, partitions: Sequence[Partition]) -> None:
        """Delete partitions that belong to no topic (any more); a disk error is only logged."""
        pace = Pace()
        # Offline first, so that nothing is appended to, or begun in, a directory that goes.
        for partition in partitions:
            partition.log.take_offline()
            await pace.turn()
        # Background writes must not run in a directory that is renamed, or in that of a new topic of the same
        # name.
        busy = [partition.log.side_writes for partition in partitions if partition.log.side_writes.close()]
        if busy:
            await trio.to_thread.run_sync(_wait_closed, busy)
        try:
            await self._storage.delete_partitions(
                [(partition.topic_partition, partition.log.store) for partition in partitions]
            )
        except (OSError, StorageError) as error:
            names = [*dict.fromkeys(partition.topic_partition.topic for partition in partitions)]
            shown = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
            _log.error("partitions of topic %s are left on the disk: %s", shown, error)


class _HighWatermarks(Mapping[TopicPartition, int]):
    """Those of all partitions that can be found."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def __getitem__(self, name: TopicPartition) -> int:
        found = self._replicas.high_watermark(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[TopicPartition]:
        return (each.topic_partition for each in self._replicas)

    def __len__(self) -> int:
        return sum(1 for _ in self._replicas)


def _load_all(logs: Sequence[UnifiedLog], clean_start: bool) -> None:
    for log in logs:
        if log.offline is None:
            try:
                log.load(clean_start=clean_start)
            # One partition without room must not stop the broker: the others may need none.
            except OSError as error:
                if not disk.is_full(error):
                    raise
                described = f"{log.topic_partition} is offline until a restart with room: {error}"
                _log.error("%s", described)
                log.take_offline(StorageError(described))


def _wait_closed(works: Sequence[SideWrites]) -> None:
    for work in works:
        work.wait_closed()


def _close(log: UnifiedLog) -> None:
    try:
        log.close()
    # Logged and not raised: the other partitions have to be closed as well.
    except (OSError, StorageError) as error:
        level = logging.WARNING if disk.is_full(error) else logging.ERROR
        _log.log(level, "%s could not be closed properly: %s", log.topic_partition, error)
