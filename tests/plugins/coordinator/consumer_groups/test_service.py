"""Consumer groups alive: what time does to members, what tools see, the way from and to classic groups."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.plugins.coordinator.consumer_groups.driver import SETTINGS, FakeTopics
from tests.plugins.coordinator.groups.group_coordinator import (
    GroupCoordinator,
    new_coordinator,
    partition_for,
)
from tidelog.kernel.cluster.resource_configs import ResourceConfigs
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import (
    ConfigError,
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    NonEmptyGroup,
    NotCoordinator,
    RebalanceInProgress,
    StorageError,
    UnknownMemberId,
)
from tidelog.kernel.metadata import ResourceScope
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.seams.coordination.consumer_groups import (
    ConsumerGroupHeartbeat,
    DescribedConsumerGroup,
    DescribedPartitions,
    HeartbeatAnswer,
)
from tidelog.kernel.seams.coordination.groups import (
    GroupProtocol,
    Joined,
    JoinRequest,
    LeavingMember,
    SyncRequest,
)
from tidelog.kernel.seams.coordination.offsets import OffsetCommit
from tidelog.kernel.testing.broker import new_broker, running_broker
from tidelog.plugins.coordinator.consumer_groups import service
from tidelog.plugins.coordinator.consumer_groups.service import ConsumerGroups
from tidelog.plugins.coordinator.consumer_groups.settings import SettingsOfGroups, Shared
from tidelog.plugins.coordinator.groups.group import ExpiryRule
from tidelog.plugins.coordinator.lazy import LazyCoordinator

GROUP = "g"
SUBSCRIPTION = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000000")
OWNS_BOTH = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000001 0001 74 00000002 00000000 00000001")
CLASSIC_JOIN = JoinRequest(GROUP, "old", "consumer", [GroupProtocol("range", SUBSCRIPTION)], 10_000, 20_000)


class FakeConfigs:
    """Configuration of groups: none until a session timeout is set."""

    session_timeout_ms: int | None = None
    version: int = 0

    def set_session_timeout(self, timeout_ms: int) -> None:
        """Set the session timeout of any group."""
        self.session_timeout_ms = timeout_ms
        self.version += 1

    def find(self, scope: ResourceScope, name: str) -> TopicConfig | None:
        """Return the configuration of any group."""
        if self.session_timeout_ms is None:
            return None
        return TopicConfig({"consumer.session.timeout.ms": self.session_timeout_ms})


@attrs.define
class ConsumerGroupCoordinator:
    """Classic groups and consumer groups over one log; the topic `t` has two partitions."""

    base: GroupCoordinator
    topics: FakeTopics
    shared: Shared
    service: ConsumerGroups
    configs: FakeConfigs

    async def heartbeat(self, member_id: str, epoch: int, **rest: object) -> HeartbeatAnswer:
        """A request of a member; the fields are those of `ConsumerGroupHeartbeat`."""
        request = ConsumerGroupHeartbeat(GROUP, member_id, epoch)._replace(**rest)  # type: ignore[arg-type]
        answer = self.service.heartbeat(request)
        return answer if isinstance(answer, HeartbeatAnswer) else await answer

    async def join(self, member_id: str, **rest: object) -> HeartbeatAnswer:
        """A member joins and subscribes to `t`."""
        given: dict[str, object] = {
            "rebalance_timeout_ms": 20_000,
            "topic_names": frozenset("t"),
            "owned": {},
        }
        return await self.heartbeat(member_id, 0, **(given | rest))

    async def classic_join(self, subscription: bytes = SUBSCRIPTION, member_id: str = "old") -> Joined:
        """A member of the classic protocol joins."""
        protocols = [GroupProtocol("range", subscription)]
        joined = self.base.groups.join(attrs.evolve(CLASSIC_JOIN, member_id=member_id, protocols=protocols))
        return joined if isinstance(joined, Joined) else await joined

    def described(self) -> DescribedConsumerGroup:
        """The group as tools see it."""
        return self.service.describe(GROUP)

    @property
    def members(self) -> list[str]:
        """The ids of the group's members."""
        return [member.member_id for member in self.described().members]

    @property
    def types(self) -> list[str]:
        """What kinds of groups are listed."""
        return [listed.group_type for listed in self.base.groups.list()]


