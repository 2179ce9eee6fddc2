"""Many small groups whose members do nothing but send heartbeats, each over a connection of its own."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from typing import NamedTuple

import attrs
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v3.response import JoinGroupResponse
from kio.schema.sync_group.v2.response import SyncGroupResponse

from benchmarks.procfs import Usage, as_usage

from .files import allow_files
from .group_requests import await_coordinator, heartbeat_frame, join_frame, sync_frame
from .meter import Meter
from .pacing import paced
from .raw_connection import RawConnection

_SPARE_FILES = 100
# Of an answer to a heartbeat, behind its length: correlation id, throttle time, error code.
_ANSWER = struct.Struct(">iih")


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


@attrs.frozen
class HeartbeatsResult:
    """How many heartbeats were answered well."""

    heartbeats: int
    usage: Usage = attrs.field(converter=as_usage)


class _Beating(NamedTuple):
    connection: RawConnection
    frame: bytearray


def heartbeats(spec: HeartbeatsSpec) -> HeartbeatsResult:
    """Form the groups, then measure their heartbeats alone.

    The answer to a heartbeat is read when the next one of its member is due, so that no broker is held up
    by this load. Raises RuntimeError for any error code.
    """
    allow_files(spec.groups * spec.members + _SPARE_FILES)
    with ExitStack() as connections:
        members = _form(connections, spec)
        count = len(members) * spec.rounds
        meter = Meter(spec.broker_pid)
        for number in paced(count, len(members) / spec.interval_s):
            member = members[number % len(members)]
            if number >= len(members):
                _check_answer(member.connection)
            member.connection.send(member.frame)
        usage = meter.read()
        for member in members:
            _check_answer(member.connection)
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


def _check_answer(connection: RawConnection) -> None:
    _, _, error_code = _ANSWER.unpack(connection.receive(connection.receive_size()))
    _check(ErrorCode(error_code))


def _check(error_code: ErrorCode) -> None:
    if error_code is not ErrorCode.none:
        raise RuntimeError(f"a member was answered {error_code!r}")
