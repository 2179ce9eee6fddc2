"""A broker's life in small: everything that touches files happens a few times, always in the same way."""

from __future__ import annotations

import copy
import itertools
import random
from pathlib import Path

import attrs

from tests.crash.core import Core
from tests.crash.history import Expected, History, LogKey
from tests.crash.interposers import Unsynced
from tests.crash.logs import batches_of, key_of
from tests.metadata_changes import allocate_producer_ids
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.batch import stamp_offset
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.seams.storage import region_bytes
from tidelog.kernel.testing import make_batch
from tidelog.kernel.topics import Topic
from tidelog.plugins.storage_file.testing import Device, Operation, Recorder

SAFE, LAZY, CUT, TRANSACTED, SPARE = "safe", "lazy", "cut", "transacted", "spare"
"""Topics: flushed before each acknowledgement, or now and then; truncated; with transactions; short-lived."""
PARTITIONS = {LAZY: 2, SPARE: 2}
STEPS = (
    "append_some",
    "run_transactions",
    "roll_before_any_job",
    "flush",
    "checkpoint",
    "append_some",
    "delete_segments",
    "remove_deleted_files",
    "truncate_in_a_segment",
    "append_some",
    "truncate_over_segments",
    "roll_before_any_job",
    "raise_log_start",
    "delete_whole_log",
    "checkpoint",
    "recreate_topic",
    "run_transactions",
    "be_killed_after_rolling",
    "flush",
    "be_killed_before_the_answer",
    "append_some",
    "roll_before_any_job",
    "checkpoint",
    "delete_topic",
    "remove_deleted_files",
    "stop_and_start",
    "run_transactions",
    "create_topic",
    "append_some",
    "be_killed",
    "checkpoint",
    "append_some",
    "stop_and_start",
)
"""The order in which things happen in the short version."""


@attrs.define
class Producer:
    """An idempotent producer of one log."""

    producer_id: int
    next_sequence: int = 0


