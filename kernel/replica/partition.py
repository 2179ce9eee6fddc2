"""A partition as this broker sees it: who leads it, in which epoch, and the log of this broker's replica.

Source: Apache Kafka's `Partition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel.errors import FencedLeaderEpoch, NotLeaderOrFollower, UnknownLeaderEpoch
from tidelog.kernel.metadata import NO_LEADER
from tidelog.kernel.seams.partition import NO_LEADER_EPOCH

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog


class Leadership(NamedTuple):
    """The id of the broker that leads a partition (`NO_LEADER`: none does), the epoch, and who is in sync."""

    leader_id: int
    epoch: int
    isr: Sequence[int] = ()


class Partition:
    """One replica, led by this broker until `begin` or `make_follower` say otherwise.

    Attributes:
        log: of the replica
        topic_partition: its name
        leader_id: the id of the broker that leads it, `NO_LEADER` if none does
        isr: the ids of the replicas that are in sync with the leader
    """

    __slots__ = ("_node_id", "isr", "leader_id", "log", "topic_partition")

    def __init__(self, log: UnifiedLog, node_id: int) -> None:
        """`node_id` is the id of this broker."""
        self.log = log
        self.topic_partition = log.topic_partition
        self.leader_id = self._node_id = node_id
        self.isr: Sequence[int] = (node_id,)

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads it."""
        return self.leader_id == self._node_id

    @property
    def leader_epoch(self) -> int:
        """The epoch in which it is led."""
        return self.log.leader_epoch

    @property
    def leadership(self) -> Leadership:
        """Who leads it."""
        return Leadership(self.leader_id, self.log.leader_epoch, self.isr)

    def begin(self, leader_id: int, epoch: int, isr: Sequence[int]) -> None:
        """Let it be led by that broker from the beginning, before its log is loaded or requests find it.

        A log of this broker's own has nothing to take over then. How another one's is loaded depends on that.
        """
        if leader_id == self._node_id:
            self.isr, self.log.leader_epoch = isr, epoch
        else:
            self.make_follower(leader_id, epoch, isr)

    def make_leader(self, epoch: int, isr: Sequence[int] = ()) -> bool:
        """Lead it from now on; return False, and change nothing, if it does already or `epoch` is old.

        `isr` has the replicas that are in sync, this one alone by default.
        """
        if not self._take_over(self._node_id, epoch, isr or (self._node_id,)):
            return False
        self.log.lead(epoch)
        return True

    def make_follower(self, leader_id: int, epoch: int, isr: Sequence[int] = ()) -> bool:
        """Follow another broker, or none that leads; return False, and change nothing, as `make_leader`.

        Producers that wait for a flush and fetches that wait for records are answered: they have to ask the
        new leader.
        """
        if not self._take_over(leader_id, epoch, isr):
            return False
        leader = "no broker" if leader_id == NO_LEADER else f"broker {leader_id}"
        self.log.follow(epoch, NotLeaderOrFollower(f"{leader} leads {self.topic_partition}"))
        return True

    def _take_over(self, leader_id: int, epoch: int, isr: Sequence[int]) -> bool:
        # Changes of leadership may arrive late: one that was overtaken must not bring the old leader back.
        if epoch < self.log.leader_epoch:
            return False
        # Also where leader and epoch are as before: who is in sync changes within an epoch.
        self.isr = isr
        if (leader_id, epoch) == (self.leader_id, self.log.leader_epoch):
            return False
        self.leader_id = leader_id
        return True

    def check(self, current_epoch: int, *, leader_only: bool) -> None:
        """Check that a request may use the log; `current_epoch` is the leader epoch that its client knows.

        The epoch comes first, as in Kafka: a client that is behind gets to know that.

        Raises:
            StorageError, UnknownTopicOrPartition: the log is offline, or the partition was deleted.
            FencedLeaderEpoch: the client's epoch is older.
            UnknownLeaderEpoch: the client's epoch is newer.
            NotLeaderOrFollower: another broker leads, and the request is only for the leader.
        """
        log = self.log
        log.availability.check()
        if current_epoch not in (NO_LEADER_EPOCH, log.leader_epoch):
            described = (
                f"{self.topic_partition} has leader epoch {log.leader_epoch}, the client says {current_epoch}"
            )
            is_old = current_epoch < log.leader_epoch
            raise FencedLeaderEpoch(described) if is_old else UnknownLeaderEpoch(described)
        if leader_only:
            log.availability.check_leads()
