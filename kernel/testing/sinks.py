"""Conformance of sinks: a suite that every sink passes, in a real broker that stops, crashes and fails.

    class TestMySink(SinkConformance, plugin=my_plugin, settings={"path": "{folder}"}, delivered=read): ...

The sink runs as it is, with files and threads; the broker's log lies in files, so that it can be resumed.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import attrs
import pytest
import trio

from tidelog.kernel.broker import Broker
from tidelog.kernel.config.sinks import COMMON_SINK_KEYS, SINK_NAME
from tidelog.kernel.errors import StorageError
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.sinks import CommittedChunk, SinkKind
from tidelog.kernel.sinks.committed_log import PartitionLog
from tidelog.kernel.sinks.statistics import SinkState
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.broker import running_broker

PATIENCE_S = 180.0
"""How long a sink may take to deliver a few hundred records, on a busy machine."""
SETTLING_S = 0.05
"""How long a test waits for what must not be delivered."""
LONGEST_STEP_S = 0.5
"""How long a sink may keep the event loop without a pause; blocking calls of any length belong in threads."""
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


class Delivered(NamedTuple):
    """A record that a sink has delivered."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@attrs.define
class SinkHarness:
    """A broker that is started and stopped, with one sink.

    `written` are the records that it has to deliver, `optional` those of a deleted topic, which it may.
    """

    settings: Mapping[str, object]
    kind: str
    sink: Mapping[str, str]
    read_back: Callable[[], Sequence[Delivered]]
    exactly_once: bool
    written: list[Delivered] = attrs.field(factory=list[Delivered])
    optional: set[Delivered] = attrs.field(factory=set[Delivered])
    _sequences: Counter[int] = attrs.field(factory=Counter[int])

    @asynccontextmanager
    async def running(self, **sink: str) -> AsyncGenerator[Broker]:
        """Run the broker with the sink, and with other settings for the sink."""
        sinks = {self.kind: {"suite": {**self.sink, **sink}}}
        async with running_broker({**self.settings, "sinks": sinks}) as broker:
            yield broker

    @asynccontextmanager
    async def without_sink(self) -> AsyncGenerator[Broker]:
        """Run the broker without the sink."""
        async with running_broker(self.settings) as broker:
            yield broker

    def append(self, partition: UnifiedLog, *values: bytes | None, expected: bool = True) -> None:
        """Append a batch of records with these values, which are their keys, too."""
        base = partition.append_nowait(make_batch(values, keys=values)).base_offset
        if expected:
            self._expect(partition, base, values)

    def append_in_transaction(
        self, partition: UnifiedLog, producer: int, value: bytes, *, expected: bool
    ) -> None:
        """Append a record to the producer's transaction."""
        batch = make_batch(
            [value],
            keys=[value],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self._sequences[producer],
            transactional=True,
        )
        self._sequences[producer] += 1
        base = partition.append_nowait(batch, in_transaction=True).base_offset
        if expected:
            self._expect(partition, base, [value])

    def _expect(self, partition: UnifiedLog, base: int, values: Sequence[bytes | None]) -> None:
        topic, number = partition.topic_partition
        self.written += [
            Delivered(topic, number, base + index, value, value) for index, value in enumerate(values)
        ]

    def give_up(self, *records: Delivered) -> None:
        """Expect records no longer: their topic is deleted, and a sink may deliver, keep or drop them."""
        self.optional.update(records)
        self.written = [record for record in self.written if record not in self.optional]

    async def until_delivered(self) -> None:
        """Wait until everything is delivered, and check that nothing else is."""
        deadline = trio.current_time() + PATIENCE_S
        while missing := set(self.written) - set(found := await self.delivered()):
            assert trio.current_time() < deadline, f"{len(missing)} records are not delivered: {missing}"
            await trio.sleep(0.02)
        await trio.sleep(SETTLING_S)
        self.check(found)
        self.check(await self.delivered())

    async def delivered(self) -> Sequence[Delivered]:
        """Return what the sink has delivered so far."""
        return await trio.to_thread.run_sync(self.read_back)

    def check(self, found: Sequence[Delivered]) -> None:
        """Check that what is delivered was written, and with `exactly_once` that it is there once."""
        assert not set(found) - set(self.written) - self.optional, (
            "records are delivered that were not committed"
        )
        twice = [record for record, count in Counter(found).items() if count > 1]
        assert not (self.exactly_once and twice), f"records are delivered more than once: {twice}"