@attrs.define
class Workload:
    """Does the steps on a core and notes what it is told."""

    core: Core
    history: History
    choose: random.Random
    producers: dict[LogKey, Producer] = attrs.field(factory=dict)
    open_transactions: list[Producer] = attrs.field(factory=list)
    numbers: itertools.count[int] = attrs.field(factory=itertools.count)

    async def run(self, steps: tuple[str, ...]) -> None:
        """From an empty directory to a clean stop."""
        self.history.begin("start")
        await self.core.open()
        for name in (SAFE, LAZY, CUT, TRANSACTED):
            await self.create_topic(name)
        for step in steps:
            self.history.begin(step)
            await getattr(self, step)()
        self.history.begin("stop")
        await self.stop()

    async def go_on(self, steps: tuple[str, ...]) -> None:
        """From what a loss of power left, to another one."""
        self.history.begin("recover")
        await self.core.open()
        for topic in self.core.topics:
            self.history.note(Expected.survived, topic.name, topic.topic_id)
            for partition in topic.partitions:
                self.history.note(Expected.recovered, key_of(partition.log), batches_of(partition.log.store))
            self.note_epochs(topic)
        for step in steps:
            self.history.begin(step)
            await getattr(self, step)()

    async def create_topic(self, name: str = SPARE) -> None:
        """A new topic."""
        if self.core.topics.find(name) is not None:
            return
        partitions = PARTITIONS.get(name, 1)
        self.history.begin("create_topic")
        self.history.note(Expected.creating, name, partitions)
        config = {"flush_messages": "1"} if name == SAFE else {}
        topic = await self.core.create(name, partitions, **config)
        self.history.note(Expected.created, name, topic.topic_id)
        self.note_epochs(topic)

    def note_epochs(self, topic: Topic) -> None:
        """Clients are told of leader epochs from now on."""
        for partition in topic.partitions:
            self.history.note(Expected.led, key_of(partition.log), partition.leader_epoch)

    async def delete_topic(self, name: str = SPARE) -> None:
        """A topic goes, with its data."""
        if self.core.topics.find(name) is None:
            return
        self.history.begin("delete_topic")
        self.history.note(Expected.deleting, name)
        await self.core.topics.delete(name)
        self.history.note(Expected.deleted, name)

    async def recreate_topic(self) -> None:
        """Its successor has the same name."""
        await self.create_topic()
        await self.append_some()
        await self.delete_topic()
        await self.create_topic()
        await self.append_some()

    async def append_some(self) -> None:
        """A few batches to every partition."""
        for _ in range(2):
            for topic in list(self.core.topics):
                for partition in topic.partitions:
                    await self.append(partition.log)
        self.core.tasks.run_jobs()

    async def roll_before_any_job(self) -> None:
        """Background work lags behind by two segments."""
        for name in (LAZY, SAFE, CUT):
            await self.roll(self.log(name))
            await self.roll(self.log(name))
        self.core.tasks.run_jobs()

    async def roll(self, partition: UnifiedLog) -> None:
        """Append until there is a new segment."""
        segments = len(partition.store.segments())
        while len(partition.store.segments()) == segments:
            await self.append(partition)

    async def roll_everything(self) -> None:
        """Every log continues in a new segment, by its age; nothing was appended to the one before."""
        for topic in self.core.topics:
            for partition in topic.partitions:
                await partition.log.roll()
        self.core.tasks.run_jobs()

    def log(self, topic: str) -> UnifiedLog:
        """The first partition of a topic."""
        return self.core.topics.get(topic).partitions[0].log

    async def append(self, partition: UnifiedLog) -> None:
        """One batch, and its acknowledgement."""
        key = key_of(partition)
        if key not in self.producers:
            self.producers[key] = await self.new_producer()
        batch = self.next_batch(self.producers[key])
        self.note_sent(partition, batch)
        await self.acknowledge(partition, partition.append_nowait(batch))

    async def new_producer(self) -> Producer:
        """A producer with an id of its own."""
        (producer_id,) = await allocate_producer_ids(self.core.metadata, 1)
        self.history.note(Expected.given, producer_id)
        return Producer(producer_id)

    def next_batch(self, producer: Producer, *, transactional: bool = False) -> bytearray:
        """A batch that no other is like."""
        self.core.clock.advance(self.choose.randrange(20))
        number, size = next(self.numbers), self.choose.choice([5, 60, 200, 500])
        values = [
            (f"{number:05}.{index} ".encode() * (size // 8 + 1))[:size]
            for index in range(self.choose.choice([1, 1, 3]))
        ]
        sequence = producer.next_sequence
        producer.next_sequence += len(values)
        return make_batch(
            values,
            timestamps=self.core.clock(),
            producer_id=producer.producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=transactional,
        )

    def note_sent(self, partition: UnifiedLog, batch: bytearray) -> None:
        """A batch is on its way; it will be appended at the log's end."""
        stamped = bytearray(batch)
        stamp_offset(stamped, partition.log_end_offset, partition.leader_epoch)
        self.history.note(Expected.appending, key_of(partition), bytes(stamped), bytes(batch))

    async def acknowledge(self, partition: UnifiedLog, result: AppendResult) -> None:
        """Wait for what the topic's configuration wants before a producer is answered."""
        key, end = key_of(partition), result.last_offset + 1
        self.history.note(Expected.appended, key, end)
        if result.flush_due:
            await partition.wait_flushed(result.last_offset)
        if partition.topic_partition.topic == SAFE:
            self.history.note(Expected.flushed, key, end)
        self.history.note(Expected.acknowledged, key)

    async def run_transactions(self) -> None:
        """Transactions that overlap, some of them aborted, one left open until the next time."""
        partition = self.log(TRANSACTED)
        fresh = [await self.new_producer() for _ in range(3)]
        self.open_transactions += fresh
        for producer in fresh * 2:
            batch = self.next_batch(producer, transactional=True)
            self.note_sent(partition, batch)
            await self.acknowledge(partition, partition.append_nowait(batch, in_transaction=True))
        while len(self.open_transactions) > 1:
            producer = self.open_transactions.pop(self.choose.randrange(len(self.open_transactions)))
            self.history.note(Expected.marking, key_of(partition))
            commit = self.choose.random() < 0.5
            result = partition.append_marker(producer.producer_id, 0, 0, commit=commit)
            content = read_last(partition)
            self.history.note(Expected.marked, key_of(partition), content)
            await self.acknowledge(partition, result)
        self.core.tasks.run_jobs()

    async def flush(self) -> None:
        """Flushing by time, or on request."""
        for name in (LAZY, CUT, TRANSACTED):
            for partition in self.core.topics.get(name).partitions:
                await partition.log.flush()
                self.history.note(Expected.flushed, key_of(partition.log), partition.log.log_end_offset)

    async def checkpoint(self) -> None:
        """Offsets are written down."""
        for name in ("checkpoint recovery points", "checkpoint log starts"):
            await self.core.tasks.run(name)
        lazy = self.log(LAZY)
        self.history.note(Expected.raised_start, key_of(lazy), lazy.log_start_offset)

    async def delete_segments(self) -> None:
        """Retention."""
        for partition in self.log(LAZY), self.log(SAFE), self.log(CUT):
            segments = partition.store.segments()
            if len(segments) > 2:
                offset = segments[len(segments) // 2].base_offset
                self.history.note(Expected.raising_start, key_of(partition), offset)
                await partition.delete_segments_before(offset)
                self.history.note(Expected.raised_start, key_of(partition), offset)

    async def delete_whole_log(self) -> None:
        """Retention, of a log that is too old as a whole."""
        partition = self.log(SAFE)
        end = partition.log_end_offset
        self.history.note(Expected.raising_start, key_of(partition), end)
        await partition.roll()
        await partition.delete_segments_before(end)
        self.history.note(Expected.raised_start, key_of(partition), end)

    async def remove_deleted_files(self) -> None:
        """What was renamed some time ago goes."""
        for task in ("delete segment files", "delete partitions"):
            await self.core.tasks.run(task)

    async def raise_log_start(self) -> None:
        """A log begins later, in the middle of a segment; the next checkpoint tells."""
        partition = self.log(LAZY)
        offset = (partition.log_start_offset + partition.log_end_offset) // 2
        self.history.note(Expected.raising_start, key_of(partition), offset)
        partition.raise_log_start(offset)

    async def truncate_in_a_segment(self) -> None:
        """The last batch or two go."""
        partition = self.log(CUT)
        await self.truncate(
            partition, max(partition.log_end_offset - 2, partition.store.segments()[-1].base_offset)
        )

    async def truncate_over_segments(self) -> None:
        """More than a whole segment goes."""
        partition = self.log(CUT)
        segments = partition.store.segments()
        last_kept = segments[max(len(segments) - 2, 0)]
        await self.truncate(partition, (last_kept.base_offset + last_kept.next_offset + 1) // 2)

    async def truncate(self, partition: UnifiedLog, offset: int) -> None:
        """As a follower does that learns of a new leader; its producers find another log."""
        key = key_of(partition)
        self.history.note(Expected.truncating, key, max(offset, partition.log_start_offset))
        await partition.truncate_to(max(offset, partition.log_start_offset))
        self.producers.pop(key, None)

    async def be_killed(self) -> None:
        """The process ends; the machine does not."""
        self.history.begin("be_killed")
        self.core.abandon()
        await self.start()

    async def be_killed_after_rolling(self) -> None:
        """The process ends before any job had its turn."""
        for name in (LAZY, CUT):
            await self.roll(self.log(name))
        await self.be_killed()

    async def be_killed_before_the_answer(self) -> None:
        """A producer that waited for its answer sends the batch again."""
        await self.append(self.log(SAFE))
        key = key_of(self.log(SAFE))
        batch = self.next_batch(self.producers[key])
        self.note_sent(self.log(SAFE), batch)
        result = self.log(SAFE).append_nowait(bytearray(batch))
        self.history.note(Expected.appended, key, result.last_offset + 1)
        await self.be_killed()
        await self.acknowledge(self.log(SAFE), self.log(SAFE).append_nowait(batch))

    async def start(self) -> None:
        """A start with what is there."""
        await self.core.open()
        for topic in self.core.topics:
            self.note_epochs(topic)

    async def stop_and_start(self) -> None:
        """A clean stop, and a start after it."""
        await self.stop()
        await self.start()

    async def stop(self) -> None:
        """Everything is durable afterwards."""
        logs = [partition for topic in self.core.topics for partition in topic.partitions]
        await self.core.close()
        for partition in logs:
            self.history.note(Expected.flushed, key_of(partition.log), partition.log.log_end_offset)


@attrs.frozen
class Recording:
    """Every file operation of a workload that began on `start`, and what it was told meanwhile."""

    start: Device
    operations: list[Operation]
    history: History


async def record(place: Path, steps: tuple[str, ...] = STEPS, seed: int = 0) -> Recording:
    """Run the steps below `place`, which is empty."""
    core = Core(place)
    core.data.mkdir(parents=True)
    recorder = Recorder(core.data)
    history = History(lambda: len(recorder.operations))
    with Unsynced().installed(), recorder.installed():
        await Workload(core, history, random.Random(seed)).run(steps)
        recorder.catch_up()
    return Recording(recorder.start, recorder.operations, history)


async def record_second_life(place: Path, before: Expected, steps: tuple[str, ...], seed: int) -> Recording:
    """Start on what a loss of power left in `data` of `place`, and do the steps."""
    core = Core(place)
    recorder = Recorder(core.data)
    history = History(lambda: len(recorder.operations), before=copy.deepcopy(before))
    history.note(Expected.power_failed)
    with Unsynced().installed(), recorder.installed():
        await Workload(core, history, random.Random(seed)).go_on(steps)
        recorder.catch_up()
        core.abandon()
    return Recording(recorder.start, recorder.operations, history)


def read_last(partition: UnifiedLog) -> bytes:
    """The last batch of a log."""
    end = partition.log_end_offset
    found = partition.store.read_batches(end - 1, 1, end, wait=True)
    return b"".join(map(region_bytes, found.regions))
