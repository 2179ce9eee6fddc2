"""Connectors of one group over brokers and registries in memory, under a clock that the test moves."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from random import Random
from typing import Any

from tests.plugins.client.consumer.test_consumer_core import Held
from tests.plugins.client.fakes import (
    ADDRESS,
    ALL_VERSIONS,
    FakeBroker,
    coordinator_message,
    metadata_message,
)
from tests.plugins.client.manual_driver import ManualDriver
from tests.plugins.zookeeper.fake_zookeeper import Ensemble, FakeZooKeeper
from tidelog.kernel.records import stamp_offset
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NewRecord, build_batch
from tidelog.plugins.client.connector.core import ConnectorCore
from tidelog.plugins.client.connector.group_coordination import GroupCoordination
from tidelog.plugins.client.connector.settings import ConnectorSettings
from tidelog.plugins.client.connector.zookeeper_coordination import ZooKeeperCoordination
from tidelog.plugins.client.consumer.membership import AssignmentChange, no_steps
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.operations.group_offsets import GroupMetadata
from tidelog.plugins.client.steps import Steps
from tidelog.plugins.protocol_kafka.messages.api import OFFSET_COMMIT, OFFSET_FETCH
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tidelog.plugins.zookeeper.errors import SessionExpired, Unavailable

TOPIC, PARTITIONS, RECORDS, BATCH = "orders", 5, 60, 3
STEP_S = 0.05
SESSION_MS = 6000
LONGEST_PAUSE_S = 1.5
"""A connector pauses after a sixth of its session timeout without a connection."""
GROUP = "g"


class GroupBroker(FakeBroker):
    """A broker with the same records in each partition, and offsets of the group; `members` may commit."""

    def __init__(self) -> None:
        super().__init__(
            {
                "Metadata": lambda _request: metadata_message({TOPIC: [1] * PARTITIONS}),
                "Fetch": self.fetch,
                "FindCoordinator": lambda _request: coordinator_message(1, by_key=False),
                "OffsetFetch": self.offset_fetch,
                "OffsetCommit": self.offset_commit,
            },
            {**ALL_VERSIONS, 10: (0, 3), OFFSET_FETCH.key: (1, 5), OFFSET_COMMIT.key: (2, 7)},
        )
        self.committed = dict.fromkeys(range(PARTITIONS), 0)
        self.members: set[str] = set()
        self.batches: list[bytes] = []
        for start in range(0, RECORDS, BATCH):
            batch = build_batch([NewRecord(b"%d" % (start + each)) for each in range(BATCH)], now_ms=0)
            stamp_offset(batch, start, 0)
            self.batches.append(bytes(batch))

    def receive(self, data: bytes) -> bytes:
        try:
            return super().receive(data)
        except Held:
            return b""

    def fetch(self, request: FetchRequest) -> FetchResponse:
        if not request.topics or all(
            each.fetch_offset >= RECORDS for topic in request.topics for each in topic.partitions
        ):
            raise Held
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionData(
                            partition_index=each.partition,
                            error_code=0,
                            high_watermark=RECORDS,
                            records=b"".join(
                                self.batches[each.fetch_offset // BATCH : each.fetch_offset // BATCH + 2]
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def offset_fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (topic,) = request.topics or []
        partitions = [
            OffsetFetchResponsePartition(
                partition_index=each, committed_offset=self.committed[each], metadata="", error_code=0
            )
            for each in topic.partition_indexes
        ]
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name=TOPIC, partitions=partitions)])

    def offset_commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        (topic,) = request.topics
        is_member = request.member_id in self.members
        code = ErrorCode.NONE if is_member else ErrorCode.UNKNOWN_MEMBER_ID
        if is_member:
            self.committed.update({each.partition_index: each.committed_offset for each in topic.partitions})
        partitions = [
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=partitions)])


class FakeMembership:
    """What a group coordinator would say to a consumer: the model says it."""

    def __init__(self, name: str, changed: Callable[[], None]) -> None:
        self.member = GroupMetadata(GROUP, 1, name)
        self.owned: set[TopicPartition] = set()
        self.changes: deque[AssignmentChange] = deque()
        self.listener = None
        self.failure = None
        self.topics = frozenset({TOPIC})
        self.needs_poll = False
        self.changed = changed
        self.losses = 0

    def add(self, kind: Any, partitions: frozenset[TopicPartition]) -> None:
        self.changes.append(AssignmentChange(kind, partitions, 1))
        self.changed()

    def finished(self, change: AssignmentChange) -> None:
        if change.kind == "assigned":
            self.owned |= change.partitions
        else:
            self.owned -= change.partitions

    def next_change(self) -> AssignmentChange | None:
        return self.changes.popleft() if self.changes else None

    def commit_failed(self, _member: object, _error: object) -> None:
        """Ignore it: the model ends the membership by itself."""

    def polled(self) -> None:
        """No poll is too late."""

    def leaving(self) -> Steps[None]:
        self.owned = set()
        return no_steps()


class InlineZooKeeper(FakeZooKeeper):
    """A client whose requests are done at once, for a connector under a manual driver."""

    def __init__(self, ensemble: Ensemble, driver: ManualDriver) -> None:
        super().__init__(ensemble)
        self._driver = driver
        self.follow: Callable[[], None] | None = None
        self._watching: dict[Any, Callable[[], None]] = {}

    def start(self, changed: Callable[[], None]) -> None:
        self.follow = changed
        self.connect()

    def stop(self, done: Callable[[], None]) -> None:
        self.expire()
        done()

    def connect(self) -> None:
        # As with kazoo: the loop knows of it later.
        self._driver.post(super().connect)

    def disconnect(self, problem: str = "the connection was lost") -> None:
        self._driver.post(lambda: FakeZooKeeper.disconnect(self, problem))

    def expire(self) -> None:
        if self._own_session:
            super().expire()

    def _notify(self) -> None:
        if self.follow is not None:
            self.follow()

    async def _begin(self) -> None:
        # Without a checkpoint: nothing waits here.
        if not self.session_id:
            raise Unavailable("not connected")
        if self.session_id not in self.ensemble.sessions:
            raise SessionExpired("expired")
        self.operations += 1

    async def read(self, path: str, watch: Any = None) -> Any:
        return await super().read(path, self._posted(watch))

    async def children(self, path: str, watch: Any = None) -> Any:
        return await super().children(path, self._posted(watch))

    def _posted(self, watch: Any) -> Any:
        if watch is None:
            return None
        return self._watching.setdefault(watch, lambda: self._driver.post(watch))


class ModelConnector:
    """One connector with its driver; `is_cut` once it may have lost what it had not committed."""

    def __init__(self, model: GroupModel, name: str, streams: int) -> None:
        self.name = name
        self.is_cut = False
        self.is_gone = False
        self.driver = ManualDriver({ADDRESS: model.broker})
        self.driver.now = model.now
        settings = ConnectorSettings(
            group_id=GROUP,
            coordination=model.coordination,
            auto_commit_interval_ms=400,
            max_poll_records=2,
            request_timeout_ms=200,
            fetch_max_wait_ms=100,
            rebalance_backoff_ms=100,
            consumer_id=name,
        )
        self.engine = self.driver.attach(Engine(str(ADDRESS), settings.client(), self.driver))
        self.core = ConnectorCore(self.engine, settings, _Event, nullcontext())
        self.membership: FakeMembership | None = None
        if model.coordination == "zookeeper":
            self.zookeeper = InlineZooKeeper(model.ensemble, self.driver)
            self.core.coordination = ZooKeeperCoordination(self.core, _Names(self.zookeeper))  # type: ignore[arg-type]
        else:
            self.core.coordination = GroupCoordination(self.core)
            group: Any = self.core.consumer.group
            self.membership = FakeMembership(name, group._changed)
            group.subscribe = lambda *_args: setattr(group, "membership", self.membership)
        self.streams = self.core.create_streams({TOPIC: streams})

    def settle(self, now: float) -> None:
        self.driver.now = now
        self.driver.settle()

    def read(self, random: Random) -> Any:
        """Take a record as an iteration does, None if there is none now."""
        stream = random.choice(self.streams)
        if not stream.records:
            self.core.refill(stream)
        return stream.records.popleft() if stream.records else None

    @property
    def assignment(self) -> set[TopicPartition]:
        return set() if self.is_gone else {*self.core.assignment()}


class _Names:
    """An ensemble for one client."""

    session_timeout_ms = SESSION_MS

    def __init__(self, zookeeper: InlineZooKeeper) -> None:
        self._zookeeper = zookeeper

    def client(self, _engine: Engine) -> InlineZooKeeper:
        return self._zookeeper


class _Event:
    def set(self) -> None:
        """Nothing waits: the model tries again."""


class GroupModel:
    """All connectors, what they have returned, and what may happen to them."""

    def __init__(self, coordination: Any, seed: int) -> None:
        self.coordination = coordination
        self.random = Random(seed)
        self.now = 1000.0
        self.broker = GroupBroker()
        self.ensemble = Ensemble()
        self.ensemble.put("/brokers/ids/1", b"{}")
        parts = ",".join(f'"{number}":[1]' for number in range(PARTITIONS))
        self.ensemble.put(f"/brokers/topics/{TOPIC}", b'{"partitions":{%s}}' % parts.encode())
        for number in range(PARTITIONS):
            self.ensemble.put(f"/consumers/{GROUP}/offsets/{TOPIC}/{number}", b"0")
        self.connectors: list[ModelConnector] = []
        self.returned: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        self.had_cut: set[str] = set()
        self._joined = 0
        self._is_stale = False

    @property
    def living(self) -> list[ModelConnector]:
        return [each for each in self.connectors if not each.is_gone]

    # What may happen.

    def join(self) -> None:
        self._joined += 1
        connector = ModelConnector(self, f"c{self._joined}", self.random.choice((1, 2)))
        self.connectors.append(connector)
        self.broker.members.add(connector.name)
        self._is_stale = True

    def leave(self) -> None:
        connector = self.random.choice(self.living)
        done: list[bool] = []
        connector.core.shut_down(lambda: done.append(True))
        for _ in range(100):
            self.now += STEP_S
            connector.settle(self.now)
            if done:
                break
        assert done
        self._gone(connector)

    def kill(self) -> None:
        connector = self.random.choice(self.living)
        self.had_cut.add(connector.name)
        if self.coordination == "zookeeper":
            connector.zookeeper.follow = None
            connector.zookeeper.expire()
        self._gone(connector)

    def lose(self) -> None:
        """Have a connector lose its place in the group, which it finds out later."""
        connector = self.random.choice(self.living)
        self.had_cut.add(connector.name)
        if self.coordination == "zookeeper":
            self._lose_connection(connector)
        elif connector.membership is not None:
            self.broker.members.discard(connector.name)
            connector.membership.changes.clear()
            connector.membership.add("lost", frozenset(connector.membership.owned))
            self._settle()
            self.broker.members.add(connector.name)
            self._is_stale = True

    def _lose_connection(self, connector: ModelConnector) -> None:
        """Cut the connection to ZooKeeper, which ends the session when the connector should have paused."""
        zookeeper = connector.zookeeper
        zookeeper.disconnect()
        turns = self.random.randrange(60)
        for _ in range(turns):
            self.turn()
        if turns * STEP_S > LONGEST_PAUSE_S:
            zookeeper.expire()
            for _ in range(self.random.randrange(40)):
                self.turn()
        zookeeper.connect()

    def commit(self) -> None:
        self.random.choice(self.living).core.commit(lambda _error: None)

    def _gone(self, connector: ModelConnector) -> None:
        connector.is_gone = True
        connector.driver.close()
        self.broker.members.discard(connector.name)
        self._is_stale = True

    # How time passes.

    def turn(self) -> None:
        """Let a moment pass, in which some records are read."""
        self.now += STEP_S
        self._settle()
        for connector in self.living:
            for _ in range(self.random.randrange(4)):
                self._read(connector)
        self._rebalance()
        self.check()

    def _settle(self) -> None:
        for _ in range(3):
            for connector in self.living:
                connector.settle(self.now)

    def _read(self, connector: ModelConnector) -> None:
        record = connector.read(self.random)
        if record is not None:
            self.returned[record.partition].append((record.offset, connector.name))

    def _rebalance(self) -> None:
        """Do what the coordinator of a classic group would: revoke everything, then assign ranges."""
        living = self.living
        if self.coordination == "zookeeper" or not self._is_stale or not living:
            return
        members: Mapping[str, FakeMembership] = {
            each.name: each.membership for each in living if each.membership is not None
        }
        for each in members.values():
            if each.owned and not each.changes:
                each.add("revoked", frozenset(each.owned))
        self._settle()
        if any(each.owned or each.changes for each in members.values()):
            return
        self._is_stale = False
        names = sorted(members)
        for number in range(PARTITIONS):
            partition = TopicPartition(TOPIC, number)
            members[names[number % len(names)]].add("assigned", frozenset({partition}))

    # What holds.

    def check(self) -> None:
        """No partition feeds two streams."""
        feeds = [
            partition
            for connector in self.living
            for stream in connector.streams
            for partition in stream.feeds
            if not connector.core.is_paused
        ]
        assert len(feeds) == len({*feeds}), feeds

    def finish(self) -> None:
        """Read everything, and compare: in order, none lost, and none twice without a loss before it."""
        if not self.living:
            self.join()
        for _ in range(4000):
            self.turn()
            offsets = ({offset for offset, _ in self.returned[each]} for each in range(PARTITIONS))
            if all(len(each) == RECORDS for each in offsets):
                break
        for partition in range(PARTITIONS):
            last_of: dict[int, str] = {}
            for offset, name in self.returned[partition]:
                before = last_of.get(offset)
                assert before is None or before in self.had_cut, (partition, offset, before, name)
                assert offset == 0 or offset - 1 in last_of, f"{partition}: {offset} is too early"
                last_of[offset] = name
            assert len(last_of) == RECORDS, f"{partition}: {sorted(set(range(RECORDS)) - last_of.keys())}"

    def close(self) -> None:
        for connector in self.living:
            connector.driver.close()
