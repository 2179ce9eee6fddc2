"""Many small groups whose members do nothing but send heartbeats, each over a connection of its own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

import attrs
from kio.schema.consumer_group_heartbeat.v0.request import TopicPartitions
from kio.schema.consumer_group_heartbeat.v0.response import ConsumerGroupHeartbeatResponse
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v3.response import JoinGroupResponse
from kio.schema.sync_group.v2.response import SyncGroupResponse

from benchmarks.procfs import Usage, as_usage

from .files import allow_files
from .group_requests import (
    await_coordinator,
    consumer_heartbeat_request,
    consumer_join_request,
    heartbeat_frame,
    join_frame,
    sync_frame,
)
from .meter import Meter
from .pacing import paced
from .raw_connection import RawConnection, encode_frame

_SPARE_FILES = 100
# Where the error code is in an answer, behind its length, the correlation id and the throttle time; the
# consumer protocol has tagged fields in between.
_ERROR_AT, _CONSUMER_ERROR_AT = 8, 9


@attrs.frozen
class HeartbeatsSpec:
    """`groups` of `members` each, every member heard every `interval_s`, for `rounds` of them."""

    bootstrap: str
    broker_pid: int
    topic: str
    groups: int
    members: int
    interval_s: float
    rounds: int
    consumer_protocol: bool = False
    """Whether members speak that of KIP-848."""


@attrs.frozen
class HeartbeatsResult:
    """How many heartbeats were answered well."""

    heartbeats: int
    usage: Usage = attrs.field(converter=as_usage)


class _Beating(NamedTuple):
    connection: RawConnection
    frame: bytearray
    error_at: int = _ERROR_AT


def heartbeats(spec: HeartbeatsSpec) -> HeartbeatsResult:
    """Form the groups, then measure their heartbeats alone.

    The answer to a heartbeat is read when the next one of its member is due, so that no broker is held up
    by this load. Raises RuntimeError for any error code.
    """
    allow_files(spec.groups * spec.members + _SPARE_FILES)
    with ExitStack() as connections:
        form = _form_consumer_groups if spec.consumer_protocol else _form
        members = form(connections, spec)
        count = len(members) * spec.rounds
        meter = Meter(spec.broker_pid)
        for number in paced(count, len(members) / spec.interval_s):
            member = members[number % len(members)]
            if number >= len(members):
                _check_answer(member)
            member.connection.send(member.frame)
        usage = meter.read()
        for member in members:
            _check_answer(member)
        return HeartbeatsResult(count, usage)


def _form(connections: ExitStack, spec: HeartbeatsSpec) -> list[_Beating]:
    """Groups whose members all belong to one generation: they join within the initial delay."""
    joining: list[tuple[str, RawConnection]] = []
    for group in (f"beating-{number}" for number in range(spec.groups)):
        opened = [connections.enter_context(RawConnection(spec.bootstrap)) for _ in range(spec.members)]
        await_coordinator(opened[0], group, spec.topic)
        joining += [(group, connection) for connection in opened]
    for group, connection in joining:
        connection.send(join_frame(group))
    joined = [(group, connection, _joined(connection)) for group, connection in joining]
    for group, connection, answer in joined:
        led = tuple(member.member_id for member in answer.members)
        connection.send(sync_frame(group, answer.member_id, answer.generation_id, led))
    for _, connection, _ in joined:
        _check(connection.receive_response(SyncGroupResponse).error_code)
    return [
        _Beating(connection, heartbeat_frame(group, answer.member_id, answer.generation_id))
        for group, connection, answer in joined
    ]


def _joined(connection: RawConnection) -> JoinGroupResponse:
    answer: JoinGroupResponse = connection.receive_response(JoinGroupResponse)
    _check(answer.error_code)
    return answer


@attrs.define
class _Consumer:
    """A member of the consumer protocol that is getting its partitions."""

    connection: RawConnection
    group: str
    member: str
    epoch: int = 0
    owned: tuple[TopicPartitions, ...] = ()

    def exchange(self, request: object) -> bool:
        """Send a request; return whether its answer changed anything for the member."""
        answer: ConsumerGroupHeartbeatResponse = self.connection.call(request, ConsumerGroupHeartbeatResponse)
        _check(answer.error_code)
        before = self.epoch, self.owned
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = tuple(
                TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            )
        return (self.epoch, self.owned) != before


def _form_consumer_groups(connections: ExitStack, spec: HeartbeatsSpec) -> list[_Beating]:
    """Groups whose members all have the last epoch, which is one for each that joined."""
    members: list[_Consumer] = []
    for group in (f"beating-{number}" for number in range(spec.groups)):
        for number in range(spec.members):
            connection = connections.enter_context(RawConnection(spec.bootstrap))
            if not members:
                await_coordinator(connection, group, spec.topic)
            member = _Consumer(connection, group, f"member-{number}")
            member.exchange(consumer_join_request(group, member.member, spec.topic))
            members.append(member)
    settled = False
    while not settled:
        moved = [
            each.exchange(consumer_heartbeat_request(each.group, each.member, each.epoch, each.owned))
            for each in members
        ]
        settled = not any(moved) and all(each.epoch == spec.members for each in members)
    return [
        _Beating(
            each.connection,
            encode_frame(consumer_heartbeat_request(each.group, each.member, each.epoch)),
            _CONSUMER_ERROR_AT,
        )
        for each in members
    ]


def _check_answer(member: _Beating) -> None:
    connection, error_at = member.connection, member.error_at
    answer = connection.receive(connection.receive_size())
    _check(ErrorCode(int.from_bytes(answer[error_at : error_at + 2], "big", signed=True)))


def _check(error_code: ErrorCode) -> None:
    if error_code is not ErrorCode.none:
        raise RuntimeError(f"a member was answered {error_code!r}")
