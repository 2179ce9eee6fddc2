"""The registries of a group: consumers, owners and offsets.

    /consumers/GROUP/ids/CONSUMER               which topics a member wants, ephemeral
    /consumers/GROUP/owners/TOPIC/PARTITION     the stream that owns a partition, ephemeral
    /consumers/GROUP/offsets/TOPIC/PARTITION    the next offset to consume, in digits

Only methods of `ZooKeeper` are awaited here, so that any event loop, or none, can run it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, cast

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper import nodes
from tidelog.plugins.zookeeper.consumers.assignment import GroupView, Owners
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription, parse_subscription
from tidelog.plugins.zookeeper.errors import NodeExists, NoNode, StaleRegistration
from tidelog.plugins.zookeeper.layouts import BROKER_IDS, TOPICS
from tidelog.plugins.zookeeper.session import Watch, ZooKeeperRequests

_log = logging.getLogger(__name__)

CONSUMERS: Final = "/consumers"
_GROUP_ID: Final = re.compile(r"[a-zA-Z0-9._-]+")


def new_consumer_id(group_id: str, now_ms: int, name: str | None = None) -> str:
    """Return an id made of the group and a name, by default one that no other member has.

    That is made of host, time and chance, as Kafka's consumers do.

    Raises:
        ValueError: the group's id or the name has other characters than letters, digits, `.`, `_` and `-`.
    """
    for each in (group_id, name or "name"):
        if not _GROUP_ID.fullmatch(each) or each in (".", ".."):
            raise ValueError(
                f"{each!r} is no id of a group or consumer: it may have letters, digits, '.', '_', '-'"
            )
    if name:
        return f"{group_id}_{name}"
    return f"{group_id}_{os.uname().nodename}-{now_ms}-{os.urandom(4).hex()}"


class ConsumerRegistries:
    """What one member reads and writes; `on_change` is called when what it has read has changed.

    Every method raises what `ZooKeeper` does, and may be repeated.
    """

    def __init__(
        self,
        zookeeper: ZooKeeperRequests,
        group_id: str,
        consumer_id: str,
        subscription: Subscription,
        *,
        on_change: Watch,
        now_ms: Callable[[], int],
        with_internal: bool = False,
    ) -> None:
        self._zookeeper = zookeeper
        self._group = f"{CONSUMERS}/{group_id}"
        self._consumer_id = consumer_id
        self._subscription = subscription
        self._on_change = on_change
        self._now_ms = now_ms
        self._with_internal = with_internal

    async def register(self) -> None:
        """Have the node of the member in this session.

        Raises:
            StaleRegistration: a session that has not expired yet has it.
        """
        await self._zookeeper.create_chroot()
        # Those of brokers, too: what is not there cannot be watched, and a broker may come later.
        brokers = BROKER_IDS.rpartition("/")[0]
        for folder in (brokers, BROKER_IDS, TOPICS, CONSUMERS, self._group, f"{self._group}/ids"):
            await self._create_folder(folder)
        try:
            value = self._subscription.encode(self._now_ms())
            await self._zookeeper.create(self._own_node, value, ephemeral=True)
        except NodeExists:
            there = await self._zookeeper.read(self._own_node)
            if there.owner != self._zookeeper.session_id:
                raise StaleRegistration(f"{self._own_node} is that of an earlier session") from None

    async def unregister(self) -> None:
        """Remove the node of the member."""
        with suppress(NoNode):
            await self._zookeeper.delete(self._own_node)

    async def read_group(self, may_own: Iterable[TopicPartition]) -> GroupView:
        """Return what the registries say, and watch that; of owners only these partitions are looked at."""
        members = await self._members()
        has_brokers = bool(await self._children(BROKER_IDS))
        topics = await self._children(TOPICS)
        wanted = self._subscription.streams_of([*topics], with_internal=self._with_internal)
        there = {*topics}
        partitions = {topic: await self._partitions(topic) for topic in wanted if topic in there}
        owned: dict[TopicPartition, str] = {}
        for each in may_own:
            stream = await self._own_stream(each)
            if stream is not None:
                owned[each] = stream
        return GroupView(members, partitions, owned, has_brokers)

    async def claim(self, owners: Owners) -> frozenset[TopicPartition]:
        """Create the nodes of owners, and return the partitions that are this member's now."""
        created: set[TopicPartition] = set()
        for topic in {partition.topic for partition in owners}:
            for folder in (f"{self._group}/owners", f"{self._group}/owners/{topic}"):
                await self._create_folder(folder)
        for partition, stream in sorted(owners.items()):
            try:
                await self._zookeeper.create(self._owner_node(partition), stream.encode(), ephemeral=True)
            except NodeExists:
                # An earlier attempt in this session, or another member.
                if await self._own_stream(partition) != stream:
                    continue
            created.add(partition)
        return frozenset(created)

    async def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove the nodes of owners that are this member's."""
        for partition in partitions:
            if await self._own_stream(partition) is not None:
                # No other member can have it before it is gone.
                with suppress(NoNode):
                    await self._zookeeper.delete(self._owner_node(partition))

    async def offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offsets to consume; those that are not there, or are no number, are left out."""
        found: dict[TopicPartition, int] = {}
        for partition in partitions:
            with suppress(NoNode):
                node = self._offset_node(partition)
                value = (await self._zookeeper.read(node)).value
                if value.isdigit():
                    found[partition] = int(value)
                else:
                    _log.warning("%s has no offset but %r", node, value[:100])
        return found

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store the next offsets to consume."""
        for partition, offset in offsets.items():
            node, value = self._offset_node(partition), str(offset).encode()
            try:
                await self._zookeeper.write(node, value)
            except NoNode:
                folder = f"{self._group}/offsets"
                for each in (CONSUMERS, self._group, folder, f"{folder}/{partition.topic}"):
                    await self._create_folder(each)
                with suppress(NodeExists):
                    await self._zookeeper.create(node, value)

    @property
    def _own_node(self) -> str:
        return f"{self._group}/ids/{self._consumer_id}"

    def _owner_node(self, partition: TopicPartition) -> str:
        return f"{self._group}/owners/{partition.topic}/{partition.partition}"

    def _offset_node(self, partition: TopicPartition) -> str:
        return f"{self._group}/offsets/{partition.topic}/{partition.partition}"

    async def _members(self) -> dict[str, Subscription]:
        members: dict[str, Subscription] = {}
        for name in await self._children(f"{self._group}/ids"):
            # One that has left since then: that is a change of its own.
            with suppress(NoNode):
                there = await self._zookeeper.read(f"{self._group}/ids/{name}")
                subscription = parse_subscription(there.value)
                if subscription is not None:
                    members[name] = subscription
                else:
                    _log.warning("%s/ids/%s is malformed, so it gets no partition", self._group, name)
        return members

    async def _partitions(self, topic: str) -> list[int]:
        try:
            there = await self._zookeeper.read(f"{TOPICS}/{topic}", self._on_change)
        except NoNode:
            return []
        found = (nodes.parse(there.value) or {}).get("partitions")
        if not isinstance(found, dict):
            _log.warning("%s/%s has no partitions", TOPICS, topic)
            return []
        names = cast("dict[str, object]", found)
        return sorted(int(name) for name in names if name.isdecimal())

    async def _own_stream(self, partition: TopicPartition) -> str | None:
        """Return the stream of this member that owns a partition, None if another one or none does."""
        try:
            there = await self._zookeeper.read(self._owner_node(partition))
        except NoNode:
            return None
        stream = there.value.decode(errors="replace")
        is_own = there.owner == self._zookeeper.session_id and stream.startswith(f"{self._consumer_id}-")
        return stream if is_own else None

    async def _children(self, path: str) -> list[str]:
        try:
            return [*await self._zookeeper.children(path, self._on_change)]
        except NoNode:
            return []

    async def _create_folder(self, path: str) -> None:
        with suppress(NodeExists):
            await self._zookeeper.create(path)
