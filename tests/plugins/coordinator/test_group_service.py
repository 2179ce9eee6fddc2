"""The service of all groups, over classic ones: time, waiting, the log, and what becomes of groups."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Sequence
from unittest.mock import Mock

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.plugins.coordinator.classic_groups.driver import INITIAL_DELAY_MS, SESSION_MS
from tests.plugins.coordinator.groups.group_coordinator import (
    GroupCoordinator,
    new_coordinator,
    partition_for,
    running_coordinator,
)
from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    MessageTooLarge,
    NonEmptyGroup,
    NotCoordinator,
    StorageError,
    UnknownMemberId,
)
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.seams.coordination.groups import (
    DescribedMember,
    Joined,
    LeavingMember,
    ListedGroup,
    Synced,
)
from tidelog.plugins.coordinator.classic_groups import registered_classic_group
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange
from tidelog.plugins.coordinator.groups.group import Group as CommonGroup
from tidelog.plugins.coordinator.offsets.records import OFFSETS_PER_BATCH, OffsetChange
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord


@pytest.fixture
async def coordinator() -> AsyncGenerator[GroupCoordinator]:
    async with running_coordinator() as coordinator:
        yield coordinator


async def refused(outcome: Awaitable[object]) -> type[BrokerError]:
    """The error that an answer is."""
    with pytest.raises(BrokerError) as caught:
        await outcome
    return caught.type


class Waiting:
    """Somebody who waits for an answer."""

    def __init__(self, nursery: trio.Nursery, outcome: Awaitable[object]) -> None:
        self.outcome: object = None
        nursery.start_soon(self._wait, outcome)

    async def _wait(self, outcome: Awaitable[object]) -> None:
        try:
            self.outcome = await outcome
        except BrokerError as error:
            self.outcome = error


async def test_join_group_sync_group_heartbeat_and_leave_group_of_a_member(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    began = trio.current_time()
    joined = await coordinator.join()
    assert trio.current_time() - began == pytest.approx(INITIAL_DELAY_MS / 1000)
    synced = await coordinator.sync(joined, {joined.member_id: b"mine"})
    assert synced.assignment == b"mine"
    for _ in range(20):
        await trio.sleep(SESSION_MS / 1000 * 0.9)
        coordinator.groups.heartbeat("g", joined.member_id, 1)
    assert list(coordinator.groups.list()) == [ListedGroup("g", "consumer", "Stable", "classic")]
    await trio.sleep(SESSION_MS / 1000 + 0.001)
    assert list(coordinator.groups.list()) == [ListedGroup("g", "consumer", "Empty", "classic")]
    with pytest.raises(UnknownMemberId):
        coordinator.groups.heartbeat("g", joined.member_id, 1)


async def test_heartbeat_changes_no_timer(autojump_clock: MockClock, coordinator: GroupCoordinator) -> None:
    joined = await coordinator.stable()
    for _ in range(1000):
        coordinator.groups.heartbeat("g", joined.member_id, 1)
    assert len(coordinator.runtime.deadlines) == 1
    assert len(coordinator.runtime.deadlines._heap) <= 3  # pyright: ignore[reportPrivateUsage]


async def test_join_group_of_a_connection_that_breaks_keeps_the_member(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    with trio.move_on_after(1):
        await coordinator.join()
    await trio.sleep(INITIAL_DELAY_MS / 1000)
    assert coordinator.groups.describe("g").state == "CompletingRebalance"
    await trio.sleep(SESSION_MS / 1000)
    assert coordinator.groups.describe("g").state == "Empty"


async def test_join_group_removes_the_new_group_if_no_member_rejoins_with_its_id(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    with pytest.raises(MemberIdRequired):
        await coordinator.join(id_required=True)
    assert [group.state for group in coordinator.groups.list()] == ["Empty"]
    await trio.sleep(SESSION_MS / 1000)
    await wait_all_tasks_blocked()
    assert list(coordinator.groups.list()) == []
    assert coordinator.log.batches == []


async def test_join_group_keeps_a_group_with_offsets_if_no_member_rejoins_with_its_id(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    coordinator.commit("g")
    with pytest.raises(MemberIdRequired):
        await coordinator.join(id_required=True)
    await trio.sleep(2 * SESSION_MS / 1000)
    assert [group.group_id for group in coordinator.groups.list()] == ["g"]


class GroupWithoutClassicMembers(CommonGroup):
    """A group of a kind that has no members of the classic protocol, as share groups."""

    group_id = "shared"
    partition = partition_for("shared")


async def test_requests_of_classic_members_are_refused_by_groups_of_kinds_without_such(
    coordinator: GroupCoordinator,
) -> None:
    coordinator.registry.put(GroupWithoutClassicMembers())
    member = Joined("m", 1, None, None, "m")
    with pytest.raises(InconsistentGroupProtocol):
        await coordinator.join("shared")
    with pytest.raises(UnknownMemberId):
        await coordinator.sync(member, group_id="shared")
    with pytest.raises(UnknownMemberId):
        coordinator.groups.heartbeat("shared", "m", 1)
    (outcome,) = await coordinator.groups.leave("shared", [LeavingMember("m")])
    assert isinstance(outcome.error, UnknownMemberId)
    with pytest.raises(GroupIdNotFound, match="not a classic group"):
        coordinator.groups.describe("shared")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, InvalidGroupId),
        ({"session_ms": 5_999}, InvalidSessionTimeout),
        ({"session_ms": 1_800_001}, InvalidSessionTimeout),
        ({"session_ms": -1}, InvalidSessionTimeout),
        ({"member_id": "stranger"}, UnknownMemberId),
    ],
)
async def test_join_group_that_is_refused_creates_no_group(
    autojump_clock: MockClock,
    coordinator: GroupCoordinator,
    change: dict[str, object],
    error: type[BrokerError],
) -> None:
    with pytest.raises(error):
        await coordinator.join(**change)  # type: ignore[arg-type]
    assert list(coordinator.groups.list()) == []


async def test_sync_group_heartbeat_leave_group_describe_and_delete_of_an_unknown_group(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    joined = Joined("m", 1, None, None, "m")
    assert await refused(coordinator.sync(joined)) is UnknownMemberId
    with pytest.raises(UnknownMemberId):
        coordinator.groups.heartbeat("g", "m", 1)
    (outcome,) = await coordinator.groups.leave("g", [LeavingMember("m")])
    assert isinstance(outcome.error, UnknownMemberId)
    with pytest.raises(GroupIdNotFound):
        coordinator.groups.describe("g")
    (error,) = await coordinator.groups.delete(["g"])
    assert isinstance(error, GroupIdNotFound)


async def test_sync_group_leave_group_and_heartbeat_refuse_an_empty_group_id(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    assert await refused(coordinator.sync(Joined("m", 1, None, None, "m"), group_id="")) is InvalidGroupId
    assert await refused(coordinator.groups.leave("", [])) is InvalidGroupId
    with pytest.raises(InvalidGroupId):
        coordinator.groups.heartbeat("", "m", 1)


async def test_describe_group_makes_a_member_when_it_is_read(
    coordinator: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be very many, and all at once would hold up other clients."""
    await coordinator.stable()
    described = coordinator.groups.describe("g")
    monkeypatch.setattr(registered_classic_group, "_described", lambda *_: "now")
    members: Sequence[object] = described.members
    assert (len(members), members[0], list(members), list(members[:2])) == (1, "now", ["now"], ["now"])


