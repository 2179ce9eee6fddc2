"""Partition: leadership by epoch, and what a request needs of it."""

from __future__ import annotations

import pytest

from tests.kernel.log.parts import batch_of, open_partition
from tidelog.kernel.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    StorageError,
    UnknownLeaderEpoch,
)
from tidelog.kernel.replica import Partition

US, OTHER = 1, 2


def new_partition(leader_epoch: int = 5) -> Partition:
    return Partition(open_partition(leader_epoch=leader_epoch), US)


@pytest.mark.parametrize("epoch", [-1, 5])
@pytest.mark.parametrize("leader_only", [True, False])
def test_check_of_a_leader_with_an_epoch_that_is_right_or_not_given(epoch: int, leader_only: bool) -> None:
    new_partition().check(epoch, leader_only=leader_only)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(4, FencedLeaderEpoch), (0, FencedLeaderEpoch), (6, UnknownLeaderEpoch), (-2, FencedLeaderEpoch)],
)
@pytest.mark.parametrize("leads", [True, False])
def test_check_with_a_wrong_epoch_comes_before_who_leads(
    epoch: int, error: type[Exception], leads: bool
) -> None:
    partition = new_partition(4)
    assert partition.make_leader(5) if leads else partition.make_follower(OTHER, 5)
    with pytest.raises(error, match=f"leader epoch 5, the client says {epoch}"):
        partition.check(epoch, leader_only=True)


@pytest.mark.parametrize(("leader_id", "leader"), [(OTHER, f"broker {OTHER}"), (-1, "no broker")])
def test_check_of_a_follower_is_only_refused_to_what_needs_the_leader(leader_id: int, leader: str) -> None:
    partition = new_partition()
    assert partition.make_follower(leader_id, 6)
    partition.check(6, leader_only=False)
    with pytest.raises(NotLeaderOrFollower, match=f"{leader} leads flights-3"):
        partition.check(6, leader_only=True)


def test_check_of_an_offline_partition_says_why_with_any_leader() -> None:
    partition = new_partition()
    partition.log.take_offline(StorageError("the disk is gone"))
    assert partition.make_follower(OTHER, 6)
    assert partition.make_leader(7)
    for leader_only in (True, False):
        with pytest.raises(StorageError, match="the disk is gone"):
            partition.check(7, leader_only=leader_only)
    with pytest.raises(StorageError, match="the disk is gone"):
        partition.log.append_nowait(batch_of(1))


def test_make_follower_and_make_leader_with_an_older_epoch_change_nothing() -> None:
    partition = new_partition()
    assert not partition.make_follower(OTHER, 4)
    assert (partition.is_leader, partition.leader_epoch) == (True, 5)
    assert partition.make_follower(OTHER, 6)
    assert not partition.make_leader(5)
    assert (partition.is_leader, partition.leader_id, partition.leader_epoch) == (False, OTHER, 6)


def test_make_leader_of_what_it_leads_in_that_epoch_changes_only_the_replicas_in_sync() -> None:
    partition = new_partition()
    assert not partition.make_leader(5, (US, OTHER))
    assert (partition.is_leader, partition.isr) == (True, (US, OTHER))


def test_make_leader_commits_what_was_appended_as_follower_and_stamps_its_epoch() -> None:
    partition = new_partition()
    log = partition.log
    assert partition.make_follower(OTHER, 6)
    log.append_as_follower(batch_of(3))
    assert log.high_watermark == 0
    assert partition.make_leader(7)
    assert log.high_watermark == 3
    log.append_nowait(batch_of(1))
    assert log.epochs.entries() == [(0, 0), (7, 3)]
