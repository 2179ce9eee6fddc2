"""Members of the classic protocol in a consumer group: their requests, and when they are told to rejoin."""

from __future__ import annotations

import attrs
import pytest

from tests.plugins.coordinator.consumer_groups.scene import GROUP, SETTINGS, FakeTopics, Scene
from tidelog.kernel.errors import (
    BrokerError,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import GroupProtocol, Joined, JoinRequest, SyncRequest
from tidelog.plugins.coordinator.consumer_groups import classic_members
from tidelog.plugins.coordinator.groups.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartitions,
    read_assignment,
)
from tidelog.plugins.protocol_kafka.codecs import encode


def subscription(*topics: str, owned: list[int] | None = None) -> bytes:
    """A consumer's metadata, with what it owns of topic `t`."""
    owns = [TopicPartitions(topic="t", partitions=owned)] if owned else []
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=owns)
    return b"\0\1" + encode(message, 1)


JOIN = JoinRequest(
    GROUP, "old", "consumer", [GroupProtocol("range", subscription("t"))], 10_000, 60_000, client_id="c"
)


class ClassicScene(Scene):
    """A scene in which members of the classic protocol can be played too."""

    def classic_join(self, **rest: object) -> Joined:
        """Join, or join again; the fields are those of `JoinRequest`."""
        request = attrs.evolve(JOIN, **rest)  # type: ignore[arg-type]
        answer, draft = classic_members.join(self.group, request, self.context())
        self.carry_out(draft)
        return answer

    def sync(self, generation: int, **rest: object) -> list[int]:
        """The partitions of `t` that the member is given."""
        request = attrs.evolve(SyncRequest(GROUP, "old", generation), **rest)  # type: ignore[arg-type]
        answer = classic_members.sync(self.group, request, self.topics)
        return [
            number
            for topic in read_assignment(answer.assignment).assigned_partitions
            for number in topic.partitions
        ]

    def check_settled(self) -> None:
        """What a heartbeat of the member would be told."""
        classic_members.check_settled(self.group, self.group.members["old"])


def test_a_classic_member_gives_up_and_gets_by_joining_again() -> None:
    scene = ClassicScene(FakeTopics(t=2))
    assert scene.classic_join() == Joined("old", 1, "consumer", "range", leader="")
    assert scene.sync(1) == [0, 1]
    scene.check_settled()
    scene.join("new", "t")
    with pytest.raises(RebalanceInProgress):
        scene.check_settled()
    with pytest.raises(RebalanceInProgress):
        scene.sync(1)
    again = scene.classic_join(protocols=[GroupProtocol("range", subscription("t", owned=[0, 1]))])
    assert again.generation == 1
    (kept,) = scene.sync(1)
    with pytest.raises(RebalanceInProgress):
        scene.check_settled()
    freed = [GroupProtocol("range", subscription("t", owned=[kept]))]
    assert scene.classic_join(protocols=freed).generation == 2
    scene.check_settled()
    assert scene.owned(scene.heartbeat("new", 2)) == {"t": {0, 1} - {kept}}


def test_a_classic_member_is_told_to_rejoin_when_what_it_waits_for_is_free() -> None:
    scene = ClassicScene(FakeTopics(t=2))
    scene.join("new", "t")
    assert scene.classic_join().generation == 2
    assert scene.sync(2) == []
    scene.check_settled()
    (kept,) = scene.owned(scene.heartbeat("new", 1)).values()
    scene.heartbeat("new", 1, owned=scene.partitions(t=kept))
    with pytest.raises(RebalanceInProgress):
        scene.check_settled()
    assert scene.classic_join().generation == 2
    assert scene.sync(2) == sorted({0, 1} - kept)


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions() -> None:
    scene = ClassicScene(FakeTopics(t=2))
    scene.classic_join(member_id="", group_instance_id="i")
    epoch = scene.group.epoch
    answer = scene.join("new", "t", instance_id="i")
    assert (answer.member_epoch, scene.owned(answer)) == (epoch, {"t": {0, 1}})
    assert list(scene.group.members) == ["new"]
    assert not scene.group.members["new"].is_classic


ERRORS: list[tuple[str, type[BrokerError], dict[str, object]]] = [
    ("another protocol type", InconsistentGroupProtocol, {"protocol_type": "connect"}),
    ("no common protocol", InconsistentGroupProtocol, {"protocols": [GroupProtocol("x", subscription("t"))]}),
    ("malformed subscription", InconsistentGroupProtocol, {"protocols": [GroupProtocol("range", b"\0\1\7")]}),
    ("no protocols", InconsistentGroupProtocol, {"protocols": []}),
    ("member id required", MemberIdRequired, {"member_id": "", "knows_member_id_required": True}),
    ("unknown instance", UnknownMemberId, {"group_instance_id": "n"}),
    ("fenced instance", FencedInstanceId, {"group_instance_id": "i"}),
]


@pytest.mark.parametrize(("error", "rest"), [pytest.param(*case[1:], id=case[0]) for case in ERRORS])
def test_joins_that_are_refused(error: type[BrokerError], rest: dict[str, object]) -> None:
    scene = ClassicScene()
    scene.classic_join(member_id="other")
    scene.classic_join(member_id="", group_instance_id="i")
    scene.join("new", "t")
    request = {"member_id": "other"} | rest
    with pytest.raises(error):
        scene.classic_join(**request)


def test_a_full_group_takes_no_classic_member() -> None:
    scene = ClassicScene(settings=attrs.evolve(SETTINGS, max_size=1))
    scene.join("new", "t")
    with pytest.raises(GroupMaxSizeReached):
        scene.classic_join()


def test_a_policy_without_migration_keeps_classic_members_out() -> None:
    scene = ClassicScene(settings=attrs.evolve(SETTINGS, upgrades=False, downgrades=False))
    scene.join("new", "t")
    with pytest.raises(InconsistentGroupProtocol, match="disabled"):
        scene.classic_join()


@pytest.mark.parametrize(
    ("error", "generation", "rest"),
    [
        pytest.param(IllegalGeneration, 5, {}, id="generation"),
        pytest.param(UnknownMemberId, 1, {"member_id": "nobody"}, id="member"),
        pytest.param(UnknownMemberId, 1, {"member_id": "new"}, id="a member of the consumer protocol"),
        pytest.param(InconsistentGroupProtocol, 1, {"protocol_type": "connect"}, id="protocol type"),
        pytest.param(InconsistentGroupProtocol, 1, {"protocol_name": "sticky"}, id="protocol name"),
    ],
)
def test_syncs_that_are_refused(error: type[BrokerError], generation: int, rest: dict[str, object]) -> None:
    scene = ClassicScene()
    scene.classic_join()
    scene.join("new", "t")
    with pytest.raises(error):
        scene.sync(generation, **rest)
