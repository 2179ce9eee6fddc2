"""Members of a group over an ensemble in memory, and the registries that they read and write."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.plugins.zookeeper.consumers.recording import RecordedFetching
from tests.plugins.zookeeper.consumers.trio_loop import TrioLoop
from tests.plugins.zookeeper.fake_zookeeper import Ensemble, FakeZooKeeper
from tests.tables import for_each
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.connector.offset_stores import ZooKeeperOffsets
from tidelog.plugins.zookeeper.consumers.member import Committed, MemberOffsets, ZooKeeperMember
from tidelog.plugins.zookeeper.consumers.membership import MembershipPhase, MembershipRules
from tidelog.plugins.zookeeper.consumers.registries import ConsumerRegistries, new_consumer_id
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription
from tidelog.plugins.zookeeper.errors import SessionExpired, StaleRegistration

ORDERS = Subscription({"orders": 1})


def ensemble_with(**topics: int) -> Ensemble:
    """An ensemble with a broker and topics of so many partitions."""
    ensemble = Ensemble()
    ensemble.put("/brokers/ids/1", b"{}")
    ensemble.put("/brokers/topics", b"")
    for name, partitions in topics.items():
        put_topic(ensemble, name, partitions)
    return ensemble


def put_topic(ensemble: Ensemble, name: str, partitions: int) -> None:
    value = json.dumps({"version": 1, "partitions": {str(number): [1] for number in range(partitions)}})
    ensemble.put(f"/brokers/topics/{name}", value.encode())


@attrs.define
class RunningMember:
    """A member, its client and what it fetches."""

    zookeeper: FakeZooKeeper
    fetching: RecordedFetching
    member: ZooKeeperMember

    @property
    def fetched(self) -> list[str]:
        return sorted(map(str, self.fetching.fetched_now))


@asynccontextmanager
async def running(
    ensemble: Ensemble,
    name: str,
    subscription: Subscription = ORDERS,
    *,
    offsets: MemberOffsets | None = None,
) -> AsyncGenerator[RunningMember]:
    """Run a member until the block ends."""
    zookeeper, fetching = FakeZooKeeper(ensemble), RecordedFetching()
    rules = MembershipRules(name, backoff_s=1, pause_after_s=2)
    async with zookeeper.running(), trio.open_nursery() as nursery:
        loop = TrioLoop(nursery)
        group = ConsumerRegistries(
            zookeeper,
            "g",
            name,
            subscription,
            on_change=lambda: member.group_changed(),  # noqa: PLW0108 - it is made later
            now_ms=lambda: 5,
        )
        offsets = offsets or ZooKeeperOffsets(group, loop)
        member = ZooKeeperMember(zookeeper, group, fetching, rules, loop, offsets)

        async def follow_connection() -> None:
            while True:
                member.connection_changed()
                await zookeeper.wait_changed()

        nursery.start_soon(follow_connection)
        yield RunningMember(zookeeper, fetching, member)
        loop.is_stopped = True
        nursery.cancel_scope.cancel()


async def test_member_registers_owns_and_leaves(autojump_clock: MockClock) -> None:
    ensemble = ensemble_with(orders=2)
    async with running(ensemble, "a") as one:
        await trio.sleep(1)
        node = ensemble.read("/consumers/g/ids/a")
        assert json.loads(node.value) == {
            "version": 1,
            "subscription": {"orders": 1},
            "pattern": "static",
            "timestamp": "5",
        }
        assert node.owner == one.zookeeper.session_id
        assert ensemble.read("/consumers/g/owners/orders/1") == (b"a-0", one.zookeeper.session_id, 0)
        assert one.fetched == ["orders-0", "orders-1"]
        one.fetching.consumed = 17
        left = trio.Event()
        one.member.leave(left.set)
        await left.wait()
        assert one.member.state.phase is MembershipPhase.LEFT
        assert ensemble.below("/consumers/g/ids") == ensemble.below("/consumers/g/owners/orders") == []
        assert ensemble.read("/consumers/g/offsets/orders/1").value == b"17"


async def test_members_share_and_take_over(autojump_clock: MockClock) -> None:
    ensemble = ensemble_with(orders=4)
    async with running(ensemble, "a") as one, running(ensemble, "b") as two:
        await trio.sleep(3)
        assert one.fetched == ["orders-0", "orders-1"]
        assert two.fetched == ["orders-2", "orders-3"]
        two.zookeeper.expire()
        await trio.sleep(3)
        assert one.fetched == ["orders-0", "orders-1", "orders-2", "orders-3"]
        assert two.fetched == []
        two.zookeeper.connect()
        await trio.sleep(3)
        assert one.fetched == ["orders-0", "orders-1"]
        assert two.fetched == ["orders-2", "orders-3"]


async def test_member_follows_topics_and_partitions(autojump_clock: MockClock) -> None:
    ensemble = ensemble_with(orders=1)
    async with running(ensemble, "a", Subscription({"orders|late": 1}, "white_list")) as one:
        await trio.sleep(1)
        assert one.fetched == ["orders-0"]
        put_topic(ensemble, "late", 1)
        put_topic(ensemble, "other", 1)
        await trio.sleep(1)
        put_topic(ensemble, "orders", 2)
        await trio.sleep(1)
        assert one.fetched == ["late-0", "orders-0", "orders-1"]


async def test_member_of_an_empty_zookeeper_notices_the_first_broker(autojump_clock: MockClock) -> None:
    ensemble = Ensemble()
    async with running(ensemble, "a") as one:
        await trio.sleep(1)
        assert one.fetched == []
        ensemble.put("/brokers/ids/1", b"{}")
        put_topic(ensemble, "orders", 1)
        await trio.sleep(1)
        assert one.fetched == ["orders-0"]


async def test_member_waits_for_a_partition_that_another_client_owns(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    ensemble = ensemble_with(orders=2)
    session = ensemble.new_session()
    ensemble.put("/consumers/g/owners/orders/0", b"gone-0", owner=session)
    async with running(ensemble, "a") as one:
        await trio.sleep(6)
        assert one.fetched == ["orders-1"]
        assert "a does not get its partitions: owned by other members: orders-0" in caplog.text
        ensemble.expire(session)
        await trio.sleep(2)
        assert one.fetched == ["orders-0", "orders-1"]


@pytest.mark.parametrize("lost", range(1, 10))
async def test_member_owns_everything_although_an_answer_was_lost(
    lost: int, autojump_clock: MockClock
) -> None:
    ensemble = ensemble_with(orders=2)
    async with running(ensemble, "a") as one:
        one.zookeeper.lose_answer = lost
        await trio.sleep(10)
        assert one.fetched == ["orders-0", "orders-1"]
        assert ensemble.below("/consumers/g/owners/orders") == ["0", "1"]


async def test_member_pauses_without_a_connection(autojump_clock: MockClock) -> None:
    ensemble = ensemble_with(orders=1)
    async with running(ensemble, "a") as one:
        await trio.sleep(1)
        one.zookeeper.disconnect()
        await trio.sleep(1.5)
        assert one.fetched == ["orders-0"]
        await trio.sleep(1)
        assert one.fetched == []
        one.zookeeper.connect()
        await trio.sleep(1)
        assert one.fetched == ["orders-0"]


async def test_member_ignores_members_and_topics_that_are_malformed(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    ensemble = ensemble_with(orders=2)
    ensemble.put("/consumers/g/ids/broken", b"{", owner=ensemble.new_session())
    ensemble.put("/brokers/topics/broken", b"[]")
    async with running(ensemble, "a", Subscription({".*": 1}, "white_list")) as one:
        await trio.sleep(1)
        assert one.fetched == ["orders-0", "orders-1"]
    assert "/consumers/g/ids/broken is malformed" in caplog.text
    assert "/brokers/topics/broken has no partitions" in caplog.text


def registry(zookeeper: FakeZooKeeper, name: str = "a") -> ConsumerRegistries:
    return ConsumerRegistries(zookeeper, "g", name, ORDERS, on_change=lambda: None, now_ms=lambda: 5)


async def test_registry_of_a_group_stores_offsets(caplog: pytest.LogCaptureFixture) -> None:
    ensemble = ensemble_with(orders=2)
    zookeeper = FakeZooKeeper(ensemble)
    zookeeper.connect()
    group = registry(zookeeper)
    one, two = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert await group.offsets([one, two]) == {}
    await group.commit({one: 5, two: 2**40})
    await group.commit({one: 6})
    assert await group.offsets([one, two]) == {one: 6, two: 2**40}
    ensemble.put("/consumers/g/offsets/orders/0", b"-1x")
    assert await group.offsets([one, two]) == {two: 2**40}
    assert "/consumers/g/offsets/orders/0 has no offset but b'-1x'" in caplog.text


async def test_registry_of_a_group_releases_only_its_own() -> None:
    ensemble = ensemble_with(orders=2)
    zookeeper = FakeZooKeeper(ensemble)
    zookeeper.connect()
    group = registry(zookeeper)
    other = TopicPartition("orders", 0)
    ensemble.put("/consumers/g/owners/orders/0", b"b-0", owner=ensemble.new_session())
    assert await group.claim({other: "a-0"}) == frozenset()
    await group.release([other])
    assert ensemble.below("/consumers/g/owners/orders") == ["0"]


async def test_registry_of_a_group_does_not_register_over_an_earlier_session() -> None:
    ensemble = ensemble_with()
    zookeeper = FakeZooKeeper(ensemble)
    zookeeper.connect()
    ensemble.put("/consumers/g/ids/a", b"{}", owner=ensemble.new_session())
    with pytest.raises(StaleRegistration):
        await registry(zookeeper).register()


@for_each("group_id", ["", ".", "..", "a/b", "a b", "grüße"])
def test_new_consumer_id_refuses_groups_that_are_no_path(group_id: str) -> None:
    with pytest.raises(ValueError, match="is no id of a group"):
        new_consumer_id(group_id, 5)


def test_new_consumer_id_is_another_each_time() -> None:
    assert new_consumer_id("g", 5) != new_consumer_id("g", 5)
    assert new_consumer_id("g", 5).startswith("g_")


class HeldOffsets:
    """Offsets whose commits end when the test says so."""

    def __init__(self) -> None:
        self.commits: list[tuple[Mapping[TopicPartition, int], Committed]] = []

    def commit(self, offsets: Mapping[TopicPartition, int], done: Committed) -> None:
        self.commits.append((offsets, done))


async def test_member_commits_in_order_and_nothing_of_a_session_that_has_ended(
    autojump_clock: MockClock,
) -> None:
    offsets, errors = HeldOffsets(), list[Exception | None]()
    place = TopicPartition("orders", 0)
    async with running(ensemble_with(orders=1), "a", offsets=offsets) as one:
        await trio.sleep(1)
        for offset in (5, 6):
            one.member.commit({place: offset}, errors.append)
        assert [commit for commit, _ in offsets.commits] == [{place: 5}]
        offsets.commits[0][1](None)
        assert [commit for commit, _ in offsets.commits] == [{place: 5}, {place: 6}]
        one.member.commit({place: 7}, errors.append)
        one.zookeeper.expire()
        one.zookeeper.connect()
        await trio.sleep(1)
        offsets.commits[1][1](None)
        assert [commit for commit, _ in offsets.commits] == [{place: 5}, {place: 6}]
        assert [type(error) for error in errors] == [type(None), type(None), SessionExpired]