def _tasks_of_system() -> set[trio.lowlevel.Task]:
    """Return the tasks that no nursery of the broker ends."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    return {task for nursery in root.child_nurseries for task in nursery.child_tasks}


class LongestStep(trio.abc.Instrument):
    """Measures the longest time that a task has kept the event loop, without waits for a processor."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        del task
        self._began = _seconds_of_thread()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.name.startswith("sink "):
            self.seconds = max(self.seconds, _seconds_of_thread() - self._began)


def _seconds_of_thread() -> float:
    """Return a clock that stands still while this thread is ready to run and others have the processors.

    Linux counts that time (`schedstat` in proc(5)); elsewhere the clock does not stand still.
    """
    try:
        waited_ns = int(_SCHEDSTAT.read_text(encoding="ascii").split()[1])
    except OSError:
        waited_ns = 0
    return time.perf_counter() - waited_ns / 1e9


class SinkConformance:
    """What users of a sink rely on; `plugin` is the module with the hook of the sink to prove.

    `kind` chooses one where the plugin offers several. `settings` are the values of its keys, as text in
    which `{folder}` stands for an empty directory. `delivered(folder)` returns what was delivered there.
    `exactly_once`: the sink delivers no record twice, whatever happens; without it, it may.
    """

    plugin: ClassVar[ModuleType]
    settings: ClassVar[Mapping[str, str]] = {}
    delivered: ClassVar[Callable[[Path], Sequence[Delivered]]]
    exactly_once: ClassVar[bool] = False
    kind: ClassVar[str | None] = None

    def __init_subclass__(
        cls,
        plugin: ModuleType | None = None,
        settings: Mapping[str, str] | None = None,
        delivered: Callable[[Path], Sequence[Delivered]] | None = None,
        *,
        exactly_once: bool | None = None,
        kind: str | None = None,
        **others: Any,
    ) -> None:
        super().__init_subclass__(**others)
        given = {"plugin": plugin, "settings": settings, "exactly_once": exactly_once, "kind": kind}
        for name, value in given.items():
            if value is not None:
                setattr(cls, name, value)
        if delivered is not None:
            cls.delivered = staticmethod(delivered)

    @pytest.fixture
    def sink_kind(self) -> SinkKind:
        """Return the kind under test."""
        offered: Sequence[SinkKind] = list(self.plugin.tidelog_sinks())
        (chosen,) = [each for each in offered if self.kind in (None, each.name)]
        return chosen

    @pytest.fixture
    def harness(self, sink_kind: SinkKind, tmp_path: Path) -> SinkHarness:
        """Return a broker with the sink, which is not running yet."""
        return self.make_harness(sink_kind, tmp_path)

    def make_harness(self, sink_kind: SinkKind, tmp_path: Path) -> SinkHarness:
        """Return a broker with the sink, with all its files in `tmp_path`."""
        folder = tmp_path / "delivered"
        folder.mkdir()
        own = {name: text.replace("{folder}", str(folder)) for name, text in self.settings.items()}
        sys.modules.setdefault(self.plugin.__name__, self.plugin)
        settings = {
            "storage": "file",
            "log.dirs": str(tmp_path / "data"),
            "plugins": self.plugin.__name__,
            "shutdown.timeout.ms": int(PATIENCE_S * 1000),
        }
        sink = {"topics.regex": "t.*", "retry.backoff.ms": "1", **own}
        read_back = partial(type(self).delivered, folder)
        return SinkHarness(settings, sink_kind.name, sink, read_back, self.exactly_once)

    def test_name_and_keys_can_be_configured_and_documented(self, sink_kind: SinkKind) -> None:
        assert SINK_NAME.fullmatch(sink_kind.name)
        names = [key.name for key in (*COMMON_SINK_KEYS, *sink_kind.keys)]
        assert len(set(names)) == len(names)
        for key in sink_kind.keys:
            assert key.documentation.endswith(".")
            if not key.required:
                assert key.type.parse(key.type.format(key.default)) == key.default

    async def test_every_committed_record_is_delivered(self, harness: SinkHarness) -> None:
        async with harness.running() as broker:
            for topic in ("t1", "t2"):
                for partition in (await broker.topics.create(TopicSpec(topic, 2))).partitions:
                    harness.append(partition.log, b"a", b"", None)
                    for number in range(5):
                        harness.append(partition.log, *[b"%d" % number] * 10)
            await harness.until_delivered()
            harness.append(broker.topics.get("t1").partitions[1].log, b"later")
            await harness.until_delivered()

    async def test_records_that_were_there_before_the_sink_are_delivered(self, harness: SinkHarness) -> None:
        async with harness.without_sink() as broker:
            (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions
            harness.append(partition.log, b"a", b"b")
        async with harness.running() as broker:
            await harness.until_delivered()
            harness.append(broker.topics.get("t").partitions[0].log, b"c")
            await harness.until_delivered()

    async def test_other_topics_are_not_delivered(self, harness: SinkHarness) -> None:
        async with harness.running() as broker:
            for topic in ("other", "__consumer_offsets"):
                harness.append((await broker.topics.ensure(topic)).partitions[0].log, b"x", expected=False)
            harness.append((await broker.topics.ensure("t")).partitions[0].log, b"x")
            await harness.until_delivered()

    async def test_aborted_and_open_transactions_are_not_delivered(self, harness: SinkHarness) -> None:
        async with harness.running() as broker:
            (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions
            for commit in (False, True, False):
                harness.append_in_transaction(partition.log, 7, b"%d" % commit, expected=commit)
                harness.append(partition.log, b"outside")
                partition.log.append_marker(7, 0, 0, commit=commit)
            await harness.until_delivered()
            harness.append_in_transaction(partition.log, 8, b"open", expected=False)
            harness.append(partition.log, b"behind it", expected=False)
            await harness.until_delivered()

    async def test_read_uncommitted_delivers_aborted_records_and_no_markers(
        self, harness: SinkHarness
    ) -> None:
        async with harness.running(**{"isolation.level": "read_uncommitted"}) as broker:
            (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions
            harness.append_in_transaction(partition.log, 7, b"aborted", expected=True)
            partition.log.append_marker(7, 0, 0, commit=False)
            harness.append_in_transaction(partition.log, 7, b"open", expected=True)
            await harness.until_delivered()

    async def test_a_sink_resumes_when_the_broker_is_started_again(self, harness: SinkHarness) -> None:
        async with harness.without_sink() as broker:
            await broker.topics.create(TopicSpec("t", 2))
        for number in range(4):
            async with harness.running() as broker:
                for partition in broker.topics.get("t").partitions:
                    harness.append(partition.log, b"%d" % number, b"and")
                if number % 2:
                    await harness.until_delivered()
        async with harness.running():
            await harness.until_delivered()

    async def test_a_sink_resumes_after_a_crash_at_any_time(
        self, harness: SinkHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        choose, read_chunk = random.Random(5), PartitionLog.read_chunk
        crash, reads_left = trio.CancelScope(), 0

        async def read_or_crash(log: PartitionLog, *args: Any) -> CommittedChunk:
            nonlocal reads_left
            reads_left -= 1
            if not reads_left:
                crash.cancel()
            return await read_chunk(log, *args)

        monkeypatch.setattr(PartitionLog, "read_chunk", read_or_crash)
        async with harness.without_sink() as broker:
            await broker.topics.create(TopicSpec("t", 1))
        for _ in range(8):
            reads_left, crash = choose.randint(1, 6), trio.CancelScope()
            with crash:
                async with harness.running() as broker:
                    (partition,) = broker.topics.get("t").partitions
                    for number in range(20):
                        harness.append(partition.log, b"%d" % number)
                        await trio.sleep(0.001)
                    # A sink that reads in another way is stopped after a while.
                    await trio.sleep(choose.choice((0.01, 0.1, 0.3)))
                    crash.cancel()
            harness.check(await harness.delivered())
        async with harness.running():
            await harness.until_delivered()

    async def test_a_sink_resumes_after_its_reads_have_failed(
        self, harness: SinkHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        choose, read_chunk = random.Random(5), PartitionLog.read_chunk

        async def failing(log: PartitionLog, *args: Any) -> CommittedChunk:
            if choose.random() < 0.5:
                raise StorageError("the disk refused")
            return await read_chunk(log, *args)

        async with harness.running(**{"retry.backoff.max.ms": "1"}) as broker:
            monkeypatch.setattr(PartitionLog, "read_chunk", failing)
            (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions
            for number in range(10):
                harness.append(partition.log, b"%d" % number)
                await trio.sleep(0.002)
            await harness.until_delivered()

    async def test_a_topic_that_is_created_again_is_another_one(self, harness: SinkHarness) -> None:
        for number in range(2):
            async with harness.running() as broker:
                (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions
                harness.append(partition.log, b"of topic %d" % number)
                await harness.until_delivered()
                if number == 0:
                    harness.give_up(harness.written[0])
                    await broker.topics.delete("t")

    async def test_a_deleted_topic_does_not_stop_the_others(self, harness: SinkHarness) -> None:
        async with harness.running() as broker:
            (gone,) = (await broker.topics.create(TopicSpec("t1", 1))).partitions
            harness.append(gone.log, b"a")
            await harness.until_delivered()
            harness.append(gone.log, b"b")
            harness.give_up(*harness.written)
            await broker.topics.delete("t1")
            harness.append((await broker.topics.create(TopicSpec("t2", 1))).partitions[0].log, b"c")
            await harness.until_delivered()

    async def test_deleted_records_are_left_out(self, harness: SinkHarness) -> None:
        async with harness.running() as broker:
            (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions
            harness.append(partition.log, b"a")
            await harness.until_delivered()
        async with harness.without_sink() as broker:
            (partition,) = broker.topics.get("t").partitions
            harness.append(partition.log, b"b", b"c", expected=False)
            partition.log.raise_log_start(3)
            harness.append(partition.log, b"d")
        async with harness.running():
            await harness.until_delivered()

    async def test_the_event_loop_is_never_blocked(self, harness: SinkHarness) -> None:
        longest = LongestStep()
        trio.lowlevel.add_instrument(longest)
        try:
            async with harness.running() as broker:
                (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions
                for _ in range(20):
                    harness.append(partition.log, *[b"x" * 100] * 100)
                await harness.until_delivered()
        finally:
            trio.lowlevel.remove_instrument(longest)
        assert longest.seconds < LONGEST_STEP_S, "blocking calls belong in a thread"

    async def test_a_sink_ends_when_the_broker_stops(self, harness: SinkHarness) -> None:
        before = _tasks_of_system()
        async with harness.running() as broker:
            (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions
            harness.append(partition.log, b"x")
        (statistics,) = broker.sinks.statistics().values()
        assert statistics.state is SinkState.ENDED, "it did not end within shutdown.timeout.ms"
        assert statistics.failures == 0, statistics.last_error
        assert _tasks_of_system() <= before, "a task of the sink is still running"
