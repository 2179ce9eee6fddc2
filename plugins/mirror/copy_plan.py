"""Which partitions of the source are copied, and where to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.mirror.following import Followed, TopicRoute, partitions_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


@attrs.frozen
class CopyPlan:
    """Which partitions of the source are copied, and where to, until topics are followed the next time.

    Attributes:
        routes: by the name of the topic at the source
        copies: by partition of the source, that of the target; of hashed ones only the topic counts
        problems: what is not copied, or not as it should be, by its name
    """

    routes: Mapping[str, TopicRoute] = attrs.field(factory=dict[str, TopicRoute])
    copies: Mapping[TopicPartition, TopicPartition] = attrs.field(
        factory=dict[TopicPartition, TopicPartition]
    )
    problems: Mapping[str, str] = attrs.field(factory=dict[str, str])

    @classmethod
    def of(cls, followed: Followed, started: Container[TopicPartition], *, keeps_partitions: bool) -> Self:
        """Return the plan for topics that were followed; `started` are partitions with a known position."""
        problems = {f"topic {name}": problem for name, problem in followed.problems.items()}
        copies: dict[TopicPartition, TopicPartition] = {}
        for route in followed.routes.values():
            for partition in partitions_of(route):
                if keeps_partitions and partition.partition >= route.target_partitions:
                    problems[str(partition)] = (
                        f"{route.target} of the target has only {route.target_partitions} partitions"
                    )
                elif partition in started:
                    copies[partition] = TopicPartition(route.target, partition.partition)
        return cls(followed.routes, copies, problems)

    def missing(self) -> list[TopicPartition]:
        """Return partitions of the source that are not copied."""
        return [
            each for route in self.routes.values() for each in partitions_of(route) if each not in self.copies
        ]

    def sources_of(self, target: TopicPartition) -> list[TopicPartition]:
        """Return the partitions of the source that may have records in one of the target."""
        sources = [source for source, copy in self.copies.items() if copy == target]
        # The ledger, or one that many partitions of the source are hashed to.
        return sources or list(self.copies)
