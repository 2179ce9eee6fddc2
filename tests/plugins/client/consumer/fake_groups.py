"""Groups of both protocols as a coordinator has them, in memory: requests in, answers out, now or later.

They check what a broker does not: that a commit is that of the partition's owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import read_assignment
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from tidelog.plugins.protocol_kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Reply = Callable[[Any], None]
TOPIC = "orders"
TOPIC_ID = bytes(range(16))


@attrs.define(eq=False)
class _ClassicMember:
    member_id: str
    session_s: float
    rebalance_s: float
    protocols: list[tuple[str, bytes]]
    heard_at: float
    join: Reply | None = None
    sync: Reply | None = None
    assigned: set[int] = attrs.field(factory=set[int])
    assignment: bytes = b""


class FakeClassicGroup:
    """A classic group: `PREPARING` until all have joined, `COMPLETING` until its leader has synced."""

    def __init__(self, numbers: Iterator[int]) -> None:
        """Set the numbers of member ids, of which no one is used twice."""
        self.members: dict[str, _ClassicMember] = {}
        self.generation = 0
        self.state = "EMPTY"
        self.leader = ""
        self.protocol = ""
        self._named: set[str] = set()
        self._numbers = numbers
        self._deadline = 0.0

    def due(self) -> float | None:
        """When `expire` has something to do."""
        times = [each.heard_at + each.session_s for each in self.members.values() if each.join is None]
        if self.state == "PREPARING":
            times.append(self._deadline)
        return min(times, default=None)

    def expire(self, now: float) -> None:
        for each in list(self.members.values()):
            is_late = each.join is None and now >= each.heard_at + each.session_s
            if is_late or (self.state == "PREPARING" and each.join is None and now >= self._deadline):
                self._remove(each, now)
        self._complete_join(now)

    def join(self, request: JoinGroupRequest, reply: Reply, now: float) -> None:
        member_id = request.member_id
        if not member_id:
            member_id = f"m{next(self._numbers):03}"
            self._named.add(member_id)
            reply(join_answer(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        if member_id not in self.members and member_id not in self._named:
            reply(join_answer(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            return
        self._named.discard(member_id)
        protocols = [(each.name, bytes(each.metadata)) for each in request.protocols]
        old = self.members.get(member_id)
        if old is not None and old.join is not None:
            old.join(join_answer(ErrorCode.UNKNOWN_SERVER_ERROR, member_id))
        self.members[member_id] = _ClassicMember(
            member_id,
            request.session_timeout_ms / 1000,
            request.rebalance_timeout_ms / 1000,
            protocols,
            now,
            reply,
            assigned=old.assigned if old else set[int](),
        )
        self._prepare(now)
        self._complete_join(now)

    def sync(self, request: SyncGroupRequest, reply: Reply, now: float) -> None:
        code = self._check(request.member_id, request.generation_id)
        if code is ErrorCode.NONE and self.state == "PREPARING":
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code:
            reply(SyncGroupResponse(error_code=code, assignment=b""))
            return
        member = self.members[request.member_id]
        member.heard_at = now
        if self.state == "STABLE":
            reply(SyncGroupResponse(error_code=0, assignment=member.assignment))
            return
        member.sync = reply
        if request.member_id == self.leader:
            self._assign({each.member_id: bytes(each.assignment) for each in request.assignments})

    def heartbeat(self, member_id: str, generation: int, now: float) -> ErrorCode:
        code = self._check(member_id, generation)
        if code is ErrorCode.NONE:
            self.members[member_id].heard_at = now
            if self.state == "PREPARING":
                code = ErrorCode.REBALANCE_IN_PROGRESS
        return code

    def leave(self, member_id: str, now: float) -> ErrorCode:
        # One that was only named may not join any more.
        self._named.discard(member_id)
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._remove(member, now)
        self._complete_join(now)
        return ErrorCode.NONE

    def check_commit(self, member_id: str, generation: int, partitions: Iterable[int]) -> ErrorCode:
        if not self.members and generation < 0:
            return ErrorCode.NONE
        code = self._check(member_id, generation)
        if code is ErrorCode.NONE and self.state == "COMPLETING":
            return ErrorCode.REBALANCE_IN_PROGRESS
        if code is ErrorCode.NONE and self.state == "STABLE":
            others = [each.assigned for each in self.members.values() if each.member_id != member_id]
            assert not set(partitions) & set().union(*others), "committed by another than the owner"
        return code

    def check_fetch(self, _member_id: str | None, _epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def drop_requests(self, code: ErrorCode) -> None:
        """Answer what waits with an error: the coordinator moves."""
        for each in self.members.values():
            join, sync, each.join, each.sync = each.join, each.sync, None, None
            if join is not None:
                join(join_answer(code, each.member_id))
            if sync is not None:
                sync(SyncGroupResponse(error_code=code, assignment=b""))

    def _check(self, member_id: str, generation: int) -> ErrorCode:
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def _remove(self, member: _ClassicMember, now: float) -> None:
        del self.members[member.member_id]
        for reply in (member.join, member.sync):
            if reply is not None:
                is_join = reply is member.join
                code = ErrorCode.UNKNOWN_MEMBER_ID
                reply(
                    join_answer(code, "") if is_join else SyncGroupResponse(error_code=code, assignment=b"")
                )
        self._prepare(now)

    def _prepare(self, now: float) -> None:
        if self.state == "COMPLETING":
            for each in self.members.values():
                sync, each.sync = each.sync, None
                if sync is not None:
                    sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b""))
        if self.state != "PREPARING":
            self.state = "PREPARING"
            self._deadline = now + max((each.rebalance_s for each in self.members.values()), default=0.0)

    def _complete_join(self, now: float) -> None:
        if self.state != "PREPARING" or any(each.join is None for each in self.members.values()):
            return
        self.generation += 1
        if not self.members:
            self.state = "EMPTY"
            return
        self.state = "COMPLETING"
        if self.leader not in self.members:
            self.leader = min(self.members)
        offered = [{name for name, _ in each.protocols} for each in self.members.values()]
        common = set[str].intersection(*offered)
        self.protocol = next(name for name, _ in self.members[self.leader].protocols if name in common)
        metadata = [
            JoinGroupResponseMember(member_id=each.member_id, metadata=dict(each.protocols)[self.protocol])
            for each in self.members.values()
        ]
        for each in list(self.members.values()):
            each.heard_at, each.assigned = now, set()
            reply, each.join = each.join, None
            assert reply is not None
            found = metadata if each.member_id == self.leader else []
            reply(join_answer(ErrorCode.NONE, each.member_id, self, found))

    def _assign(self, assignments: dict[str, bytes]) -> None:
        self.state = "STABLE"
        for each in self.members.values():
            each.assignment = assignments[each.member_id]
            parts = read_assignment(each.assignment).assigned_partitions
            each.assigned = {index for topic in parts for index in topic.partitions}
        everything = [index for each in self.members.values() for index in each.assigned]
        assert len(everything) == len(set(everything)), "assigned twice"
        for each in list(self.members.values()):
            sync, each.sync = each.sync, None
            if sync is not None:
                sync(SyncGroupResponse(error_code=0, assignment=each.assignment))


def join_answer(
    code: ErrorCode,
    member_id: str,
    group: FakeClassicGroup | None = None,
    members: Iterable[JoinGroupResponseMember] = (),
) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code,
        generation_id=group.generation if group else -1,
        protocol_name=group.protocol if group else "",
        leader=group.leader if group else "",
        member_id=member_id,
        members=list(members),
    )


@attrs.define(eq=False)
class _ConsumerMember:
    member_id: str
    heard_at: float
    rebalance_s: float
    epoch: int = 0
    previous_epoch: int = -1
    assigned: set[int] = attrs.field(factory=set[int])
    revoking: set[int] = attrs.field(factory=set[int])
    revoke_by: float = 0.0
    sent: set[int] | None = None


class FakeConsumerGroup:
    """A group of the consumer protocol: a partition is assigned once its owner has reported it as free."""

    session_s = 45.0
    interval_ms = 5000

    def __init__(self, partitions: int) -> None:
        self.members: dict[str, _ConsumerMember] = {}
        self.epoch = 0
        self.topic_id = TOPIC_ID
        self._partitions = partitions
        self._target: dict[str, set[int]] = {}

    def due(self) -> float | None:
        """When `expire` has something to do."""
        times = [each.heard_at + self.session_s for each in self.members.values()]
        times += [each.revoke_by for each in self.members.values() if each.revoking]
        return min(times, default=None)

    def expire(self, now: float) -> None:
        for each in list(self.members.values()):
            if now >= each.heard_at + self.session_s or (each.revoking and now >= each.revoke_by):
                self._remove(each)

    def beat(self, request: ConsumerGroupHeartbeatRequest, now: float) -> ConsumerGroupHeartbeatResponse:
        member = self.members.get(request.member_id)
        if request.member_epoch < 0:
            if member is not None:
                self._remove(member)
            return self._answer(request.member_id, request.member_epoch)
        if request.member_epoch == 0:
            assert request.topic_partitions == []
            assert request.subscribed_topic_names == [TOPIC] or request.subscribed_topic_regex
            member = self._join(request, member, now)
        elif member is None:
            known = ErrorCode.UNKNOWN_MEMBER_ID if self.members else ErrorCode.GROUP_ID_NOT_FOUND
            return beat_refusal(known)
        elif request.member_epoch != member.epoch and not self._is_repeated(request, member):
            self._remove(member)
            return beat_refusal(ErrorCode.FENCED_MEMBER_EPOCH)
        member.heard_at = now
        if request.topic_partitions is not None:
            reported = {index for topic in request.topic_partitions for index in topic.partitions}
            if not reported & member.revoking:
                member.revoking = set()
        self._reconcile(member, now)
        is_full = request.topic_partitions is not None and request.subscribed_topic_names is not None
        if is_full or member.sent != member.assigned:
            member.sent = set(member.assigned)
            return self._answer(member.member_id, member.epoch, member.assigned)
        return self._answer(member.member_id, member.epoch)

    def check_commit(self, member_id: str, epoch: int, partitions: Iterable[int]) -> ErrorCode:
        if not self.members and epoch >= 0:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not self.members:
            return ErrorCode.NONE
        code = self._check(member_id, epoch)
        if code is ErrorCode.NONE:
            owned = self.members[member_id].assigned | self.members[member_id].revoking
            assert set(partitions) <= owned, "committed by another than the owner"
        return code

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if not self.members and epoch >= 0:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return self._check(member_id or "", epoch) if member_id else ErrorCode.NONE

    def drop_requests(self, _code: ErrorCode) -> None:
        """Nothing waits."""

    def _check(self, member_id: str, epoch: int) -> ErrorCode:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def _is_repeated(self, request: ConsumerGroupHeartbeatRequest, member: _ConsumerMember) -> bool:
        """The answer that raised the epoch was lost; it is accepted with what the member may still own."""
        reported = {index for topic in request.topic_partitions or () for index in topic.partitions}
        is_subset = request.topic_partitions is not None and reported <= member.assigned | member.revoking
        return request.member_epoch == member.previous_epoch and is_subset

    def _join(
        self, request: ConsumerGroupHeartbeatRequest, member: _ConsumerMember | None, now: float
    ) -> _ConsumerMember:
        if member is None:
            rebalance_s = request.rebalance_timeout_ms / 1000
            member = self.members[request.member_id] = _ConsumerMember(request.member_id, now, rebalance_s)
            self._divide()
        member.sent = None
        return member

    def _remove(self, member: _ConsumerMember) -> None:
        del self.members[member.member_id]
        self._divide()

    def _divide(self) -> None:
        """Each member keeps what it has up to its share, in the order in which they came."""
        self.epoch += 1
        self._target = {}
        free = set(range(self._partitions))
        shares = {
            member_id: self._partitions // len(self.members) + (index < self._partitions % len(self.members))
            for index, member_id in enumerate(self.members)
        }
        for member_id, share in shares.items():
            kept = sorted(self.members[member_id].assigned)[:share]
            self._target[member_id] = set(kept)
            free -= set(kept)
        for member_id, share in shares.items():
            while len(self._target[member_id]) < share:
                self._target[member_id].add(free.pop())

    def _reconcile(self, member: _ConsumerMember, now: float) -> None:
        target = self._target[member.member_id]
        if member.revoking:
            return
        removed = member.assigned - target
        if removed:
            member.assigned -= removed
            member.revoking, member.revoke_by = removed, now + member.rebalance_s
            return
        taken = set[int]().union(
            *(each.assigned | each.revoking for each in self.members.values() if each is not member)
        )
        member.assigned |= target - taken
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch

    def _answer(
        self, member_id: str, epoch: int, assigned: Iterable[int] | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        assignment = None
        if assigned is not None:
            parts = [
                ConsumerGroupHeartbeatTopicPartitions(topic_id=self.topic_id, partitions=sorted(assigned))
            ]
            assignment = ConsumerGroupHeartbeatAssignment(topic_partitions=parts if assigned else [])
        return ConsumerGroupHeartbeatResponse(
            error_code=0,
            member_id=member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=self.interval_ms,
            assignment=assignment,
        )


def beat_refusal(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=0, heartbeat_interval_ms=0)
