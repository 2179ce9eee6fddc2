"""Brokers with the logs of a topic, their coordinator, and members of a group: in memory, with one clock."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from typing import Any

from tests.plugins.client.consumer.fake_groups import (
    TOPIC,
    TOPIC_ID,
    FakeClassicGroup,
    FakeConsumerGroup,
    Reply,
    beat_refusal,
    join_answer,
)
from tests.plugins.client.fakes import (
    ALL_VERSIONS,
    coordinator_message,
    metadata_message,
    ranges_message,
    response_bytes,
)
from tests.plugins.client.manual_driver import ManualDriver
from tidelog.kernel.records import stamp_offset
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NewRecord, build_batch
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.consumer.core import ConsumerCore
from tidelog.plugins.client.consumer.rebalance_listener import RebalanceListener
from tidelog.plugins.client.consumer.settings import ConsumerSettings
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS, APIS
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tidelog.plugins.protocol_kafka.messages.header import parse_request_header
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatResponse
from tidelog.plugins.protocol_kafka.messages.leave_group import LeaveGroupResponse
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.plugins.protocol_kafka.messages.sync_group import SyncGroupResponse
from tidelog.plugins.schema import decode

ADDRESSES = {1: Address("broker-1", 9092), 2: Address("broker-2", 9092)}
LEADER = 1
Group = FakeClassicGroup | FakeConsumerGroup


class World:
    """Broker 1 has the logs; the coordinator is one of both, and the group and its offsets follow it.

    Attributes:
        logs: number of records of each partition; a record is its offset
        replicas: the brokers with a replica of each partition, which are in the racks r1 and r2
        committed: committed offsets by partition
        commit_errors: what the next commits are answered with
        beat_errors: what the next heartbeats of the consumer protocol are answered with
        beats: those heartbeats, with their times
        versions: what the brokers serve, by API key
        asked: names of the requests, in order
    """

    def __init__(self, protocol: str, partitions: int = 4) -> None:
        self.protocol = protocol
        self.now = 1000.0
        self.logs = [0] * partitions
        self.replicas = [[1, 2]] * partitions
        self.committed: dict[int, int] = {}
        self.commit_errors: deque[ErrorCode] = deque()
        self.beat_errors: deque[ErrorCode] = deque()
        self.beats: list[tuple[float, ConsumerGroupHeartbeatRequest]] = []
        self.versions = dict(ALL_VERSIONS)
        self.topic_id = TOPIC_ID
        self.asked: list[str] = []
        self.coordinator = 1
        self._numbers = count()
        self.group = self._new_group()
        self.members: list[Member] = []
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._waiting: list[Callable[[], bool]] = []

    def close(self) -> None:
        for member in self.members:
            member.driver.close()

    # What happens.

    def join(self, **options: Any) -> Member:
        member = Member(self, **options)
        self.members.append(member)
        return member

    def append(self, partition: int, number: int) -> None:
        self.logs[partition] += number
        self._waiting = [each for each in self._waiting if not each()]

    def move_coordinator(self) -> None:
        self.coordinator = 3 - self.coordinator
        self.group.drop_requests(ErrorCode.NOT_COORDINATOR)

    def forget_group(self, committed: dict[int, int]) -> None:
        """Start again with an older copy of the group's offsets and without its members."""
        self.group.drop_requests(ErrorCode.NOT_COORDINATOR)
        self.group = self._new_group()
        self.committed = dict(committed)

    def cut(self, node: int) -> None:
        """Close all connections to a broker."""
        for member in self.members:
            member.driver.cut(ADDRESSES[node])

    def pass_time(self, seconds: float) -> None:
        """Let time pass; the users do nothing meanwhile."""
        self.run(lambda: False, seconds)

    def run(self, until: Callable[[], bool], limit_s: float) -> bool:
        """Let time pass until a condition holds, and return whether it does."""
        end = self.now + limit_s
        while True:
            dues = [each.driver.settle() for each in self.members if not each.is_dead]
            if until():
                return True
            times = [due for due in dues if due is not None and due > self.now]
            times += [self._timers[0][0]] if self._timers else []
            due = self.group.due()
            times += [] if due is None else [due]
            nearest = min(times, default=end)
            if any(due is not None and due <= self.now for due in dues):
                nearest = self.now
            if nearest > end:
                self.now = end
                return until()
            self.now = max(self.now, nearest)
            self._run_timers()
            if nearest == end and self.now >= end and not times:
                return until()

    # The brokers.

    def handle(self, node: int, frame: bytes, reply: Callable[[bytes], None]) -> None:
        """Answer a request, now or later."""
        header = parse_request_header(frame := frame[4:])
        api = APIS[header.api_key]

        def answer(message: Any) -> None:
            reply(response_bytes(api.key, header.api_version, header.correlation_id, message))

        if api is API_VERSIONS:
            answer(ranges_message(self.versions))
            return
        request = decode(api.request_class, header.api_version, memoryview(frame)[header.body_position :])
        self.asked.append(api.name)
        getattr(self, f"_{_snake(api.name)}")(node, request, answer)

    def _metadata(self, _node: int, _request: Any, reply: Reply) -> None:
        leaders = {TOPIC: [LEADER] * len(self.logs)}
        answer = metadata_message(leaders, brokers=ADDRESSES, topic_id=self.topic_id)
        for broker in answer.brokers:
            broker.rack = f"r{broker.node_id}"
        for part in answer.topics[0].partitions:
            part.replica_nodes = self.replicas[part.partition_index]
        reply(answer)

    def _find_coordinator(self, _node: int, _request: Any, reply: Reply) -> None:
        reply(coordinator_message(self.coordinator))

    def _list_offsets(self, _node: int, request: Any, reply: Reply) -> None:
        (topic,) = request.topics
        found = [
            ListOffsetsPartitionResponse(
                partition_index=each.partition_index,
                error_code=0,
                offset=0 if each.timestamp == EARLIEST_TIMESTAMP else self.logs[each.partition_index],
            )
            for each in topic.partitions
        ]
        reply(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=found)]))

    def _fetch(self, _node: int, request: Any, reply: Reply) -> None:
        if not request.topics:
            reply(FetchResponse(responses=[]))
            return
        ((topic,),) = (request.topics,)
        is_answered = False

        def respond(*, is_late: bool = False) -> bool:
            nonlocal is_answered
            parts = [self._data(each.partition, each.fetch_offset) for each in topic.partitions]
            if not is_answered and (is_late or any(part.records or part.error_code for part in parts)):
                is_answered = True
                found = FetchableTopicResponse(topic=TOPIC, topic_id=topic.topic_id, partitions=parts)
                reply(FetchResponse(responses=[found]))
            return is_answered

        if not respond():
            self._waiting.append(respond)
            self._call_at(self.now + request.max_wait_ms / 1000, lambda: respond(is_late=True))

    def _data(self, partition: int, offset: int) -> PartitionData:
        end = self.logs[partition]
        records = b""
        for number in range(offset, min(end, offset + 5)):
            batch = build_batch([NewRecord(b"%d" % number)], now_ms=0)
            stamp_offset(batch, number, 0)
            records += bytes(batch)
        code = ErrorCode.OFFSET_OUT_OF_RANGE if offset > end else ErrorCode.NONE
        return PartitionData(partition_index=partition, error_code=code, high_watermark=end, records=records)

    # The coordinator.

    def _join_group(self, node: int, request: Any, reply: Reply) -> None:
        if node != self.coordinator:
            reply(join_answer(ErrorCode.NOT_COORDINATOR, request.member_id))
        else:
            self._classic.join(request, reply, self.now)

    def _sync_group(self, node: int, request: Any, reply: Reply) -> None:
        if node != self.coordinator:
            reply(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, assignment=b""))
        else:
            self._classic.sync(request, reply, self.now)

    def _heartbeat(self, node: int, request: Any, reply: Reply) -> None:
        code = ErrorCode.NOT_COORDINATOR
        if node == self.coordinator:
            code = self._classic.heartbeat(request.member_id, request.generation_id, self.now)
        reply(HeartbeatResponse(error_code=code))

    def _leave_group(self, node: int, request: Any, reply: Reply) -> None:
        code = ErrorCode.NOT_COORDINATOR
        if node == self.coordinator:
            code = self._classic.leave(request.members[0].member_id, self.now)
        reply(LeaveGroupResponse(error_code=code))

    def _consumer_group_heartbeat(self, node: int, request: Any, reply: Reply) -> None:
        assert isinstance(self.group, FakeConsumerGroup)
        self.beats.append((self.now, request))
        if node != self.coordinator:
            reply(beat_refusal(ErrorCode.NOT_COORDINATOR))
        elif self.beat_errors:
            reply(beat_refusal(self.beat_errors.popleft()))
        else:
            reply(self.group.beat(request, self.now))

    def _offset_commit(self, node: int, request: Any, reply: Reply) -> None:
        (topic,) = request.topics
        parts = {each.partition_index: each.committed_offset for each in topic.partitions}
        code = ErrorCode.NOT_COORDINATOR
        if node == self.coordinator:
            code = self.commit_errors.popleft() if self.commit_errors else ErrorCode.NONE
        if code is ErrorCode.NONE:
            member_id, epoch = request.member_id, request.generation_id_or_member_epoch
            code = self.group.check_commit(member_id, epoch, parts)
        if code is ErrorCode.NONE:
            assert all(offset >= self.committed.get(each, 0) for each, offset in parts.items())
            self.committed |= parts
        found = [OffsetCommitResponsePartition(partition_index=each, error_code=code) for each in parts]
        reply(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=found)]))

    def _offset_fetch(self, node: int, request: Any, reply: Reply) -> None:
        (wanted,) = request.groups
        code = ErrorCode.NOT_COORDINATOR
        if node == self.coordinator:
            code = self.group.check_fetch(wanted.member_id, wanted.member_epoch)
        found = [
            OffsetFetchResponsePartitions(
                partition_index=each,
                committed_offset=self.committed.get(each, -1),
                metadata="",
                error_code=0,
            )
            for each in wanted.topics[0].partition_indexes
        ]
        topics = [] if code else [OffsetFetchResponseTopics(name=TOPIC, partitions=found)]
        group = OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics, error_code=code)
        reply(OffsetFetchResponse(groups=[group]))

    @property
    def _classic(self) -> FakeClassicGroup:
        assert isinstance(self.group, FakeClassicGroup)
        return self.group

    def _new_group(self) -> Group:
        return (
            FakeClassicGroup(self._numbers)
            if self.protocol == "classic"
            else FakeConsumerGroup(len(self.logs))
        )

    def _call_at(self, when: float, call: Callable[[], object]) -> None:
        heapq.heappush(self._timers, (when, next(self._numbers), call))

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()
        self.group.expire(self.now)


