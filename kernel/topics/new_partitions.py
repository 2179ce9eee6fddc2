"""New partitions: those of topics that are created, and those that topics get in addition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.errors import StorageError
from tidelog.kernel.metadata import MetadataDelta
from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps
from tidelog.kernel.topics.partitions import PartitionKeeper, partition_specs

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.metadata import TopicImage
    from tidelog.kernel.seams.metadata import MetadataStore


@attrs.define(eq=False)
class NewPartitions:
    """The partitions of one topic from number `first` on; `record` is the topic with them.

    After `create_partitions` there are `partitions`, or `error` is why there are none.
    """

    record: TopicImage
    config: TopicConfig
    first: int = 0
    partitions: list[UnifiedLog] = attrs.field(factory=list["UnifiedLog"])
    error: OSError | StorageError | None = None

    def with_epochs(self) -> tuple[str, TopicImage]:
        """Return the topic with the leader epochs of the new partitions, by its name."""
        there, new = self.record.partitions[: self.first], self.record.partitions[self.first :]
        led = (
            each._replace(leader_epoch=partition.leader_epoch)
            for each, partition in zip(new, self.partitions, strict=True)
        )
        return self.record.name, attrs.evolve(self.record, partitions=(*there, *led))


async def create_partitions(
    keeper: PartitionKeeper, metadata: MetadataStore, wanted: Sequence[NewPartitions]
) -> None:
    """Create partitions durably, with one change of the metadata for all topics.

    If that fails, each topic is tried alone, so that only those fail for which the disk refuses; nothing is
    left of these.
    """
    partitions: list[UnifiedLog] = []
    try:
        pace = Pace()
        specs = [
            await run_in_steps(partition_specs(each.record, each.config, each.first), pace) for each in wanted
        ]
        partitions += await keeper.open([*chain.from_iterable(specs)])
        await keeper.load_state(partitions)
        remaining = iter(partitions)
        for each, mine in zip(wanted, specs, strict=True):
            each.partitions = list(islice(remaining, len(mine)))
        led = dict(await run_in_steps(each_in_steps(wanted, NewPartitions.with_epochs)))
        await metadata.commit(MetadataDelta(topics=led))
    except (OSError, StorageError) as error:
        await keeper.discard(partitions)
        if len(wanted) == 1:
            wanted[0].error = error
            return
        for each in wanted:
            await create_partitions(keeper, metadata, [each])
