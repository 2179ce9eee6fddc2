"""What committed offsets ask of a classic `Group`: who may commit, what expires, what may be deleted."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import trio
from trio.testing import MockClock

from tests.plugins.coordinator.classic_groups.driver import SESSION_MS
from tests.plugins.coordinator.groups.group_coordinator import (
    GroupCoordinator,
    partition_for,
    running_coordinator,
)
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
from tidelog.plugins.coordinator.classic_groups import registered_classic_group
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.groups.group import ExpiryRule
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    read_topics,
)
from tidelog.plugins.schema.compiled import encode

SUBSCRIPTION = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["read"]), 0)


@pytest.fixture
async def coordinator() -> AsyncGenerator[GroupCoordinator]:
    async with running_coordinator() as coordinator:
        yield coordinator


async def group_in(coordinator: GroupCoordinator, state: GroupState) -> Joined:
    """A group `g` of the static member `i` in that state; it may have lost it."""
    joined = await coordinator.join(instance="i", metadata=SUBSCRIPTION)
    if state is GroupState.COMPLETING_REBALANCE:
        return joined
    await coordinator.sync(joined)
    if state is GroupState.EMPTY:
        await coordinator.groups.leave("g", [LeavingMember(joined.member_id)])
    return joined


def refusal(coordinator: GroupCoordinator, commit: OffsetCommit) -> type[BrokerError] | None:
    try:
        coordinator.group().check_commit(commit)
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
async def test_check_commit_by_state_member_and_generation(
    autojump_clock: MockClock,
    coordinator: GroupCoordinator,
    state: GroupState,
    who: tuple[int, str | None, str | None],
    transactional: bool,
    error: type[BrokerError] | None,
) -> None:
    joined = await group_in(coordinator, state)
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
    assert refusal(coordinator, commit) is error


async def test_a_group_without_members_is_a_simple_one(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    group = coordinator.classic.create("g")
    assert refusal(coordinator, OffsetCommit("g", [])) is None
    assert list(coordinator.groups.list()) == [ListedGroup("g", "", "Empty", "classic")]
    assert coordinator.registry.of_partition(partition_for("g")) == [group]
    assert group.expiry() == ExpiryRule()
    assert group.is_idle()
    assert group.tombstones() == [GenerationChange("g", None).to_record()]


async def test_extend_session_of_commit_is_for_the_member_that_commits(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    joined = await group_in(coordinator, STABLE)
    for _ in range(5):
        await trio.sleep(SESSION_MS / 1000 * 0.9)
        coordinator.group().extend_session_of_commit(OffsetCommit("g", [], is_transactional=True))
        commit = OffsetCommit("g", [], 1, joined.member_id)
        coordinator.group().extend_session_of_commit(commit)
        assert refusal(coordinator, commit) is None


@pytest.mark.parametrize(
    ("state", "topic", "reads"),
    [(STABLE, "read", True), (STABLE, "other", False), (EMPTY, "read", False)],
)
async def test_subscribes_is_true_for_topics_of_current_members_only(
    autojump_clock: MockClock, coordinator: GroupCoordinator, state: GroupState, topic: str, reads: bool
) -> None:
    await group_in(coordinator, state)
    assert coordinator.group().subscribes(topic) == reads


async def test_subscribes_reads_the_metadata_of_members_once_a_generation(
    autojump_clock: MockClock, coordinator: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def counting(metadata: bytes) -> list[str]:
        read.append(metadata)
        return read_topics(metadata)

    monkeypatch.setattr(registered_classic_group, "read_topics", counting)
    joined = await group_in(coordinator, STABLE)
    assert [coordinator.group().subscribes(topic) for topic in ("read", "other") * 500] == [True, False] * 500
    assert len(read) == 1
    other = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["other"]), 0)
    await coordinator.sync(await coordinator.join(member_id=joined.member_id, instance="i", metadata=other))
    assert [coordinator.group().subscribes(topic) for topic in ("read", "other")] == [False, True]
    assert len(read) == 2


@pytest.mark.parametrize("version", [-1, 0, 1, 3, 32767])
async def test_subscribes_reads_the_fields_of_version_0_whatever_version_is_stated(
    autojump_clock: MockClock, coordinator: GroupCoordinator, version: int
) -> None:
    """Widely used clients in Go and JavaScript state version 1 and send no owned partitions."""
    body = encode(ConsumerProtocolSubscription(topics=["read"]), 0)
    await coordinator.sync(await coordinator.join(metadata=version.to_bytes(2, signed=True) + body))
    assert [coordinator.group().subscribes(topic) for topic in ("read", "other")] == [True, False]
    assert coordinator.group().expiry() == ExpiryRule()


async def test_subscribes_is_true_for_any_topic_if_member_metadata_is_unreadable(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    joined = await coordinator.join(metadata=b"\0")
    await coordinator.sync(joined)
    assert coordinator.group().subscribes("topic")
    assert coordinator.group().expiry() is None


async def test_expiry_counts_retention_from_when_the_last_member_left(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    joined = await group_in(coordinator, COMPLETING)
    assert coordinator.group().expiry() is None
    await coordinator.sync(joined)
    assert coordinator.group().expiry() == ExpiryRule()
    assert not coordinator.group().is_idle()
    coordinator.clock.advance(5_000)
    await coordinator.groups.leave("g", [LeavingMember(joined.member_id)])
    assert coordinator.group().expiry() == ExpiryRule(coordinator.clock())


async def test_an_empty_group_leaves_a_tombstone(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    await group_in(coordinator, EMPTY)
    assert coordinator.group().is_idle()
    [tombstone] = coordinator.group().tombstones()
    assert tombstone.value is None
    assert {key for _, ((key, _),) in coordinator.log.batches} == {tombstone.key}


async def test_check_delete_offsets_refuses_members_of_unknown_subscriptions(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    with pytest.raises(GroupIdNotFound):
        coordinator.group()
    await group_in(coordinator, STABLE)
    group = coordinator.classic_group()
    group.check_delete_offsets()
    group.check_fetch(OffsetFetch("g", None))
    group.group.protocol_type = "connect"
    with pytest.raises(NonEmptyGroup):
        group.check_delete_offsets()
