"""The nodes of one broker, its cluster and its topics: written, compared and removed, in any session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import trio

from tidelog.plugins.zookeeper import nodes
from tidelog.plugins.zookeeper.errors import (
    Conflict,
    NodeExists,
    NoNode,
    NotEmpty,
    Refused,
    StaleRegistration,
    Unavailable,
    ZooKeeperError,
)
from tidelog.plugins.zookeeper.layouts import (
    BROKER_IDS,
    CLUSTER,
    CLUSTER_ID,
    CONFIG_CHANGE,
    CONFIG_CHANGES,
    CONTROLLER,
    CONTROLLER_EPOCH,
    TOPIC_CONFIGS,
    TOPICS,
    Chain,
    Node,
    NodeLayout,
)
from tidelog.plugins.zookeeper.session import session_name

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.metadata import MetadataImage, TopicImage
    from tidelog.plugins.zookeeper.connect_string import ConnectString
    from tidelog.plugins.zookeeper.session import NodeContent, Watch, ZooKeeper

_T = TypeVar("_T")

CHANGE_EXPIRATION_MS: Final = 15 * 60_000
"""How long a notification of a changed configuration stays, as in `ZkNodeChangeNotificationListener`."""
_CHANGES_TO_PURGE: Final = 100
"""Notifications that are looked at for each one that is added, so that there are ever fewer old ones."""
_RACES: Final = 5
"""Times that a node may come or go between two requests: no other broker writes here."""
_SHOWN_BYTES: Final = 100


@attrs.frozen
class RegistryContext:
    """What a registry is about: `image()` is the present one, `parallel` how many requests go at once."""

    connect: ConnectString
    layout: NodeLayout
    broker: nodes.BrokerInfo
    image: Callable[[], MetadataImage]
    clock: Clock
    parallel: int


class Registry:
    """Writes what should be there; each step may be repeated, in the same session or in a new one.

    Attributes:
        refused: topic → why ZooKeeper does not take its nodes
    """

    def __init__(self, zookeeper: ZooKeeper, context: RegistryContext) -> None:
        self._zookeeper = zookeeper
        self._context = context
        self._layout = context.layout
        self._controller_epoch = 0
        self._elected_in = 0
        self._known: dict[str, TopicImage] = {}
        self.refused: dict[str, str] = {}

    @property
    def topics(self) -> int:
        """The number of topics that are there as they should be."""
        return len(self._known)

    async def register(self, on_change: Watch) -> None:
        """Have the broker in the present session, and the controller; watch that these nodes stay.

        Raises:
            Conflict: the id or the chroot is that of another broker or cluster.
            StaleRegistration: a session of an earlier run of this broker has not expired yet.
            Unavailable, Refused: see `ZooKeeper`.
        """
        await self._zookeeper.create_chroot()
        if self._layout.has_cluster:
            # Before anything else is written: what is there may be another cluster's.
            await self._claim_cluster()
        for folder in self._layout.folders:
            await self._create_if_missing(folder)
        await self._register_broker(on_change)
        if self._layout.has_cluster:
            await self._become_controller(on_change)

    async def sync_all(self) -> None:
        """Have all topics of the image, and no other ones.

        Raises:
            Unavailable: see `ZooKeeper`; topics that ZooKeeper refuses are in `refused`.
        """
        topics = self._context.image().topics
        self._known.clear()
        self.refused.clear()
        if self._layout.has_cluster:
            there = {*await self._children(TOPICS), *await self._children(TOPIC_CONFIGS)}
            await self._each(sorted(there.difference(topics)), self._sync_topic)
        await self._each([*topics], self._sync_topic)

    async def sync(self, names: Collection[str]) -> None:
        """Have these topics as they are in the image; raises as `sync_all`."""
        await self._each(names, self._sync_topic)

    async def _claim_cluster(self) -> None:
        """Make sure that the chroot is this cluster's."""
        path, own = self._context.connect.full_path(CLUSTER_ID), self._context.image().cluster_id
        there = await self._read(CLUSTER_ID)
        if there is None:
            await self._check_empty()
            await self._create_if_missing(CLUSTER)
            await self._create_if_missing(CLUSTER_ID, nodes.cluster_id(own))
            # Another broker may have been faster.
            there = await self._existing(CLUSTER_ID)
        found = nodes.parse(there.value)
        if found is None or not isinstance(found.get("id"), str):
            raise Conflict(
                f"{path} has no cluster id but {there.value[:_SHOWN_BYTES]!r}; what is there is no cluster "
                "of Kafka: set zookeeper.connect to another path"
            )
        if found["id"] != own:
            raise Conflict(
                f"{path} is the cluster {found['id']!r} and this broker belongs to {own!r}; set "
                "zookeeper.connect to another path"
            )

    async def _check_empty(self) -> None:
        """Make sure that no cluster older than cluster ids, that is 0.10.0, uses the chroot."""
        for folder in (BROKER_IDS, TOPICS):
            if there := await self._children(folder):
                raise Conflict(
                    f"{self._context.connect.full_path(folder)} has {_listed(there)}, and there is no "
                    "cluster id: it is that of another cluster; set zookeeper.connect to another path"
                )

    async def _register_broker(self, on_change: Watch) -> None:
        info = self._context.broker
        node = Node(f"{BROKER_IDS}/{info.node_id}", self._layout.broker(info), ephemeral=True)
        there = await self._claim(node, on_change)
        if there.owner == self._zookeeper.session_id:
            # There since an earlier attempt, whose answer was lost, or written by someone else since then.
            if there.value != node.value:
                await self._zookeeper.write(node.path, node.value)
            return
        holder = nodes.parse_broker(there.value)
        path = self._context.connect.full_path(node.path)
        who = f"session {session_name(there.owner)}, {holder.host or '?'}:{holder.port}"
        if there.owner and self._is_own(holder):
            raise StaleRegistration(
                f"{path} is still that of an earlier run of this broker ({who}), until its session expires"
            )
        raise Conflict(
            f"the broker id {info.node_id} is registered by another broker ({who}, at {path}); give each "
            "broker an id of its own (node.id), or another path in zookeeper.connect"
        )

    def _is_own(self, holder: nodes.Holder) -> bool:
        info = self._context.broker
        if holder.endpoints:
            return holder.endpoints == frozenset(str(each) for each in info.endpoints)
        plain = info.plaintext
        return plain is not None and (holder.host, holder.port) == (plain.host, plain.port)

    async def _become_controller(self, on_change: Watch) -> None:
        """Have `/controller`, and a new epoch in each session that does."""
        node_id, session_id = self._context.broker.node_id, self._zookeeper.session_id
        value = nodes.controller(node_id, self._context.clock())
        there = await self._claim(Node(CONTROLLER, value, ephemeral=True), on_change)
        if there.owner != session_id:
            holder = (nodes.parse(there.value) or {}).get("brokerid")
            path = self._context.connect.full_path(CONTROLLER)
            if holder == node_id:
                raise StaleRegistration(
                    f"{path} is still that of an earlier run of this broker (session "
                    f"{session_name(there.owner)}), until its session expires"
                )
            raise Conflict(f"{path} is held by broker {holder} (session {session_name(there.owner)})")
        if self._elected_in != session_id:
            self._controller_epoch = await self._raise_controller_epoch()
            self._elected_in = session_id

    async def _raise_controller_epoch(self) -> int:
        there = await self._read(CONTROLLER_EPOCH)
        epoch = 1 + (int(there.value) if there is not None and there.value.isdigit() else 0)
        await self._ensure(Node(CONTROLLER_EPOCH, str(epoch).encode()))
        return epoch

    async def _claim(self, node: Node, on_change: Watch) -> NodeContent:
        """Create an ephemeral node unless it is there, and return what is there and watched from now on."""

        async def attempt() -> NodeContent:
            await self._create_if_missing(node.path, node.value, ephemeral=True)
            return await self._zookeeper.read(node.path, on_change)

        return await self._again(attempt)

    async def _sync_topic(self, name: str) -> None:
        wanted, known = self._context.image().topics.get(name), self._known.get(name)
        if wanted is not None and wanted is known:
            return
        # Until all of it is there again: what comes in between may fail.
        self._known.pop(name, None)
        self.refused.pop(name, None)
        try:
            if wanted is None:
                await self._remove(name)
                return
            is_there, is_replaced = await self._find(wanted, known)
            if is_replaced:
                # Those who watch it see that it has gone, and nothing is left of more partitions.
                await self._remove(name)
                known, is_there = None, False
            await self._write(wanted, known, is_there=is_there)
            if known is not None and known.config != wanted.config and self._layout.has_cluster:
                await self._announce(name)
        except Refused as error:
            # Other topics do not wait for one with an access control list, or too many partitions.
            self.refused[name] = str(error)
            return
        self._known[name] = wanted

    async def _find(self, wanted: TopicImage, known: TopicImage | None) -> tuple[bool, bool]:
        """Return whether nodes of the topic may be there, and whether they are those of another topic."""
        if known is not None:
            return True, known.topic_id != wanted.topic_id
        if not self._layout.has_cluster:
            return True, False
        there = await self._read(f"{TOPICS}/{wanted.name}")
        return there is not None, there is not None and nodes.is_of_another_topic(there.value, wanted)

    async def _write(self, wanted: TopicImage, known: TopicImage | None, *, is_there: bool) -> None:
        there = {} if known is None else {node.path: node for node in self._all_nodes(known)}

        async def write(nodes_in_order: Chain) -> None:
            for node in nodes_in_order:
                if there.get(node.path) == node:
                    continue
                # Of a topic or a partition that is new: to look for it first would take as long again.
                is_new = not is_there or (known is not None and node.path not in there)
                if not is_new or not await self._create_if_missing(
                    node.path, node.value, ephemeral=node.ephemeral
                ):
                    await self._ensure(node)

        head, rest = self._layout.topic(wanted, self._controller_epoch)
        await write(head)
        await self._each(rest, write)

    def _all_nodes(self, topic: TopicImage) -> Iterator[Node]:
        head, rest = self._layout.topic(topic, self._controller_epoch)
        return chain(head, *rest)

    async def _ensure(self, node: Node) -> None:
        """Have a node with this value; one that has it is not written, which would wake its watchers."""

        async def attempt() -> None:
            there = await self._read(node.path)
            if there is None:
                await self._zookeeper.create(node.path, node.value, ephemeral=node.ephemeral)
            elif not node.matches(there.value, there.owner, self._zookeeper.session_id):
                if bool(there.owner) == node.ephemeral and there.owner in (0, self._zookeeper.session_id):
                    await self._zookeeper.write(node.path, node.value)
                else:
                    # Of a session that has not expired yet, with which it would go, or not ephemeral.
                    await self._remove_tree(node.path)
                    await self._zookeeper.create(node.path, node.value, ephemeral=node.ephemeral)

        await self._again(attempt)

    async def _announce(self, name: str) -> None:
        """Notify those who watch configurations, and remove notifications that are old."""
        created = await self._zookeeper.create(
            f"{CONFIG_CHANGES}/{CONFIG_CHANGE}", nodes.config_change(name), sequential=True
        )
        oldest = sorted(await self._children(CONFIG_CHANGES))[:_CHANGES_TO_PURGE]
        limit_ms = self._context.clock() - CHANGE_EXPIRATION_MS
        for each in oldest:
            path = f"{CONFIG_CHANGES}/{each}"
            there = await self._read(path)
            # By ZooKeeper's clock, which may be another one.
            if path == created or (there is not None and there.created_ms >= limit_ms):
                return
            await self._delete_if_there(path)

    async def _remove(self, name: str) -> None:
        for tree in self._layout.trees(name):
            await self._remove_tree(tree)

    async def _remove_tree(self, path: str) -> None:
        async def attempt() -> None:
            names = await self._children(path)
            await self._each([f"{path}/{name}" for name in names], self._remove_tree)
            try:
                await self._delete_if_there(path)
            except NotEmpty as error:
                raise NodeExists(str(error)) from None

        await self._again(attempt)

    async def _each(self, items: Collection[_T], work: Callable[[_T], Awaitable[None]]) -> None:
        """Do the work for all items, some at a time; the first error ends it."""
        waiting, failed = iter(items), list[ZooKeeperError]()

        async def take() -> None:
            try:
                for item in waiting:
                    await work(item)
            except ZooKeeperError as error:
                failed.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(min(self._context.parallel, len(items))):
                nursery.start_soon(take)
        if failed:
            raise failed[0]

    async def _again(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat what finds a node come or gone since it looked."""
        for _ in range(_RACES):
            with suppress(NodeExists, NoNode):
                return await attempt()
        try:
            return await attempt()
        except (NodeExists, NoNode) as error:
            raise Unavailable(f"another client changes the same nodes again and again: {error}") from None

    async def _existing(self, path: str) -> NodeContent:
        there = await self._read(path)
        if there is None:
            raise Unavailable(f"{self._context.connect.full_path(path)} was removed by another client")
        return there

    async def _read(self, path: str) -> NodeContent | None:
        try:
            return await self._zookeeper.read(path)
        except NoNode:
            return None

    async def _children(self, path: str) -> Iterable[str]:
        try:
            return await self._zookeeper.children(path)
        except NoNode:
            return ()

    async def _create_if_missing(self, path: str, value: bytes = b"", *, ephemeral: bool = False) -> bool:
        """Create a node; return False if there is one already."""
        try:
            await self._zookeeper.create(path, value, ephemeral=ephemeral)
        except NodeExists:
            return False
        return True

    async def _delete_if_there(self, path: str) -> None:
        with suppress(NoNode):
            await self._zookeeper.delete(path)


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:3]) + (" and others" if len(shown) > 3 else "")
