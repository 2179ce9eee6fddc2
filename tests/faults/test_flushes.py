"""Which files are flushed for appends that wait, how often and for whom, over real files."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.crash.core import Core
from tests.deadlines import DEADLINE_S
from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.log.flush_threads import THREADS_PER_DIRECTORY
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker

PARTITIONS = 8
FLUSH_EACH = {"flush.messages": "1"}


@attrs.define
class SeenFlushes:
    """Counts the flushes of log files by their partition's directory; they wait while `open` is not set."""

    count: Counter[str] = attrs.field(factory=Counter[str])
    open: threading.Event = attrs.field(factory=threading.Event)
    failing: set[str] = attrs.field(factory=set[str])
    changed: threading.Condition = attrs.field(factory=threading.Condition)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        perform = disk.sync_data

        def sync_data(fd: int) -> None:
            directory = Path(f"/proc/self/fd/{fd}").readlink().parent
            if not directory.name.startswith("t-"):
                perform(fd)
                return
            with self.changed:
                self.count[directory.name] += 1
                self.changed.notify_all()
            assert self.open.wait(DEADLINE_S)
            if directory.name in self.failing:
                raise OSError(errno.EIO, "Input/output error")
            perform(fd)

        patch.setattr(disk, "sync_data", sync_data)

    async def wait_for(self, total: int) -> None:
        """Wait until that many have begun."""

        def wait() -> None:
            with self.changed:
                assert self.changed.wait_for(lambda: self.count.total() >= total, DEADLINE_S), self.count

        await trio.to_thread.run_sync(wait)


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> SeenFlushes:
    seen = SeenFlushes()
    seen.install(monkeypatch)
    return seen


@attrs.define
class Producers:
    """Appends that wait to be acknowledged."""

    nursery: trio.Nursery
    acknowledged: Counter[str] = attrs.field(factory=Counter[str])
    refused: Counter[str] = attrs.field(factory=Counter[str])

    def append(self, partitions: Sequence[UnifiedLog], times: int = 1) -> None:
        for _ in range(times):
            for partition in partitions:
                offset = partition.append_nowait(make_batch([b"x"])).last_offset
                self.nursery.start_soon(self._wait, partition, offset)

    async def _wait(self, partition: UnifiedLog, offset: int) -> None:
        name = str(partition.topic_partition)
        try:
            await partition.wait_flushed(offset)
        except StorageError:
            self.refused[name] += 1
        else:
            assert partition.commit.durable_offset > offset
            self.acknowledged[name] += 1


async def test_all_that_waits_is_one_flush_of_each_file(tmp_path: Path, flushes: SeenFlushes) -> None:
    core = Core(tmp_path)
    await core.open()
    partitions = [each.log for each in (await core.create("t", PARTITIONS, flush_messages="1")).partitions]
    names = [str(partition.topic_partition) for partition in partitions]
    async with trio.open_nursery() as nursery:
        producers = Producers(nursery)
        producers.append(partitions, times=5)
        await flushes.wait_for(THREADS_PER_DIRECTORY)
        assert not producers.acknowledged
        flushes.open.set()
        await trio.testing.wait_all_tasks_blocked()
        while producers.acknowledged.total() < 5 * PARTITIONS:
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert flushes.count == dict.fromkeys(names, 1)
        flushes.open.clear()
        # Those that come while a flush is under way go with the next one, however many they are.
        producers.append(partitions)
        await flushes.wait_for(PARTITIONS + THREADS_PER_DIRECTORY)
        producers.append(partitions, times=4)
        await wait_all_tasks_blocked()
        flushes.open.set()
    assert producers.acknowledged == dict.fromkeys(names, 10)
    assert max(flushes.count.values()) == 3
    await core.close()


async def test_directories_are_flushed_at_the_same_time(tmp_path: Path, flushes: SeenFlushes) -> None:
    settings = {"storage": "file", "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_broker(settings) as broker:
        # One more in each directory than it has threads.
        count = 2 * (THREADS_PER_DIRECTORY + 1)
        topic = await broker.topics.create(TopicSpec("t", count, config=FLUSH_EACH))
        async with trio.open_nursery() as nursery:
            producers = Producers(nursery)
            logs = [each.log for each in topic.partitions]
            producers.append(logs)
            await flushes.wait_for(2 * THREADS_PER_DIRECTORY)
            await wait_all_tasks_blocked(0.01)
            busy = Counter(
                each.log.store.log_directory for each in topic.partitions if each_is_in(each.log, flushes)
            )
            flushes.open.set()
    assert busy == {str(tmp_path / name): THREADS_PER_DIRECTORY for name in "ab"}


def each_is_in(partition: UnifiedLog, flushes: SeenFlushes) -> bool:
    """Whether a flush of it has begun."""
    return str(partition.topic_partition) in flushes.count


async def test_a_flush_that_fails_fails_those_that_waited_for_it(
    tmp_path: Path, flushes: SeenFlushes
) -> None:
    settings = {"storage": "file", "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_broker({**settings, "metadata.log.dir": str(tmp_path / "meta")}) as broker:
        topic = await broker.topics.create(TopicSpec("t", 2, config=FLUSH_EACH))
        bad, good = (each.log for each in topic.partitions)
        assert bad.store.log_directory != good.store.log_directory
        flushes.failing.add(str(bad.topic_partition))
        async with trio.open_nursery() as nursery:
            producers = Producers(nursery)
            producers.append([bad, good], times=3)
            await flushes.wait_for(2)
            # They wait for the next flush, which never comes.
            producers.append([bad, good], times=2)
            await wait_all_tasks_blocked()
            flushes.open.set()
        assert producers.refused == {str(bad.topic_partition): 5}
        assert producers.acknowledged == {str(good.topic_partition): 5}
        assert flushes.count[str(bad.topic_partition)] == 1
        assert isinstance(bad.offline, StorageError)
        assert (bad.high_watermark, good.high_watermark) == (0, 5)
