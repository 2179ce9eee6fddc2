"""Fetching that records what it was asked to fetch."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper.consumers.assignment import Owners


@attrs.define(eq=False)
class RecordedFetching:
    """What is fetched, partition → stream; each partition was consumed up to `consumed` when it stops."""

    fetched: dict[TopicPartition, str] = attrs.field(factory=dict[TopicPartition, str])
    consumed: int = 0
    is_paused: bool = False

    def start(self, owners: Owners) -> None:
        self.fetched.update(owners)

    def stop(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, int]:
        for each in partitions:
            del self.fetched[each]
        return dict.fromkeys(partitions, self.consumed)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    @property
    def fetched_now(self) -> set[TopicPartition]:
        return set() if self.is_paused else {*self.fetched}
