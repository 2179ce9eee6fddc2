"""Reservation of storage for new partitions, before the topics that they belong to are committed.

So a disk that refuses is an error of the request, and nothing is left of it. Between the reservation and the
commit the logs are open and belong to no topic: a crash leaves empty directories, which the next start
removes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import attrs

from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps
from tidelog.kernel.topics.topic import partition_specs

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.metadata import TopicImage
    from tidelog.kernel.replica import Partition, ReplicaManager
    from tidelog.kernel.seams.controller import NewPartitions
    from tidelog.kernel.seams.storage import Storage


class Reserved(NamedTuple):
    """New partitions, open, in the order of their numbers, and the configuration that they have."""

    partitions: list[Partition]
    config: TopicConfig


class Reservations:
    """What is reserved, by the topic's id and the number of the first partition."""

    def __init__(self, replicas: ReplicaManager, storage: Storage) -> None:
        self._replicas = replicas
        self.check_topic = storage.check_topic
        self._reserved: dict[tuple[UUID, int], Reserved] = {}

    async def reserve(self, wanted: Sequence[NewPartitions]) -> list[TopicImage]:
        """Create and open the logs of new partitions; return the topics with the leader epochs of these.

        Raises:
            OSError, StorageError: the disk refused; nothing is left.
        """
        partitions: list[Partition] = []
        pace = Pace()
        try:
            specs = [
                await run_in_steps(partition_specs(each.topic, each.config, each.first), pace)
                for each in wanted
            ]
            partitions += await self._replicas.open([*chain.from_iterable(specs)])
            await self._replicas.load_state(partitions)
        # A cancellation too: the directories belong to no topic, and no later request knows of them.
        except BaseException:
            await self._replicas.discard(partitions)
            raise
        remaining = iter(partitions)
        for each, mine in zip(wanted, specs, strict=True):
            reserved = Reserved(list(islice(remaining, len(mine))), each.config)
            self._reserved[each.topic.topic_id, each.first] = reserved
        return await run_in_steps(each_in_steps(wanted, self._with_epochs))

    def _with_epochs(self, new: NewPartitions) -> TopicImage:
        there, added = new.topic.partitions[: new.first], new.topic.partitions[new.first :]
        partitions = self._reserved[new.topic.topic_id, new.first].partitions
        led = (
            each
            if each.leader_epoch == partition.leader_epoch
            else each._replace(leader_epoch=partition.leader_epoch)
            for each, partition in zip(added, partitions, strict=True)
        )
        return attrs.evolve(new.topic, partitions=(*there, *led))

    async def release(self, wanted: Sequence[NewPartitions]) -> None:
        """Delete the logs of partitions that were not committed."""
        released = [self.take(each.topic.topic_id, each.first) for each in wanted]
        await self._replicas.discard(
            [partition for reserved in released if reserved for partition in reserved.partitions]
        )

    def take(self, topic_id: UUID, first: int) -> Reserved | None:
        """Return, and no longer keep, what was reserved from partition `first` on; None if nothing was."""
        return self._reserved.pop((topic_id, first), None)