def _snake(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


class _Server:
    """One broker, as the driver of a member looks it up."""

    def __init__(self, world: World, node: int) -> None:
        self.world, self.node = world, node

    def receive(self, data: bytes) -> bytes:
        raise AssertionError(f"{len(data)} bytes are handled by the driver")


class _DelayedDriver(ManualDriver):
    """A driver with the world's clock; brokers answer the requests of a connection in order, and later."""

    def __init__(self, world: World) -> None:
        super().__init__({address: _Server(world, node) for node, address in ADDRESSES.items()})
        self._world = world
        self._frames: dict[Any, deque[bytes]] = {}

    def clock(self) -> float:
        return self._world.now

    def _answer(self, connection: Any, frame: bytes) -> None:
        frames = self._frames.setdefault(connection, deque())
        frames.append(frame)
        if len(frames) == 1:
            self._handle(connection)

    def _handle(self, connection: Any) -> None:
        server = connection.server
        server.world.handle(server.node, self._frames[connection][0], partial(self._reply, connection))

    def _reply(self, connection: Any, data: bytes) -> None:
        frames = self._frames[connection]
        frames.popleft()
        if connection.peer.fileno() >= 0 and not connection.channel.is_released:
            connection.peer.send(data)
            self.engine.readable(connection.channel)
            if frames:
                self._handle(connection)


class Member(RebalanceListener):
    """A consumer and its user, who processes what `poll` returns, and commits.

    Attributes:
        delivered: partition and offset of each record, in order
        calls: what the listener was called with
    """

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        self.delivered: list[tuple[int, int]] = []
        self.calls: list[tuple[str, list[int]]] = []
        self.failures: list[ClientError] = []
        self.is_dead = False
        self._next: dict[int, int | None] = {}
        self.driver = _DelayedDriver(world)
        pattern = options.pop("pattern", None)
        options = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **options}
        if world.protocol == "consumer":
            options["group_protocol"] = "consumer"
        self._is_automatic = options["enable_auto_commit"]
        settings = ConsumerSettings(group_id="g", max_poll_records=7, **options)
        engine = self.driver.attach(Engine(str(ADDRESSES[1]), settings.client(), self.driver))
        self.core = ConsumerCore(engine, settings, lambda: None, nullcontext())
        self.core.group.subscribe(() if pattern else [TOPIC], pattern, self)

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self.core.assignment()}

    def poll(self, *, commits: bool = False) -> list[tuple[int, int]]:
        """Poll once, check what comes, and commit it."""
        if self.is_dead:
            return []
        self.driver.settle()
        try:
            self.core.begin_poll()
        except ClientError as error:
            self.failures.append(error)
            return []
        while (change := self.core.group.next_change()) is not None:
            commit = self.core.commits.commit_before(change)
            if commit is not None:
                self._wait(commit)
            self.core.group.begin_change(change)
            self.core.group.call_listener(change)
            self.core.group.finish_change(change)
        found = [(each.partition, each.offset) for each in self.core.records.take_records()]
        for partition, offset in found:
            expected = self._next[partition]
            if expected is None:
                expected = self.world.committed.get(partition, 0)
            assert offset == expected, f"{partition}: {offset} instead of {expected}"
            self._next[partition] = offset + 1
        self.delivered += found
        if commits and self.owned:
            self.commit()
        return found

    def commit(self) -> None:
        """Commit all positions, and wait; an error is noted."""
        self._wait(self.core.commits.commit(self.core.commits.offsets_to_commit(None)))

    def close(self) -> None:
        """Leave as `Consumer.close` does."""
        if self.is_dead:
            return
        change = self.core.group.last_change()
        if change is not None:
            commit = self.core.commits.commit_before(change)
            if commit is not None:
                self._wait(commit)
            self.core.group.call_listener(change)
            self.core.group.finish_change(change)
        self._wait(self.core.closing())
        self.kill()

    def kill(self) -> None:
        """Vanish."""
        self.is_dead = True
        self.driver.close()

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._next |= {each.partition: None for each in partitions}
        self._note("assigned", partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        if not self._is_automatic:
            self.commit()
        self._drop(partitions)
        self._note("revoked", partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._drop(partitions)
        self._note("lost", partitions)

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        for each in partitions:
            del self._next[each.partition]

    def _note(self, kind: str, partitions: Collection[TopicPartition]) -> None:
        self.calls.append((kind, sorted(each.partition for each in partitions)))

    def _wait(self, operation: Any) -> None:
        outcomes: list[Any] = []
        self.core._engine.spawn(operation, outcomes.append, timeout_s=60)  # pyright: ignore
        self.world.run(lambda: bool(outcomes), 61)
        (outcome,) = outcomes
        if isinstance(outcome, ClientError):
            self.failures.append(outcome)


@contextmanager
def world_of(protocol: str, **options: Any) -> Generator[World]:
    """A world that is closed at the end."""
    world = World(protocol, **options)
    try:
        yield world
    finally:
        world.close()
