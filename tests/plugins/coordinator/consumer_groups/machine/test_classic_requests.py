"""Members of the classic protocol in a consumer group: their requests, and when they are told to rejoin."""

from __future__ import annotations

import attrs
import pytest

from tests.plugins.coordinator.consumer_groups.driver import GROUP, SETTINGS, ConsumerGroupDriver, FakeTopics
from tests.tables import for_each
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
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.seams.coordination.groups import GroupProtocol, Joined, JoinRequest, SyncRequest
from tidelog.plugins.coordinator.consumer_groups.machine import classic_requests
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartitions,
    read_assignment,
)
from tidelog.plugins.schema import encode


def subscription(*topics: str, owned: list[int] | None = None) -> bytes:
    """A consumer's metadata, with what it owns of topic `t`."""
    owns = [TopicPartitions(topic="t", partitions=owned)] if owned else []
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=owns)
    return b"\0\1" + encode(message, 1)


JOIN = JoinRequest(
    GROUP, "old", "consumer", [GroupProtocol("range", subscription("t"))], 10_000, 60_000, client_id="c"
)


class ClassicMemberDriver(ConsumerGroupDriver):
    """A driver in which members of the classic protocol can be played too."""

    def classic_join(self, **rest: object) -> Joined:
        """Join, or join again; the fields are those of `JoinRequest`."""
        request = attrs.evolve(JOIN, **rest)  # type: ignore[arg-type]
        answer, draft = run_to_end(classic_requests.decide_join(self.group, request, self.context()))
        assert draft is not None
        self.carry_out(draft)
        return answer

    def sync(self, generation: int, **rest: object) -> list[int]:
        """The partitions of `t` that the member is given."""
        request = attrs.evolve(SyncRequest(GROUP, "old", generation), **rest)  # type: ignore[arg-type]
        _, answer = classic_requests.answer_sync(self.group, request, self.topics)
        if isinstance(answer, RebalanceInProgress):
            raise answer
        return [
            number
            for topic in read_assignment(answer.assignment).assigned_partitions
            for number in topic.partitions
        ]

    def check_settled(self) -> None:
        """What a heartbeat of the member would be told."""
        epoch = self.group.members["old"].current.epoch
        _, error = classic_requests.answer_heartbeat(self.group, "old", epoch, None)
        if error is not None:
            raise error


def test_join_group_of_a_classic_member_revokes_and_assigns_partitions() -> None:
    driver = ClassicMemberDriver(FakeTopics(t=2))
    assert driver.classic_join() == Joined("old", 1, "consumer", "range", leader="")
    assert driver.sync(1) == [0, 1]
    driver.check_settled()
    driver.join("new", "t")
    with pytest.raises(RebalanceInProgress):
        driver.check_settled()
    with pytest.raises(RebalanceInProgress):
        driver.sync(1)
    again = driver.classic_join(protocols=[GroupProtocol("range", subscription("t", owned=[0, 1]))])
    assert again.generation == 1
    (kept,) = driver.sync(1)
    with pytest.raises(RebalanceInProgress):
        driver.check_settled()
    freed = [GroupProtocol("range", subscription("t", owned=[kept]))]
    assert driver.classic_join(protocols=freed).generation == 2
    driver.check_settled()
    assert driver.owned(driver.heartbeat("new", 2)) == {"t": {0, 1} - {kept}}


def test_heartbeat_of_a_classic_member_reports_a_rebalance_when_its_partitions_are_free() -> None:
    driver = ClassicMemberDriver(FakeTopics(t=2))
    driver.join("new", "t")
    assert driver.classic_join().generation == 2
    assert driver.sync(2) == []
    driver.check_settled()
    (kept,) = driver.owned(driver.heartbeat("new", 1)).values()
    driver.heartbeat("new", 1, owned=driver.partitions(t=kept))
    with pytest.raises(RebalanceInProgress):
        driver.check_settled()
    assert driver.classic_join().generation == 2
    assert driver.sync(2) == sorted({0, 1} - kept)


def test_join_group_of_a_static_member_of_the_other_protocol_keeps_its_partitions() -> None:
    driver = ClassicMemberDriver(FakeTopics(t=2))
    driver.classic_join(member_id="", group_instance_id="i")
    epoch = driver.group.epoch
    answer = driver.join("new", "t", instance_id="i")
    assert (answer.member_epoch, driver.owned(answer)) == (epoch, {"t": {0, 1}})
    assert list(driver.group.members) == ["new"]
    assert not driver.group.members["new"].is_classic


ERRORS: list[tuple[str, type[BrokerError], dict[str, object]]] = [
    ("another protocol type", InconsistentGroupProtocol, {"protocol_type": "connect"}),
    ("no common protocol", InconsistentGroupProtocol, {"protocols": [GroupProtocol("x", subscription("t"))]}),
    ("malformed subscription", InconsistentGroupProtocol, {"protocols": [GroupProtocol("range", b"\0\1\7")]}),
    ("no protocols", InconsistentGroupProtocol, {"protocols": []}),
    ("member id required", MemberIdRequired, {"member_id": "", "knows_member_id_required": True}),
    ("unknown instance", UnknownMemberId, {"group_instance_id": "n"}),
    ("fenced instance", FencedInstanceId, {"group_instance_id": "i"}),
]


@for_each(("error", "rest"), [pytest.param(*case[1:], id=case[0]) for case in ERRORS])
def test_join_group_of_a_classic_member_errors(error: type[BrokerError], rest: dict[str, object]) -> None:
    driver = ClassicMemberDriver()
    driver.classic_join(member_id="other")
    driver.classic_join(member_id="", group_instance_id="i")
    driver.join("new", "t")
    request = {"member_id": "other"} | rest
    with pytest.raises(error):
        driver.classic_join(**request)


def test_join_group_of_a_classic_member_is_refused_by_a_full_group() -> None:
    driver = ClassicMemberDriver(settings=attrs.evolve(SETTINGS, max_size=1))
    driver.join("new", "t")
    with pytest.raises(GroupMaxSizeReached):
        driver.classic_join()


def test_join_group_of_a_classic_member_is_refused_by_a_policy_without_migration() -> None:
    driver = ClassicMemberDriver(settings=attrs.evolve(SETTINGS, upgrades=False, downgrades=False))
    driver.join("new", "t")
    with pytest.raises(InconsistentGroupProtocol, match="disabled"):
        driver.classic_join()


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
def test_sync_group_of_a_classic_member_errors(
    error: type[BrokerError], generation: int, rest: dict[str, object]
) -> None:
    driver = ClassicMemberDriver()
    driver.classic_join()
    driver.join("new", "t")
    with pytest.raises(error):
        driver.sync(generation, **rest)
