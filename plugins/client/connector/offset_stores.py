"""Where a connector that coordinates itself through ZooKeeper stores its offsets.

Source: `offsets.storage` and `dual.commit.enabled` of Apache Kafka 0.8.2's `ZookeeperConsumerConnector`.
While a group moves its offsets from ZooKeeper to the brokers, all members store them in both places; the
larger of two offsets counts, since a member that was not changed yet commits in one place alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.group_offsets import GroupOffset, commit_offsets, committed_offsets
from tidelog.plugins.client.operations.sending import or_raise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.steps import Steps
    from tidelog.plugins.zookeeper.callback_loop import CallbackLoop
    from tidelog.plugins.zookeeper.consumers.registries import ConsumerRegistries

    Offsets: TypeAlias = Mapping[TopicPartition, int]
    Found: TypeAlias = Callable[[Offsets | Exception], None]
    Stored: TypeAlias = Callable[[Exception | None], None]


class ConnectorOffsets(Protocol):
    """Stores next offsets to consume; what is called afterwards gets the error if there was one."""

    def fetch(self, partitions: Iterable[TopicPartition], found: Found) -> None:
        """Look up the offsets of these partitions; those without one are left out."""
        ...

    def commit(self, offsets: Offsets, done: Stored) -> None:
        """Store offsets."""
        ...


class ZooKeeperOffsets:
    """Offsets in the group's registry in ZooKeeper."""

    def __init__(self, registry: ConsumerRegistries, loop: CallbackLoop) -> None:
        self._registry = registry
        self._loop = loop

    def fetch(self, partitions: Iterable[TopicPartition], found: Found) -> None:
        """Look up offsets; see `ConnectorOffsets`."""
        wanted = list(partitions)
        self._loop.run(lambda: self._registry.offsets(wanted), found)

    def commit(self, offsets: Offsets, done: Stored) -> None:
        """Store offsets."""
        self._loop.run(lambda: self._registry.commit(offsets), done)


class BrokerOffsets:
    """Offsets of the group at its coordinator, committed without membership."""

    def __init__(self, engine: Engine, group: str, timeout_s: float) -> None:
        self._engine = engine
        self._group = group
        self._timeout_s = timeout_s

    def fetch(self, partitions: Iterable[TopicPartition], found: Found) -> None:
        """Look up offsets; see `ConnectorOffsets`."""

        def fetched(outcome: Mapping[TopicPartition, GroupOffset] | ClientError) -> None:
            if isinstance(outcome, ClientError):
                found(outcome)
            else:
                found({each: there.offset for each, there in outcome.items() if there.offset >= 0})

        operation = committed_offsets(self._engine.session, self._group, list(partitions))
        self._engine.spawn(operation, fetched, timeout_s=self._timeout_s)

    def commit(self, offsets: Offsets, done: Stored) -> None:
        """Store offsets."""
        self._engine.spawn(self._commit(offsets), done, timeout_s=self._timeout_s)

    def _commit(self, offsets: Offsets) -> Steps[None]:
        wanted = {partition: GroupOffset(offset) for partition, offset in offsets.items()}
        or_raise((yield from commit_offsets(self._engine.session, self._group, wanted)))


class DualOffsets:
    """Offsets in both places."""

    def __init__(self, brokers: BrokerOffsets, zookeeper: ZooKeeperOffsets) -> None:
        self._brokers = brokers
        self._zookeeper = zookeeper

    def fetch(self, partitions: Iterable[TopicPartition], found: Found) -> None:
        """Look up offsets, the larger of two; see `ConnectorOffsets`."""
        wanted = list(partitions)

        def found_there(of_brokers: Offsets | Exception) -> None:
            if isinstance(of_brokers, Exception):
                found(of_brokers)
                return
            self._zookeeper.fetch(wanted, lambda outcome: found(_larger(of_brokers, outcome)))

        self._brokers.fetch(wanted, found_there)

    def commit(self, offsets: Offsets, done: Stored) -> None:
        """Store offsets, first at the brokers."""

        def stored(error: Exception | None) -> None:
            if error is not None:
                done(error)
            else:
                self._zookeeper.commit(offsets, done)

        self._brokers.commit(offsets, stored)


def _larger(one: Offsets, other: Offsets | Exception) -> Offsets | Exception:
    if isinstance(other, Exception):
        return other
    return {each: max(one.get(each, 0), other.get(each, 0)) for each in one.keys() | other.keys()}
