"""What committed offsets ask of groups: who may commit, what expires, what may be deleted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.plugins.coordinator.classic_groups.machine import SESSION_MS
from tests.plugins.coordinator.classic_groups.world import World, partition_for, running_world
from tidelog.kernel.errors import (
    BrokerError,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import Joined, LeavingMember, ListedGroup
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
from tidelog.plugins.coordinator.classic_groups import entry
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.offsets.guard import ExpiryRule
from tidelog.plugins.coordinator.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    read_subscription,
)
from tidelog.plugins.coordinator.records.group_metadata import group_metadata_key
from tidelog.plugins.protocol_kafka.codecs.compiled import encode

SUBSCRIPTION = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["read"]), 0)


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with running_world() as world:
        yield world


async def group_in(world: World, state: GroupState) -> Joined:
    """A group `g` of the static member `i` in that state; it may have lost it."""
    joined = await world.join(instance="i", metadata=SUBSCRIPTION)
    if state is GroupState.COMPLETING_REBALANCE:
        return joined
    await world.sync(joined)
    if state is GroupState.EMPTY:
        await world.groups.leave("g", [LeavingMember(joined.member_id)])
    return joined


def refusal(world: World, commit: OffsetCommit) -> type[BrokerError] | None:
    try:
        world.guard.check_commit(commit)
    except BrokerError as error:
        return type(error)
    return None


EMPTY, COMPLETING, STABLE = GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE
NOBODY = (-1, "", None)

COMMITS: list[tuple[GroupState, tuple[int, str | None, str | None], bool, type[BrokerError] | None]] = [
    (EMPTY, NOBODY, False, None),
    (EMPTY, (1, None, None), False, UnknownMemberId),
    (STABLE, (1, None, None), False, None),
    (STABLE, (1, None, "i"), False, None),
    (STABLE, (1, None, None), True, None),
    (STABLE, NOBODY, False, UnknownMemberId),
    (STABLE, NOBODY, True, None),
    (STABLE, (0, None, None), False, IllegalGeneration),
    (STABLE, (-1, None, None), False, IllegalGeneration),
    (STABLE, (1, "stranger", None), False, UnknownMemberId),
    (STABLE, (1, "stranger", None), True, UnknownMemberId),
    (STABLE, (1, "stranger", "i"), False, FencedInstanceId),
    (STABLE, (1, None, "other"), False, UnknownMemberId),
    (COMPLETING, (1, None, None), False, RebalanceInProgress),
    (COMPLETING, (1, None, None), True, None),
]


@pytest.mark.parametrize(("state", "who", "transactional", "error"), COMMITS)
async def test_who_may_commit(
    autojump_clock: MockClock,
    world: World,
    state: GroupState,
    who: tuple[int, str | None, str | None],
    transactional: bool,
    error: type[BrokerError] | None,
) -> None:
    joined = await group_in(world, state)
    generation, member_id, instance = who
    member_id = joined.member_id if member_id is None else member_id
    commit = OffsetCommit(
        "g",
        [],
        generation=generation,
        member_id=member_id,
        group_instance_id=instance,
        is_transactional=transactional,
    )
    assert refusal(world, commit) is error


@pytest.mark.parametrize(("knows_epochs", "error"), [(True, GroupIdNotFound), (False, IllegalGeneration)])
async def test_members_of_a_group_that_is_not_there(
    autojump_clock: MockClock, world: World, knows_epochs: bool, error: type[BrokerError]
) -> None:
    assert refusal(world, OffsetCommit("g", [], 3, "m", knows_epochs=knows_epochs)) is error
    assert world.groups.list() == []


async def test_clients_without_a_group_begin_a_simple_one(autojump_clock: MockClock, world: World) -> None:
    assert refusal(world, OffsetCommit("g", [])) is None
    assert world.groups.list() == [ListedGroup("g", "", "Empty", "classic")]
    assert world.guard.group_ids(partition_for("g")) == ["g"]
    assert world.guard.expiry("g") == ExpiryRule()
    assert world.guard.tombstones("g") == [(group_metadata_key("g"), None)]
    world.guard.begin_simple("g")
    world.guard.forget("g")
    assert world.groups.list() == []
    assert world.guard.tombstones("g") == [(group_metadata_key("g"), None)]


async def test_commits_keep_a_session_alive(autojump_clock: MockClock, world: World) -> None:
    joined = await group_in(world, STABLE)
    for _ in range(5):
        await trio.sleep(SESSION_MS / 1000 * 0.9)
        assert refusal(world, OffsetCommit("g", [], 1, joined.member_id)) is None


@pytest.mark.parametrize(
    ("state", "topic", "reads"),
    [(STABLE, "read", True), (STABLE, "other", False), (EMPTY, "read", False)],
)
async def test_what_members_read(
    autojump_clock: MockClock, world: World, state: GroupState, topic: str, reads: bool
) -> None:
    await group_in(world, state)
    assert world.guard.subscribes("g", topic) == reads


async def test_subscribes_reads_the_metadata_of_members_once_a_generation(
    autojump_clock: MockClock, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def counting(metadata: bytes) -> ConsumerProtocolSubscription:
        read.append(metadata)
        return read_subscription(metadata)

    monkeypatch.setattr(entry, "read_subscription", counting)
    joined = await group_in(world, STABLE)
    assert [world.guard.subscribes("g", topic) for topic in ("read", "other") * 500] == [True, False] * 500
    assert len(read) == 1
    other = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["other"]), 0)
    await world.sync(await world.join(member_id=joined.member_id, instance="i", metadata=other))
    assert [world.guard.subscribes("g", topic) for topic in ("read", "other")] == [False, True]
    assert len(read) == 2


async def test_subscriptions_that_cannot_be_read_may_be_for_anything(
    autojump_clock: MockClock, world: World
) -> None:
    joined = await world.join(metadata=b"\0")
    await world.sync(joined)
    assert world.guard.subscribes("g", "topic")
    assert world.guard.expiry("g") is None
    assert not world.guard.subscribes("none", "topic")


async def test_retention_counts_from_when_the_last_member_went(
    autojump_clock: MockClock, world: World
) -> None:
    joined = await group_in(world, COMPLETING)
    assert world.guard.expiry("g") is None
    await world.sync(joined)
    assert world.guard.expiry("g") == ExpiryRule()
    assert world.guard.tombstones("g") is None
    world.clock.advance(5_000)
    await world.groups.leave("g", [LeavingMember(joined.member_id)])
    assert world.guard.expiry("g") == ExpiryRule(world.clock())
    assert world.guard.expiry("none") == ExpiryRule()


async def test_an_empty_group_leaves_a_tombstone(autojump_clock: MockClock, world: World) -> None:
    await group_in(world, EMPTY)
    tombstones = world.guard.tombstones("g")
    assert tombstones is not None
    [tombstone] = tombstones
    assert tombstone.value is None
    assert {key for _, ((key, _),) in world.log.batches} == {tombstone.key}


async def test_offsets_of_strangers_are_not_deleted(autojump_clock: MockClock, world: World) -> None:
    with pytest.raises(GroupIdNotFound):
        world.guard.check_delete("g")
    with pytest.raises(GroupIdNotFound):
        world.guard.check_fetch(OffsetFetch("g", None))
    await group_in(world, STABLE)
    world.guard.check_delete("g")
    world.guard.check_fetch(OffsetFetch("g", None))
    entry = world.driver.directory.get("g")
    assert entry is not None
    entry.group.protocol_type = "connect"
    with pytest.raises(NonEmptyGroup):
        world.guard.check_delete("g")


class OtherGroups:
    """Groups of another protocol: one, `other`, whose answers are recognizable."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __contains__(self, group_id: str) -> bool:
        return group_id == "other"

    def listed(self) -> Sequence[ListedGroup]:
        return [ListedGroup("other", "consumer", "Reconciling", "consumer")]

    def check_commit(self, commit: OffsetCommit) -> None:
        self.asked.append("commit")

    def check_fetch(self, fetch: OffsetFetch) -> None:
        self.asked.append("fetch")

    def check_delete(self, group_id: str) -> None:
        self.asked.append("delete")

    def subscribes(self, group_id: str, topic: str) -> bool:
        return True

    def begin_simple(self, group_id: str) -> None:
        raise AssertionError("never for a group that is there")

    def group_ids(self, partition: int) -> Sequence[str]:
        return ["other"]

    def expiry(self, group_id: str) -> ExpiryRule | None:
        return ExpiryRule(7)

    def tombstones(self, group_id: str) -> Sequence[StateRecord] | None:
        return [StateRecord(b"other", None)]

    def forget(self, group_id: str) -> None:
        self.asked.append("forget")


async def test_groups_of_the_other_protocol_are_asked_themselves(
    autojump_clock: MockClock, world: World
) -> None:
    others = world.guard.consumer_groups = OtherGroups()
    await group_in(world, STABLE)
    assert refusal(world, OffsetCommit("other", [], 3, "m")) is None
    world.guard.check_fetch(OffsetFetch("other", None))
    world.guard.check_delete("other")
    world.guard.begin_simple("other")
    world.guard.forget("other")
    assert others.asked == ["commit", "fetch", "delete", "forget"]
    assert world.guard.subscribes("other", "anything")
    assert world.guard.expiry("other") == ExpiryRule(7)
    assert world.guard.tombstones("other") == [StateRecord(b"other", None)]
    assert world.guard.group_ids(partition_for("g")) == ["g", "other"]
    await wait_all_tasks_blocked()
