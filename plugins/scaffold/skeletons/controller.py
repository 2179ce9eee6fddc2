"""A controller: decides as `local` does, on a broker that has a limited number of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import TopicConfig, integer
from tidelog.kernel.errors import StorageError
from tidelog.kernel.metadata import TopicImage
from tidelog.kernel.seams.controller import (
    Controller,
    ControllerBackend,
    ControllerContext,
    NewPartitions,
)

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

MAX_PARTITIONS = ConfigKey(
    name="skeleton.max.partitions",
    type=integer(1),
    default=10_000,
    documentation="The number of partitions that the broker has at most.",
)


class SkeletonReservations:
    """Room for new partitions, as long as there are few."""

    def __init__(self, context: ControllerContext) -> None:
        self._metadata, self._storage = context.metadata, context.storage
        self._most = context.config[MAX_PARTITIONS]

    def check_topic(self, config: TopicConfig) -> None:
        """Check that the storage supports the configuration of a topic."""
        self._storage.check_topic(config)

    async def reserve(self, wanted: Sequence[NewPartitions]) -> Sequence[TopicImage]:
        """Reserve room, or refuse the request."""
        there = sum(len(topic.partitions) for topic in self._metadata.image.topics.values())
        if there + sum(len(new.topic.partitions) - new.first for new in wanted) > self._most:
            raise StorageError(f"there may be {self._most} partitions ({MAX_PARTITIONS.name})")
        return await self._storage.reserve(wanted)

    async def release(self, wanted: Sequence[NewPartitions]) -> None:
        """Drop what was reserved and not committed."""
        await self._storage.release(wanted)


class SkeletonControllerBackend:
    """What the key `controller` chooses."""

    name = "skeleton"

    def create(self, context: ControllerContext) -> Controller:
        """Return a controller that has loaded no image yet."""
        limited = attrs.evolve(context, storage=SkeletonReservations(context))
        return context.backend("local").create(limited)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[int]]:
    """Return the keys of the controller."""
    return [MAX_PARTITIONS]


@hookimpl
def tidelog_controllers() -> Iterable[ControllerBackend]:
    """Offer the controller."""
    return [SkeletonControllerBackend()]
