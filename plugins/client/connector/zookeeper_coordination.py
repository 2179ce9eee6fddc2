"""Partitions of a connector by the registries in ZooKeeper, beside consumers of Kafka 0.8 to 0.10."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.connector.offset_stores import BrokerOffsets, DualOffsets, ZooKeeperOffsets
from tidelog.plugins.client.connector.topic_filters import WhiteList
from tidelog.plugins.client.engine_loop import EngineLoop
from tidelog.plugins.client.errors import ClientError, ZooKeeperFailed
from tidelog.plugins.zookeeper.consumers.member import ZooKeeperMember
from tidelog.plugins.zookeeper.consumers.membership import MembershipRules
from tidelog.plugins.zookeeper.consumers.registries import ConsumerRegistries, new_consumer_id
from tidelog.plugins.zookeeper.consumers.subscriptions import Pattern, Subscription
from tidelog.plugins.zookeeper.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.connector.core import ConnectorCore
    from tidelog.plugins.client.connector.offset_stores import ConnectorOffsets, Offsets
    from tidelog.plugins.client.connector.streams import StreamState
    from tidelog.plugins.client.connector.topic_filters import TopicFilter
    from tidelog.plugins.client.zookeeper_ensemble import ZooKeeperEnsemble
    from tidelog.plugins.zookeeper.consumers.assignment import Owners

_LOG: Final = logging.getLogger(__name__)
_PAUSE_PART: Final = 6
"""A member pauses after this part of its session timeout without a connection. Kazoo notices a lost one
within two thirds of it; a third would be left, and half of that is for clocks and for a busy machine."""


class ZooKeeperCoordination:
    """Has a connector be a member of a group that coordinates itself through ZooKeeper."""

    def __init__(self, connector: ConnectorCore, ensemble: ZooKeeperEnsemble) -> None:
        self._connector = connector
        self._consumer = connector.consumer
        self._loop = EngineLoop(connector.engine)
        self._zookeeper = ensemble.client(connector.engine)
        self._session_s = ensemble.session_timeout_ms / 1000
        self._member: ZooKeeperMember | None = None
        self._offsets: ConnectorOffsets
        self._assigned: set[TopicPartition] = set()
        self._starts = 0
        self._starting: dict[TopicPartition, int] = {}

    # `Coordination`: what the connector calls.

    def join(self, topics: Mapping[str, int], topic_filter: TopicFilter | None, streams: int) -> None:
        """Register as a member that wants these, and follow the group."""
        settings = self._connector.settings
        now_ms = self._connector.engine.session.now_ms
        consumer_id = new_consumer_id(settings.group, now_ms(), settings.consumer_id)
        registry = ConsumerRegistries(
            self._zookeeper,
            settings.group,
            consumer_id,
            _subscription(topics, topic_filter, streams),
            on_change=self._group_changed,
            now_ms=now_ms,
        )
        self._offsets = self._offset_store(registry)
        rules = MembershipRules(
            consumer_id,
            backoff_s=settings.rebalance_backoff_ms / 1000,
            max_attempts=settings.rebalance_max_retries,
            pause_after_s=self._session_s / _PAUSE_PART,
        )
        self._member = ZooKeeperMember(self._zookeeper, registry, self, rules, self._loop, self._offsets)
        self._zookeeper.start(self._member.connection_changed)

    def consumer_changed(self) -> None:
        """Do nothing: the brokers do not say which partitions there are."""

    def commit(self, offsets: Offsets, done: Callable[[ClientError | None], None]) -> None:
        """Commit in turn with what the member does."""
        if self._member is not None:
            self._member.commit(offsets, lambda error: done(_client_error(error)))

    def leave(self, done: Callable[[], None]) -> None:
        """Leave the group, and end the session."""
        if self._member is None:
            done()
        else:
            self._member.leave(lambda: self._zookeeper.stop(done))

    # `Fetching`: what the member calls.

    def start(self, owners: Owners) -> None:
        """Feed streams with partitions from their stored offsets."""
        self._starts += 1
        self._starting.update(dict.fromkeys(owners, self._starts))
        self._connector.start(
            {partition: self._stream(partition, name) for partition, name in owners.items()}
        )
        self._look_up(frozenset(owners), self._starts)

    def stop(self, partitions: frozenset[TopicPartition]) -> Offsets:
        """Stop feeding streams; return what is to be committed."""
        consumed = self._connector.stop(partitions)
        for each in partitions:
            self._starting.pop(each, None)
        self._assign(self._assigned - partitions)
        return consumed if self._connector.settings.enable_auto_commit else {}

    def pause(self) -> None:
        """Return no record: another member may own the partitions."""
        self._connector.pause()

    def resume(self) -> None:
        """Return records again."""
        self._connector.resume()

    # What follows from it.

    def _group_changed(self) -> None:
        if self._member is not None and not self._connector.engine.is_closed:
            self._member.group_changed()

    def _offset_store(self, registry: ConsumerRegistries) -> ConnectorOffsets:
        settings = self._connector.settings
        in_zookeeper = ZooKeeperOffsets(registry, self._loop)
        if settings.offsets_storage == "zookeeper":
            return in_zookeeper
        in_brokers = BrokerOffsets(self._connector.engine, settings.group, settings.api_timeout_s)
        return DualOffsets(in_brokers, in_zookeeper) if settings.commits_twice else in_brokers

    def _stream(self, partition: TopicPartition, name: str) -> StreamState:
        """Return the stream of a name: it ends with its number among those of the topic."""
        number = int(name.rpartition("-")[2])
        streams = self._connector.streams
        return next(
            each for each in streams if each.number == number and each.topic in (None, partition.topic)
        )

    def _assign(self, partitions: set[TopicPartition]) -> None:
        self._assigned = partitions
        if not self._consumer.is_closed:
            self._consumer.assign(partitions)

    def _look_up(self, partitions: frozenset[TopicPartition], start: int) -> None:
        """Look up where to begin with those partitions of a start that are still owned."""
        wanted = self._still_starting(partitions, start)
        if wanted:
            self._offsets.fetch(wanted, lambda outcome: self._looked_up(wanted, start, outcome))

    def _looked_up(
        self, partitions: frozenset[TopicPartition], start: int, outcome: Offsets | Exception
    ) -> None:
        if self._connector.engine.is_closed:
            return
        if isinstance(outcome, Exception):
            _LOG.warning("offsets of group %s cannot be read: %s", self._connector.settings.group, outcome)
            when = self._loop.clock() + self._connector.settings.rebalance_backoff_ms / 1000
            self._loop.call_at(when, lambda: self._look_up(partitions, start))
            return
        begun = self._still_starting(partitions, start)
        for each in begun:
            del self._starting[each]
        # One that has no offset begins where the reset policy says.
        self._assign(self._assigned | begun)
        for each in begun & outcome.keys():
            self._consumer.seek(each, outcome[each])

    def _still_starting(self, partitions: frozenset[TopicPartition], start: int) -> frozenset[TopicPartition]:
        return frozenset(each for each in partitions if self._starting.get(each) == start)


def _subscription(topics: Mapping[str, int], topic_filter: TopicFilter | None, streams: int) -> Subscription:
    if topic_filter is None:
        return Subscription(topics)
    pattern: Pattern = "white_list" if isinstance(topic_filter, WhiteList) else "black_list"
    return Subscription({topic_filter.regex: streams}, pattern)


def _client_error(error: Exception | None) -> ClientError | None:
    if error is None or isinstance(error, ClientError):
        return error
    return ZooKeeperFailed(str(error), is_passing=isinstance(error, Unavailable))
