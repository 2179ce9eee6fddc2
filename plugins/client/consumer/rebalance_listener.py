"""What a consumer calls when its assignment changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidelog.kernel.topic_partition import TopicPartition


class RebalanceListener:
    """Base class of listeners to changes of the assignment; a method that is not overridden does nothing.

    They are called in `poll` and in iterations, before other records are returned; of an `AsyncConsumer` they
    may be async functions. What one raises `poll` raises, after the change has taken effect.
    """

    def on_assigned(self, partitions: Collection[TopicPartition]) -> object:
        """Partitions were added; their positions can be set with `seek`."""

    def on_revoked(self, partitions: Collection[TopicPartition]) -> object:
        """Partitions will be given up after this, so that offsets can still be committed."""

    def on_lost(self, partitions: Collection[TopicPartition]) -> object:
        """Partitions belong to others by now, without a call of `on_revoked`: offsets cannot be committed.

        By default it calls `on_revoked`, as the Java client does.
        """
        return self.on_revoked(partitions)
