"""Who may commit and fetch offsets of a consumer group, and with which epoch."""

from __future__ import annotations

import pytest

from tests.plugins.coordinator.consumer_groups.driver import GROUP, ConsumerGroupDriver, FakeTopics
from tidelog.kernel.errors import BrokerError, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch, OffsetToCommit
from tidelog.plugins.coordinator.consumer_groups.checks import check_commit, check_fetch


@pytest.fixture
def driver() -> ConsumerGroupDriver:
    """Member `a` is in epoch 3: it has had partition 0 of `t` since epoch 1, that of `u` since epoch 3."""
    driver = ConsumerGroupDriver(FakeTopics(t=1))
    driver.join("a", "t", "u")
    driver.join("idle", "x")
    driver.topics.put("u", 1)
    driver.heartbeat("a", 1)
    return driver


COMMITS = [
    pytest.param(None, "a", 3, {"t": 0, "u": 0}, True, id="the member's epoch"),
    pytest.param(None, "a", 1, {"t": 0}, True, id="an older epoch, of a partition that it had all along"),
    pytest.param(StaleMemberEpoch, "a", 1, {"t": 0, "u": 0}, True, id="older than the assignment"),
    pytest.param(StaleMemberEpoch, "a", 1, {"v": 0}, True, id="an older epoch, of a topic that is not there"),
    pytest.param(StaleMemberEpoch, "a", 4, {"t": 0}, True, id="an epoch to come"),
    pytest.param(UnknownMemberId, "b", 3, {"t": 0}, True, id="nobody"),
    pytest.param(UnknownMemberId, "", -1, {"t": 0}, True, id="no member while there are members"),
    pytest.param(UnsupportedVersion, "a", 3, {"t": 0}, False, id="a version that knows no epochs"),
]


@pytest.mark.parametrize(("error", "member_id", "epoch", "partitions", "knows_epochs"), COMMITS)
def test_check_commit_by_member_and_epoch(
    error: type[BrokerError] | None,
    member_id: str,
    epoch: int,
    partitions: dict[str, int],
    knows_epochs: bool,
    driver: ConsumerGroupDriver,
) -> None:
    assert driver.group.members["a"].current.epoch == 3
    offsets = [OffsetToCommit(topic, partition, 1) for topic, partition in partitions.items()]
    commit = OffsetCommit(GROUP, offsets, epoch, member_id, knows_epochs=knows_epochs)
    if error is None:
        check_commit(driver.group, commit, driver.topics)
    else:
        with pytest.raises(error):
            check_commit(driver.group, commit, driver.topics)


def test_check_commit_allows_any_client_while_the_group_is_empty(driver: ConsumerGroupDriver) -> None:
    driver.heartbeat("a", -1)
    driver.heartbeat("idle", -1)
    check_commit(driver.group, OffsetCommit(GROUP, []), driver.topics)


def test_check_commit_allows_transactional_commits_without_a_member_id(driver: ConsumerGroupDriver) -> None:
    offsets = [OffsetToCommit("t", 0, 1)]
    check_commit(driver.group, OffsetCommit(GROUP, offsets, is_transactional=True), driver.topics)
    with pytest.raises(StaleMemberEpoch):
        check_commit(driver.group, OffsetCommit(GROUP, offsets, 4, "a", is_transactional=True), driver.topics)


@pytest.mark.parametrize(
    ("error", "member_id", "epoch"),
    [
        pytest.param(None, None, -1, id="a tool"),
        pytest.param(None, "a", 3, id="a member"),
        pytest.param(StaleMemberEpoch, "a", 1, id="an older epoch"),
        pytest.param(UnknownMemberId, "b", 3, id="nobody"),
    ],
)
def test_check_fetch_by_member_and_epoch(
    error: type[BrokerError] | None, member_id: str | None, epoch: int, driver: ConsumerGroupDriver
) -> None:
    fetch = OffsetFetch(GROUP, None, member_id=member_id, member_epoch=epoch)
    if error is None:
        check_fetch(driver.group, fetch)
    else:
        with pytest.raises(error):
            check_fetch(driver.group, fetch)
