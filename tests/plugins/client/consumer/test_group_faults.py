"""A consumer in a group whose coordinator forgets, moves and refuses, with a fake clock."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest

from tests.plugins.client.consumer.fake_groups import FakeClassicGroup, FakeConsumerGroup
from tests.plugins.client.consumer.group_world import Member, World, world_of
from tests.tables import for_each
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.consumer_membership import TargetAssignment
from tidelog.plugins.client.errors import ErrorResponse, UnsupportedGroupProtocol
from tidelog.plugins.protocol_kafka.messages.api import CONSUMER_GROUP_HEARTBEAT
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatTopicPartitions,
)
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import read_subscription
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

PROTOCOLS = ("classic", "consumer")


def poll_until_quiet(world: World, *members: Member, commits: bool = True, rounds: int = 60) -> None:
    """Poll all members each half second."""
    for _ in range(rounds):
        for member in members:
            member.poll(commits=commits)
        world.pass_time(0.5)


@for_each("protocol", PROTOCOLS)
def test_one_member_reads_everything_once(protocol: str) -> None:
    with world_of(protocol) as world:
        for partition in range(4):
            world.append(partition, 12)
        member = world.join()
        poll_until_quiet(world, member)
        assert sorted(member.delivered) == [(part, offset) for part in range(4) for offset in range(12)]
        assert world.committed == dict.fromkeys(range(4), 12)
        assert member.calls == [("assigned", [0, 1, 2, 3])]
        member.close()
        assert not world.group.members


@for_each(
    ("protocol", "is_automatic"), [(protocol, each) for protocol in PROTOCOLS for each in (True, False)]
)
def test_a_group_that_the_coordinator_has_forgotten_is_joined_again(
    protocol: str, is_automatic: bool
) -> None:
    """As after a start with an older copy of the data directory."""
    with world_of(protocol) as world:
        member = world.join(enable_auto_commit=is_automatic, auto_commit_interval_ms=1000)
        for partition in range(4):
            world.append(partition, 6)
        poll_until_quiet(world, member, commits=not is_automatic)
        older = dict.fromkeys(range(4), 3)
        world.forget_group(older)
        for partition in range(4):
            world.append(partition, 1)
        poll_until_quiet(world, member, commits=not is_automatic)
        assert [kind for kind, _ in member.calls] == ["assigned", "lost", "assigned"]
        assert member.owned == set(range(4))
        assert world.committed == dict.fromkeys(range(4), 7)
        assert set(member.delivered) == {(part, offset) for part in range(4) for offset in range(7)}
        # Only the user's own commit is the user's business.
        assert all(not is_automatic for _ in member.failures)


@for_each("protocol", PROTOCOLS)
def test_an_automatic_commit_that_fails_is_logged_and_made_again(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    with world_of(protocol) as world:
        member = world.join(enable_auto_commit=True, auto_commit_interval_ms=1000)
        world.append(0, 5)
        world.commit_errors.append(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        poll_until_quiet(world, member, commits=False, rounds=20)
        assert member.failures == []
        assert world.committed[0] == 5
        assert member.calls == [("assigned", [0, 1, 2, 3])]
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("an automatic commit of group 'g' failed: orders-")
    assert "GROUP_AUTHORIZATION_FAILED" in message


@for_each("protocol", PROTOCOLS)
def test_commits_are_refused_after_the_membership_was_lost(protocol: str) -> None:
    with world_of(protocol) as world:
        late = world.join(max_poll_interval_ms=60_000)
        world.append(0, 10)
        poll_until_quiet(world, late, commits=False)
        assert len(late.delivered) == 10
        world.pass_time(70)
        # It was silent, so that another one has gone on, which has left.
        other = world.join()
        poll_until_quiet(world, other)
        world.append(0, 5)
        poll_until_quiet(world, other)
        other.close()
        assert world.committed[0] == 15
        late.commit()
        assert world.committed[0] == 15
        assert isinstance(late.failures[-1], ErrorResponse)


def test_a_commit_does_not_wait_for_members_that_have_to_join() -> None:
    with world_of("classic") as world:
        members = [
            world.join(partition_assignment_strategy="cooperative-sticky", max_poll_interval_ms=100_000)
            for _ in range(2)
        ]
        world.append(0, 4)
        poll_until_quiet(world, *members, commits=False)
        (reader,) = [each for each in members if 0 in each.owned]
        world.join(partition_assignment_strategy="cooperative-sticky")
        world.pass_time(4)
        # It joins again, and waits for the other one, which does not poll.
        reader.poll()
        world.pass_time(1)
        before = world.now
        reader.commit()
        assert world.now - before < 1
        assert world.committed[0] == 4
        # Nor are its other connections cut for it: it goes on to read.
        world.append(0, 4)
        world.pass_time(40)
        assert len(reader.poll()) == 4
        assert world.asked.count("JoinGroup") < 12


def test_the_heartbeat_interval_is_that_of_the_coordinator() -> None:
    with world_of("consumer") as world:
        member = world.join()
        poll_until_quiet(world, member, rounds=10)
        start = len(world.beats)
        assert isinstance(world.group, FakeConsumerGroup)
        world.group.interval_ms = 700
        world.pass_time(15)
        times = [when for when, _ in world.beats[start:]]
        gaps = [round(after - before, 3) for before, after in pairwise(times[1:])]
        assert set(gaps) == {0.7}
        # Nothing has changed: they have nothing but the member's epoch.
        _, last = world.beats[-1]
        assert (last.subscribed_topic_names, last.topic_partitions, last.server_assignor) == (None,) * 3
        assert (last.rebalance_timeout_ms, last.member_epoch) == (-1, 1)


def test_what_is_given_up_is_committed_and_reported_at_once() -> None:
    with world_of("consumer") as world:
        first = world.join(enable_auto_commit=True, group_remote_assignor="uniform", client_rack="r1")
        world.append(2, 3)
        poll_until_quiet(world, first, rounds=6)
        joined = world.beats[0][1]
        assert (joined.member_epoch, joined.rack_id, joined.server_assignor) == (0, "r1", "uniform")
        assert (joined.subscribed_topic_names, joined.rebalance_timeout_ms) == (["orders"], 300_000)
        second = world.join()
        world.pass_time(6)
        before = world.now
        first.poll()
        first.driver.settle()
        assert first.calls[-1] == ("revoked", [2, 3])
        assert world.committed[2] == 3
        _, reported = next(each for each in reversed(world.beats) if each[1].topic_partitions)
        assert reported.topic_partitions is not None
        assert [each.partitions for each in reported.topic_partitions] == [[0, 1]]
        assert world.now - before < 0.2
        poll_until_quiet(world, first, second, rounds=15)
        assert second.owned == {2, 3}
        assert first.calls == [("assigned", [0, 1, 2, 3]), ("revoked", [2, 3])]


@for_each("code", (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))
def test_a_fenced_member_gives_up_its_partitions_and_joins_again(code: ErrorCode) -> None:
    with world_of("consumer") as world:
        member = world.join()
        poll_until_quiet(world, member, rounds=6)
        world.beat_errors.append(code)
        poll_until_quiet(world, member, rounds=20)
        assert [kind for kind, _ in member.calls] == ["assigned", "lost", "assigned"]
        assert member.failures == []
        (again,) = [each for _, each in world.beats[2:] if each.member_epoch == 0]
        assert again.member_id == world.beats[0][1].member_id


def test_an_instance_id_that_is_not_released_is_raised_and_tried_again() -> None:
    with world_of("consumer") as world:
        world.beat_errors.append(ErrorCode.UNRELEASED_INSTANCE_ID)
        member = world.join(group_instance_id="i1")
        poll_until_quiet(world, member, rounds=20)
        (failure,) = member.failures
        assert isinstance(failure, ErrorResponse)
        assert failure.code is ErrorCode.UNRELEASED_INSTANCE_ID
        assert member.owned == {0, 1, 2, 3}
        member.close()
        # Its partitions wait for it.
        assert (world.beats[-1][1].member_epoch, world.beats[-1][1].instance_id) == (-2, "i1")


def test_a_commit_with_a_stale_epoch_is_made_again_with_the_new_one() -> None:
    with world_of("consumer") as world:
        member = world.join()
        world.append(0, 3)
        poll_until_quiet(world, member, commits=False, rounds=6)
        world.commit_errors.append(ErrorCode.STALE_MEMBER_EPOCH)
        member.commit()
        assert member.failures == []
        assert world.committed[0] == 3
        # But not as another member than before.
        world.append(0, 1)
        member.poll()
        world.commit_errors.extend([ErrorCode.STALE_MEMBER_EPOCH] * 3)
        world.beat_errors.append(ErrorCode.FENCED_MEMBER_EPOCH)
        world.pass_time(4.8)
        member.commit()
        assert [getattr(each, "code", None) for each in member.failures] in (
            [ErrorCode.STALE_MEMBER_EPOCH],
            [ErrorCode.UNKNOWN_MEMBER_ID],
            [],
        )


@for_each("is_served", (True, False))
def test_a_broker_without_the_protocol_is_named(is_served: bool) -> None:
    with world_of("consumer") as world:
        if is_served:
            world.beat_errors.append(ErrorCode.UNSUPPORTED_VERSION)
        else:
            del world.versions[CONSUMER_GROUP_HEARTBEAT.key]
        member = world.join()
        member.poll()
        world.pass_time(1)
        member.poll()
        assert isinstance(member.failures[0], UnsupportedGroupProtocol)
        assert "does not serve group_protocol='consumer', use 'classic' instead" in str(member.failures[0])


def test_patterns_are_matched_by_the_coordinator_or_here() -> None:
    with world_of("consumer") as world:
        member = world.join(pattern="ord.*")
        poll_until_quiet(world, member, rounds=6)
        assert world.beats[0][1].subscribed_topic_regex == "ord.*"
        assert member.owned == {0, 1, 2, 3}
        assert member.core.group.topics() == {"orders"}
    for is_old in (True, False):
        with world_of("consumer") as world:
            if is_old:
                world.versions[CONSUMER_GROUP_HEARTBEAT.key] = (0, 0)
            else:
                world.beat_errors.append(ErrorCode.INVALID_REGULAR_EXPRESSION)
            member = world.join(pattern="(?!x)ord.*")
            poll_until_quiet(world, member, rounds=6)
            assert world.beats[-1][1].subscribed_topic_regex in (None, "")
            assert member.owned == {0, 1, 2, 3}
            assert member.failures == []


def test_partitions_of_a_topic_that_was_created_again_are_others() -> None:
    with world_of("consumer") as world:
        member = world.join()
        poll_until_quiet(world, member, rounds=6)
        assert isinstance(world.group, FakeConsumerGroup)
        world.topic_id = world.group.topic_id = bytes(range(1, 17))
        for each in world.group.members.values():
            each.sent = None
        poll_until_quiet(world, member, rounds=30)
        assert [kind for kind, _ in member.calls] == ["assigned", "revoked", "assigned"]
        reported = [each.topic_partitions for _, each in world.beats if each.topic_partitions]
        assert [each[0].topic_id for each in reported] == [bytes(range(16)), world.topic_id]


def test_a_topic_with_the_same_name_and_another_id_is_not_the_one_that_is_owned() -> None:
    place = TopicPartition("orders", 0)
    old, new = UUID(int=1), UUID(int=2)
    target = TargetAssignment()
    for topic_id in (old, new):
        target.replace([ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id.bytes, partitions=[0])])
        assert target.unnamed == {topic_id}
        target.name({topic_id: "orders"})
        assert target.removed([place]) == {place}
        target.taken([place])
        assert target.removed([place]) == frozenset()
        (reported,) = target.as_owned([place])
        assert reported.topic_id == topic_id.bytes


def test_everything_is_reported_again_after_a_heartbeat_without_an_answer() -> None:
    with world_of("consumer") as world:
        member = world.join()
        poll_until_quiet(world, member, rounds=6)
        world.beat_errors.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        poll_until_quiet(world, member, rounds=12)
        (full,) = [each for _, each in world.beats[1:] if each.subscribed_topic_names is not None]
        assert full.topic_partitions is not None
        assert full.topic_partitions[0].partitions == [0, 1, 2, 3]
        assert full.member_epoch == 1
        assert member.calls == [("assigned", [0, 1, 2, 3])]


@for_each("protocol", PROTOCOLS)
def test_an_automatic_commit_is_not_repeated_after_a_later_one(protocol: str) -> None:
    with world_of(protocol) as world:
        member = world.join(enable_auto_commit=True, auto_commit_interval_ms=1000)
        poll_until_quiet(world, member, commits=False, rounds=6)
        world.append(0, 5)
        world.pass_time(1)
        assert len(member.poll()) == 5
        world.append(0, 5)
        world.pass_time(2)
        world.commit_errors.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        # The poll begins with an automatic commit of 5, which is refused, and ends with one of 10.
        assert len(member.poll(commits=True)) == 5
        assert world.committed[0] == 10
        # The world refuses one that goes back.
        poll_until_quiet(world, member, commits=False, rounds=6)
        assert world.committed[0] == 10


def test_the_rack_of_a_member_is_in_its_metadata() -> None:
    with world_of("classic") as world:
        member = world.join(client_rack="r7")
        poll_until_quiet(world, member, rounds=4)
        assert isinstance(world.group, FakeClassicGroup)
        (joined,) = world.group.members.values()
        assert {read_subscription(metadata).rack_id for _, metadata in joined.protocols} == {"r7"}


@for_each("strategy", ("range", "sticky", "cooperative-sticky"))
def test_members_get_partitions_with_a_replica_in_their_rack_also_after_those_have_moved(
    strategy: str,
) -> None:
    with world_of("classic") as world:
        world.replicas = [[2], [2], [1], [1]]
        options = {"partition_assignment_strategy": strategy, "metadata_max_age_ms": 2000}
        one = world.join(client_rack="r1", **options)
        other = world.join(client_rack="r2", **options)
        poll_until_quiet(world, one, other)
        assert (one.owned, other.owned) == ({2, 3}, {0, 1})
        world.replicas = [[1], [1], [2], [2]]
        poll_until_quiet(world, one, other)
        assert (one.owned, other.owned) == ({0, 1}, {2, 3})


@for_each(("options", "leaves"), [({}, 1), ({"group_instance_id": "i1"}, 0)])
def test_a_static_member_that_does_not_poll_stays_until_its_session_ends(
    options: dict[str, str], leaves: int
) -> None:
    with world_of("classic") as world:
        member = world.join(max_poll_interval_ms=10_000, **options)
        poll_until_quiet(world, member, rounds=6)
        world.pass_time(20)
        assert world.asked.count("LeaveGroup") == leaves
        poll_until_quiet(world, member, rounds=200)
        assert [kind for kind, _ in member.calls] == ["assigned", "lost", "assigned"]