class TestTheLog:
    async def test_replay_restores_a_stable_group_with_its_members_and_assignments(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        joined = await coordinator.stable()
        await coordinator.stable("h")
        described = coordinator.groups.describe("g")
        async with running_coordinator() as later:
            replay(coordinator, later)
            assert later.groups.describe("g") == described
            later.groups.heartbeat("g", joined.member_id, 1)
            assert (await later.sync(joined)).assignment == b"share"
            await trio.sleep(SESSION_MS / 1000 * 0.9)
            later.groups.heartbeat("g", joined.member_id, 1)
            await trio.sleep(SESSION_MS / 1000 * 0.9)
            assert [group.state for group in later.groups.list()] == ["Stable", "Empty"]

    async def test_replay_restores_an_empty_group(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        joined = await coordinator.stable()
        coordinator.clock.advance(1000)
        await coordinator.groups.leave("g", [LeavingMember(joined.member_id)])
        later = new_coordinator()
        replay(coordinator, later)
        described = later.groups.describe("g")
        assert (described.state, described.protocol_type, described.members) == ("Empty", "consumer", [])
        entry = later.classic_group()
        assert (entry.group.generation, entry.state_timestamp_ms) == (2, coordinator.clock())

    async def test_sync_group_appends_to_the_partition_of_the_group(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        await coordinator.stable("g")
        await coordinator.stable("h")
        assert [partition for partition, _ in coordinator.log.batches] == [
            partition_for("g"),
            partition_for("h"),
        ]

    @pytest.mark.parametrize(
        ("refusal", "told"),
        [(StorageError("broken"), NotCoordinator), (MessageTooLarge("large"), BrokerError)],
    )
    async def test_sync_group_when_the_assignment_cannot_be_written(
        self,
        autojump_clock: MockClock,
        coordinator: GroupCoordinator,
        refusal: BrokerError,
        told: type[BrokerError],
    ) -> None:
        joined = await coordinator.join()
        coordinator.log.refusal = refusal
        assert await refused(coordinator.sync(joined)) is told
        coordinator.log.refusal = None
        again = await coordinator.join(member_id=joined.member_id)
        assert again.generation == 2

    async def test_leave_group_succeeds_although_the_empty_group_cannot_be_written(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        joined = await coordinator.stable()
        coordinator.log.refusal = StorageError("broken")
        (outcome,) = await coordinator.groups.leave("g", [LeavingMember(joined.member_id)])
        assert outcome.error is None
        assert coordinator.groups.describe("g").state == "Empty"

    async def test_sync_group_is_answered_after_the_flush(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        joined = await coordinator.join()
        coordinator.log.flush_due = True
        async with trio.open_nursery() as nursery:
            leader = Waiting(nursery, coordinator.sync(joined, {joined.member_id: b"mine"}))
            await wait_all_tasks_blocked()
            assert leader.outcome is None
            coordinator.log.flushed.set()
        assert isinstance(leader.outcome, Synced)

    async def test_sync_group_fails_when_the_flush_fails(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        joined = await coordinator.join()
        coordinator.log.flush_due = True
        coordinator.log.flush_error = NotCoordinator("the disk broke")
        coordinator.log.flushed.set()
        assert await refused(coordinator.sync(joined)) is NotCoordinator

    async def test_replay_refuses_an_unreadable_record(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        await coordinator.stable()
        ((_, ((key, value),)),) = coordinator.log.batches
        assert value is not None
        later = new_coordinator()
        for bad_key, bad_value in ((key, b"\0\x09" + value[2:]), (key[:4], value)):
            with pytest.raises(UnreadableRecord):
                run_to_end(later.classic.replay(0, bad_key, bad_value))
        assert list(later.groups.list()) == []

    async def test_a_partition_that_is_gone_takes_its_groups_along(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        await coordinator.stable("g")
        await coordinator.stable("h")
        async with trio.open_nursery() as nursery:
            waiting = Waiting(nursery, coordinator.join("g"))
            await wait_all_tasks_blocked()
            coordinator.registry.forget_partition(partition_for("g"))
        assert isinstance(waiting.outcome, NotCoordinator)
        assert [group.group_id for group in coordinator.groups.list()] == ["h"]


def replay(before: GroupCoordinator, after: GroupCoordinator) -> None:
    """What one wrote is read back by the other."""
    for partition, records in before.log.batches:
        for key, value in records:
            run_to_end(after.classic.replay(partition, key, value))
    for partition in range(after.log.partition_count):
        for _ in after.registry.settle(partition):
            pass


class TestWhileItLoads:
    async def test_join_group_sync_group_leave_group_and_admin_requests_fail_while_loading(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        coordinator.log.inactive[partition_for("g")] = CoordinatorLoadInProgress("loading")
        joined = Joined("m", 1, None, None, "m")
        with pytest.raises(CoordinatorLoadInProgress):
            await coordinator.join()
        with pytest.raises(CoordinatorLoadInProgress):
            await coordinator.sync(joined)
        with pytest.raises(CoordinatorLoadInProgress):
            await coordinator.groups.leave("g", [LeavingMember("m")])
        with pytest.raises(CoordinatorLoadInProgress):
            coordinator.groups.describe("g")
        with pytest.raises(CoordinatorLoadInProgress):
            coordinator.groups.list()
        (error,) = await coordinator.groups.delete(["g"])
        assert isinstance(error, CoordinatorLoadInProgress)

    async def test_heartbeat_is_accepted_while_loading(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        coordinator.log.inactive[partition_for("g")] = CoordinatorLoadInProgress("loading")
        coordinator.groups.heartbeat("g", "m", 1)

    async def test_without_a_log_there_are_no_groups(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        coordinator.log.inactive = dict.fromkeys(range(3), NotCoordinator("no log"))
        assert list(coordinator.groups.list()) == []
        with pytest.raises(NotCoordinator):
            await coordinator.join()


async def test_group_registry_close_answers_waiting_requests_and_refuses_further_ones(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    first = await coordinator.join()
    async with trio.open_nursery() as nursery:
        syncing = Waiting(nursery, coordinator.join("h"))
        joining = Waiting(nursery, coordinator.join("g"))
        await wait_all_tasks_blocked()
        coordinator.registry.close()
    assert isinstance(joining.outcome, NotCoordinator)
    assert isinstance(syncing.outcome, NotCoordinator)
    with pytest.raises(NotCoordinator):
        await coordinator.join("new")
    with pytest.raises(NotCoordinator):
        coordinator.groups.heartbeat("g", first.member_id, 1)
    await trio.sleep(60)


class TestTools:
    async def test_describe_groups_of_a_stable_group(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        joined = await coordinator.stable()
        described = coordinator.groups.describe("g")
        assert (described.state, described.protocol_type, described.protocol_name) == (
            "Stable",
            "consumer",
            "range",
        )
        assert described.members == [
            DescribedMember(joined.member_id, None, "c", "/127.0.0.1", b"r", b"share")
        ]

    async def test_describe_groups_during_a_rebalance_omits_metadata(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        await coordinator.stable()
        async with trio.open_nursery() as nursery:
            Waiting(nursery, coordinator.join())
            await wait_all_tasks_blocked()
            described = coordinator.groups.describe("g")
            nursery.cancel_scope.cancel()
        assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
        assert [(member.metadata, member.assignment) for member in described.members] == [
            (b"", b"share"),
            (b"", b""),
        ]

    async def test_delete_groups_of_empty_groups_with_their_offsets(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        joined = await coordinator.stable("empty")
        await coordinator.groups.leave("empty", [LeavingMember(joined.member_id)])
        await coordinator.stable("full")
        coordinator.commit("empty")
        coordinator.log.batches.clear()
        outcomes = await coordinator.groups.delete(["empty", "full", "none", "empty"])
        assert [type(outcome) for outcome in outcomes] == [
            type(None),
            NonEmptyGroup,
            GroupIdNotFound,
            GroupIdNotFound,
        ]
        ((partition, records),) = coordinator.log.batches
        assert partition == partition_for("empty")
        assert [value for _, value in records] == [None, None]
        assert records[0] == OffsetChange("empty", ("t", 0), None).to_record()
        assert not coordinator.offsets.table(partition).has_offsets("empty")
        assert [group.group_id for group in coordinator.groups.list()] == ["full"]

    @pytest.mark.parametrize("count", [2 * OFFSETS_PER_BATCH, 2 * OFFSETS_PER_BATCH + 1])
    async def test_delete_groups_of_a_group_with_more_offsets_than_fit_into_a_batch(
        self,
        autojump_clock: MockClock,
        coordinator: GroupCoordinator,
        monkeypatch: pytest.MonkeyPatch,
        count: int,
    ) -> None:
        joined = await coordinator.stable("g")
        await coordinator.groups.leave("g", [LeavingMember(joined.member_id)])
        coordinator.commit("g", count)
        table = coordinator.offsets.table(partition_for("g"))
        partitions = Mock(wraps=table.partitions)
        monkeypatch.setattr(table, "partitions", partitions)
        coordinator.log.batches.clear()
        assert await coordinator.groups.delete(["g"]) == [None]
        batches = [records for _, records in coordinator.log.batches]
        assert max(map(len, batches)) <= OFFSETS_PER_BATCH + 1
        assert sum(map(len, batches)) == count + 1
        assert batches[-1][-1] == GenerationChange("g", None).to_record()
        assert (table.has_offsets("g"), coordinator.registry.find("g")) == (False, None)
        assert partitions.call_count == 2, "not one for each batch"

    async def test_delete_groups_that_cannot_be_written_changes_nothing(
        self, autojump_clock: MockClock, coordinator: GroupCoordinator
    ) -> None:
        joined = await coordinator.stable()
        await coordinator.groups.leave("g", [LeavingMember(joined.member_id)])
        coordinator.log.refusal = NotCoordinator("broken")
        (outcome,) = await coordinator.groups.delete(["g"])
        assert isinstance(outcome, NotCoordinator)
        assert [group.group_id for group in coordinator.groups.list()] == ["g"]