class NoTasks:
    """Background tasks of a coordinator with small groups: there are none."""

    def once(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Fail."""
        raise AssertionError(name)

    def in_thread(self, name: str, job: Callable[[], object]) -> None:
        """Fail."""
        raise AssertionError(name)

    def run_shielded(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        """Fail."""
        raise AssertionError(name)


class Nursery(NoTasks):
    """Background tasks in a nursery of the test."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery

    def once(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run the job soon."""
        self.nursery.start_soon(job, name=name)


def new_consumer_coordinator(
    topics: FakeTopics | None = None, tasks: NoTasks | None = None
) -> ConsumerGroupCoordinator:
    """Return a coordinator whose deadlines are not served."""
    coordinator, topics, configs = new_coordinator(), topics or FakeTopics(t=2), FakeConfigs()
    shared = Shared(
        coordinator.runtime,
        coordinator.registry,
        SettingsOfGroups(SETTINGS, cast("ResourceConfigs", configs)),
        topics,
        coordinator.classic,
        tasks or NoTasks(),
    )
    return ConsumerGroupCoordinator(coordinator, topics, shared, ConsumerGroups(shared), configs)


@pytest.fixture
async def coordinator() -> AsyncGenerator[ConsumerGroupCoordinator]:
    """Groups whose deadlines are served."""
    coordinator = new_consumer_coordinator()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.base.runtime.deadlines.run)
        yield coordinator
        nursery.cancel_scope.cancel()


async def test_heartbeat_missing_for_the_session_timeout_removes_the_member(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("silent")
    await coordinator.join("alive")
    for _ in range(5):
        await trio.sleep(10)
        await coordinator.heartbeat("alive", 2)
    assert coordinator.members == ["alive"]


async def test_heartbeat_missing_for_the_session_timeout_of_its_group_removes_the_member(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("silent")
    coordinator.configs.set_session_timeout(2 * SETTINGS.session_timeout_ms)
    await coordinator.heartbeat("silent", 1)
    await trio.sleep(1.9 * SETTINGS.session_timeout_ms / 1000)
    assert coordinator.members == ["silent"]
    await trio.sleep(0.2 * SETTINGS.session_timeout_ms / 1000)
    assert coordinator.members == []


async def test_heartbeat_is_answered_at_once_if_nothing_changes(
    coordinator: ConsumerGroupCoordinator,
) -> None:
    await coordinator.join("a")
    answer = coordinator.service.heartbeat(ConsumerGroupHeartbeat(GROUP, "a", 1))
    assert answer == HeartbeatAnswer("a", 1, SETTINGS.heartbeat_interval_ms)


async def test_heartbeat_without_revocation_until_the_rebalance_timeout_removes_the_member(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("keeps")
    await coordinator.join("waits")
    for _ in range(3):
        await coordinator.heartbeat("keeps", 1)
        assert coordinator.members == ["keeps", "waits"]
        await trio.sleep(9)
    assert coordinator.members == ["waits"]


async def test_heartbeat_missing_after_a_temporary_leave_removes_the_static_member(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("a", instance_id="i")
    await coordinator.heartbeat("a", -2, instance_id="i")
    await trio.sleep(44)
    assert coordinator.members == ["a"]
    await trio.sleep(2)
    assert coordinator.described().state == "Empty"


async def test_heartbeat_timeout_removes_the_member_later_if_the_log_refuses_at_first(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("a")
    coordinator.base.log.refusal = StorageError("full")
    await trio.sleep(46)
    assert coordinator.members == ["a"]
    coordinator.base.log.refusal = None
    await trio.sleep(2)
    assert coordinator.members == []


async def test_heartbeat_leaves_the_group_unchanged_when_the_log_refuses_it(
    coordinator: ConsumerGroupCoordinator,
) -> None:
    await coordinator.join("a")
    coordinator.base.log.refusal = StorageError("full")
    with pytest.raises(StorageError):
        await coordinator.join("b")
    assert (coordinator.members, coordinator.described().epoch) == (["a"], 1)


async def test_heartbeat_is_answered_after_the_flush(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.base.log.flush_due = True
    answers: list[HeartbeatAnswer] = []

    async def join() -> None:
        answers.append(await coordinator.join("a"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        assert not answers
        coordinator.base.log.flushed.set()
    assert answers


async def test_replay_gives_members_their_whole_session_timeout_again(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("a")
    again = new_consumer_coordinator()
    registry = again.base.registry
    again.base.runtime.deadlines = coordinator.base.runtime.deadlines
    restarted = ConsumerGroups(attrs.evolve(again.shared, topics=coordinator.topics))
    for partition, batch in coordinator.base.log.batches:
        for record in batch:
            run_to_end(restarted.replay(partition, record.key, record.value))
    coordinator.base.registry.forget_partition(partition_for(GROUP))
    await trio.sleep(40)
    assert len(list(registry.settle(partition_for(GROUP)))) == 1
    await trio.sleep(44)
    begun = restarted.heartbeat(ConsumerGroupHeartbeat(GROUP, "a", 1))
    assert not isinstance(begun, HeartbeatAnswer)
    answer = await begun
    assert (answer.member_epoch, answer.assignment) == (1, None)


async def test_heartbeat_and_describe_are_refused_while_the_log_is_loading(
    coordinator: ConsumerGroupCoordinator,
) -> None:
    coordinator.base.log.inactive[partition_for(GROUP)] = CoordinatorLoadInProgress("reading")
    with pytest.raises(CoordinatorLoadInProgress):
        await coordinator.join("a")
    with pytest.raises(CoordinatorLoadInProgress):
        coordinator.described()


async def test_consumer_group_describe_makes_a_member_when_it_is_read(
    coordinator: ConsumerGroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await coordinator.join("a")
    described = coordinator.described()
    monkeypatch.setattr(service, "_describe_member", lambda *_: "now")
    assert list[object](described.members) == ["now"]


async def test_consumer_group_describe_and_list_groups_of_a_stable_group(
    coordinator: ConsumerGroupCoordinator,
) -> None:
    await coordinator.join("a", instance_id="i", rack_id="r", client_id="c", client_host="/h")
    group = coordinator.described()
    assert (group.state, group.epoch, group.assignment_epoch, group.assignor) == ("Stable", 1, 1, "uniform")
    (member,) = group.members
    assert (member.instance_id, member.rack_id, member.member_epoch) == ("i", "r", 1)
    assert (member.client_id, member.client_host, member.topic_names) == ("c", "/h", ["t"])
    everything = [DescribedPartitions(coordinator.topics.id_of("t"), "t", [0, 1])]
    assert member.assignment == member.target == everything
    groups = coordinator.base.groups
    assert list(groups.list()) == [(GROUP, "consumer", "Stable", "consumer")]
    with pytest.raises(GroupIdNotFound):
        groups.describe(GROUP)


async def test_delete_groups_refuses_a_consumer_group_until_it_is_empty(
    coordinator: ConsumerGroupCoordinator,
) -> None:
    await coordinator.join("a")
    (error,) = await coordinator.base.groups.delete([GROUP])
    assert isinstance(error, NonEmptyGroup)
    await coordinator.heartbeat("a", -1)
    assert list(await coordinator.base.groups.delete([GROUP])) == [None]
    with pytest.raises(GroupIdNotFound):
        coordinator.described()


async def test_live_consumer_group_answers_check_commit_subscribes_and_expiry(
    coordinator: ConsumerGroupCoordinator,
) -> None:
    await coordinator.join("a")
    group = coordinator.base.group(GROUP)
    group.check_commit(OffsetCommit(GROUP, [], 1, "a"))
    with pytest.raises(UnknownMemberId):
        group.check_commit(OffsetCommit(GROUP, [], 1, "b"))
    assert group.subscribes("t")
    assert not group.subscribes("u")
    assert not group.is_idle()
    assert group.expiry() == ExpiryRule()
    assert coordinator.base.registry.of_partition(partition_for(GROUP)) == [group]
    await coordinator.heartbeat("a", -1)
    assert group.is_idle()
    assert group.tombstones()
    coordinator.base.registry.remove(group, UnknownMemberId("expired"))
    assert coordinator.types == []


async def test_heartbeat_turns_a_group_with_only_offsets_into_a_consumer_group(
    coordinator: ConsumerGroupCoordinator,
) -> None:
    coordinator.base.classic.create(GROUP)
    assert coordinator.types == ["classic"]
    await coordinator.join("a")
    assert coordinator.types == ["consumer"]


async def test_heartbeat_upgrades_a_classic_group_and_downgrades_it_on_the_last_leave(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    groups = coordinator.base.groups
    old = (await coordinator.base.join(metadata=SUBSCRIPTION)).member_id
    await coordinator.join("new")
    assert (coordinator.types, coordinator.members) == (["consumer"], [old, "new"])
    with pytest.raises(RebalanceInProgress):
        groups.heartbeat(GROUP, old, 1)
    await coordinator.heartbeat("new", -1)
    assert coordinator.types == ["classic"]
    with pytest.raises(GroupIdNotFound):
        coordinator.described()
    with pytest.raises(RebalanceInProgress):
        groups.heartbeat(GROUP, old, 2)


async def test_join_group_turns_an_empty_consumer_group_into_a_classic_group(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("a")
    await coordinator.heartbeat("a", -1)
    await coordinator.base.join(metadata=SUBSCRIPTION)
    assert coordinator.types == ["classic"]


async def emptied(coordinator: ConsumerGroupCoordinator) -> None:
    """A consumer group without members; from now on the log has to be flushed before anything is answered."""
    await coordinator.join("a")
    await coordinator.heartbeat("a", -1)
    coordinator.base.log.flush_due = True


async def test_join_group_waiting_for_the_flush_joins_a_consumer_group_created_meanwhile(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await emptied(coordinator)
    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.deadline = trio.current_time() + 600
        nursery.start_soon(partial(coordinator.base.join, metadata=SUBSCRIPTION))
        await wait_all_tasks_blocked()
        assert coordinator.types == []
        nursery.start_soon(coordinator.join, "b")
        await wait_all_tasks_blocked()
        assert coordinator.types == ["consumer"]
        coordinator.base.log.flushed.set()
    assert coordinator.types == ["consumer"]
    assert len(coordinator.members) == 2
    replayed = new_consumer_coordinator()
    for partition, records in coordinator.base.log.batches:
        for record in records:
            replay = replayed.base.classic.replay if record.key[:2] == b"\0\2" else replayed.service.replay
            run_to_end(replay(partition, record.key, record.value))
    assert replayed.types == ["consumer"]
    assert replayed.members == coordinator.members


async def test_join_group_waiting_for_the_flush_is_refused_once_the_log_is_inactive(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await emptied(coordinator)

    async def join() -> None:
        with pytest.raises(NotCoordinator):
            await coordinator.base.join(metadata=SUBSCRIPTION)

    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.deadline = trio.current_time() + 600
        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        coordinator.base.log.inactive[partition_for(GROUP)] = NotCoordinator("the log is gone")
        coordinator.base.log.flushed.set()
    assert coordinator.types == []


async def test_sync_group_missing_until_the_rebalance_timeout_removes_a_classic_member(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("a")
    generation = (await coordinator.classic_join()).generation
    for _ in range(3):
        coordinator.base.groups.heartbeat(GROUP, "old", generation)
        await trio.sleep(9)
    assert coordinator.members == ["a"]


async def test_join_group_of_a_member_that_has_to_revoke_stops_the_timer_of_its_former_protocol(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("old")
    await coordinator.join("waits")
    await coordinator.heartbeat("old", 1)
    await trio.sleep(9)
    await coordinator.classic_join(OWNS_BOTH)
    groups = coordinator.base.groups
    groups.sync(SyncRequest(GROUP, "old", 1))
    for _ in range(3):
        with pytest.raises(RebalanceInProgress):
            groups.heartbeat(GROUP, "old", 1)
        await coordinator.heartbeat("waits", 2)
        await trio.sleep(6)
    # As a member of the classic protocol it has its rebalance timeout from the first error on.
    assert coordinator.members == ["old", "waits"]
    await trio.sleep(3)
    assert coordinator.members == ["waits"]


async def test_heartbeat_of_a_classic_member_stops_the_timers_of_its_former_protocol(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("a")
    await coordinator.classic_join()
    epoch = (await coordinator.join("old")).member_epoch
    for _ in range(3):
        await coordinator.heartbeat("a", 1)
        await coordinator.heartbeat("old", epoch)
        await trio.sleep(6)
    await coordinator.heartbeat("old", epoch)
    await trio.sleep(6)
    assert "old" in coordinator.members


async def test_heartbeat_of_a_classic_member_that_has_to_revoke_gives_it_its_rebalance_timeout(
    coordinator: ConsumerGroupCoordinator, autojump_clock: MockClock
) -> None:
    await coordinator.join("old")
    await coordinator.join("waits")
    await coordinator.heartbeat("old", 1)
    await coordinator.classic_join(OWNS_BOTH)
    await coordinator.heartbeat("old", 1)
    for _ in range(4):
        await coordinator.heartbeat("old", 1)
        await coordinator.heartbeat("waits", 2)
        assert "old" in coordinator.members
        await trio.sleep(6)
    assert coordinator.members == ["waits"]


async def test_leave_group_removes_members_of_both_protocols(coordinator: ConsumerGroupCoordinator) -> None:
    await coordinator.join("a", instance_id="i")
    await coordinator.join("b")
    await coordinator.classic_join()
    leaving = [LeavingMember("", "i"), LeavingMember("x"), LeavingMember("old")]
    outcomes = await coordinator.base.groups.leave(GROUP, leaving)
    assert [type(outcome.error) for outcome in outcomes] == [type(None), UnknownMemberId, type(None)]
    assert coordinator.members == ["b"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"group.consumer.session.timeout.ms": 1_000}, r"group\.consumer\.min\.session\.timeout\.ms"),
        ({"group.consumer.heartbeat.interval.ms": 20_000}, r"group\.consumer\.max\.heartbeat\.interval\.ms"),
        ({"group.consumer.assignment.interval.ms": 20_000}, r"max\.assignment\.interval\.ms"),
        ({"group.consumer.assignors": "uniform,sticky"}, "there are the assignors range, uniform"),
        ({"group.consumer.assignors": ""}, "group.consumer.assignors"),
    ],
)
def test_settings_of_refuses_an_invalid_configuration(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        new_broker(settings)


async def test_settings_of_groups_follow_the_configuration_of_a_running_broker() -> None:
    async with running_broker() as broker:
        service = cast("LazyCoordinator", broker.coordinator)._service  # pyright: ignore[reportPrivateUsage]
        settings = service._group_settings  # pyright: ignore[reportPrivateUsage]
        await broker.controller.alter_resource_configs(
            "group", [("own", lambda _: {"consumer.session.timeout.ms": "50000"})]
        )
        before = [settings.of(group).assignment_interval_ms for group in ("own", "other")]
        await broker.controller.alter_broker_config(
            None, lambda _: {"group.consumer.assignment.interval.ms": "7000"}
        )
        after = [settings.of(group).assignment_interval_ms for group in ("own", "other")]
        assert (before, after) == ([1_000, 1_000], [7_000, 7_000])
