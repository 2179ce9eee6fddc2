"""Logs are rewritten by worker processes as policies plan it, whatever their filters do."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio
import trio.testing

from tests.deadlines import DEADLINE_S
from tests.kernel.log.parts import compressed
from tests.plugins.cleaner.filters import (
    Broken,
    CountThreads,
    Deadly,
    EvenOffsets,
    Filter,
    OneOffsetAtATime,
    Refused,
    TooShort,
)
from tests.stored_records import stored_records
from tidelog.kernel.errors import BrokerError, TidelogError
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.cleanup import NOTHING, LogView, Plan, Rewrite
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import SegmentDraft
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.cleaner.errors import RewriteAborted
from tidelog.plugins.cleaner.execution.log_cleanup import LogCleanup
from tidelog.plugins.cleaner.execution.log_state import FIRST_BACKOFF_S, MOST_BACKOFF_S
from tidelog.plugins.cleaner.execution.rewriting import Rewritten, Worker
from tidelog.plugins.cleaner.execution.workers import Workers
from tidelog.plugins.cleaner.worker.process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tidelog.kernel.broker import Broker
    from tidelog.kernel.config import Config, TopicConfig
    from tidelog.kernel.seams.cleanup import CleanupStatistics, RecordFilter

TOPIC = "flights"


@attrs.define
class Rewriting:
    """A policy that rewrites what it has not rewritten yet, with the filter that `make` returns."""

    make: Callable[[], RecordFilter]
    urgency: Callable[[LogView], float] = lambda _: 0.5
    surveys: bool = True
    name: str = "delete"

    def interval_ms(self, config: Config) -> int:
        """Never by itself within a test."""
        del config
        return 1 << 40

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        """All inactive segments."""
        del now_ms, config
        since = log.rewritten_until or 0
        if log.active.base_offset <= since:
            return NOTHING
        until = log.active.base_offset
        survey_from = since if self.surveys else until
        return Plan(rewrite=Rewrite(until, self.urgency(log), survey_from, lambda _: self.make()))


def _even_offsets(_: Config) -> EvenOffsets:
    return EvenOffsets()


class Cleanup:
    """Looks at every log once, for one policy."""

    def __init__(self, broker: Broker, policy: Rewriting) -> None:
        self.seconds = 0.0
        self._cleanup = LogCleanup(
            {policy.name: policy}, broker.config, broker.topics, broker.clock, lambda: self.seconds
        )

    async def run(self) -> CleanupStatistics:
        (task,) = self._cleanup.policy_tasks()
        await task.run()
        (statistics,) = self._cleanup.statistics().values()
        return statistics


@asynccontextmanager
async def running(tmp_path: Path, storage: str, **more: object) -> AsyncGenerator[Broker]:
    settings: dict[str, object] = {"storage": storage, **more}
    if storage == "file":
        settings.setdefault("log.dirs", str(tmp_path))
    async with running_broker(settings) as broker:
        yield broker


async def filled(broker: Broker, name: str = TOPIC, batches: int = 6) -> UnifiedLog:
    """The partition of a new topic: two batches of three records a segment, the last one active."""
    topic = await broker.topics.create(TopicSpec(name, 1, config={"cleanup.policy": "delete"}))
    (partition,) = topic.partitions
    for index in range(batches):
        if index and not index % 2:
            assert await partition.log.roll()
        partition.log.append_nowait(make_batch([b"a", b"b", b"c"]))
    return partition.log


def offsets(partition: UnifiedLog) -> list[int]:
    """The offsets of all records that are left."""
    return [record.offset for record in stored_records(partition)]


def bases(partition: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in partition.store.segments()]


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_rewrite_keeps_what_the_filter_keeps(
    storage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, storage) as broker:
        partition = await filled(broker)
        size = partition.store.size_bytes
        with caplog.at_level(logging.INFO):
            statistics = await Cleanup(broker, Rewriting(EvenOffsets)).run()
        assert offsets(partition) == [0, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17]
        assert bases(partition) == [0, 12]
        assert partition.store.size_bytes < size
        assert partition.store.rewritten_until("delete") == 12
        assert (statistics.rewrites, statistics.rewrite_read_records, statistics.rewrite_kept_records) == (
            1, 12, 6,
        )  # fmt: skip
        assert statistics.most_rewrite_seconds == statistics.rewrite_seconds > 0
        assert statistics.counts == {"surveyed": 12}
        assert "6 of 12 records are left; surveyed: 12" in caplog.text
        assert partition.append_nowait(make_batch([b"more"])).base_offset == 18


async def test_rewrite_is_done_once_and_then_for_what_is_new(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        cleanup = Cleanup(broker, Rewriting(EvenOffsets))
        await cleanup.run()
        assert (await cleanup.run()).rewrites == 1
        await partition.roll()
        statistics = await cleanup.run()
        assert statistics.rewrites == 2
        assert statistics.counts == {"surveyed": 12 + 6}
        assert offsets(partition) == [*range(0, 18, 2)]


@attrs.define
class Aging(Rewriting):
    """Its second plan deletes the oldest segment, which has become old since the first one."""

    plans: int = 0

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        self.plans += 1
        if self.plans == 2:
            return Plan(log.segments[1].base_offset, reason="it is old")
        return Rewriting.plan(self, log, now_ms, config)


async def test_rewrite_deletes_what_has_become_old_since_the_log_was_looked_at(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        statistics = await Cleanup(broker, Aging(EvenOffsets)).run()
        assert (statistics.deleted_segments, statistics.rewrites, bases(partition)) == (1, 0, [6, 12])


@attrs.define
class Deleting(Rewriting):
    """Its plans delete the oldest segment as well."""

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        plan = Rewriting.plan(self, log, now_ms, config)
        return attrs.evolve(plan, delete_before=log.segments[0].next_offset)


async def test_rewrite_now_rewrites_the_active_segment_too_and_deletes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        policies = {"delete": Deleting(EvenOffsets)}
        cleanup = LogCleanup(policies, broker.config, broker.topics, broker.clock)
        outcome = await cleanup.rewrite_now((), lambda *_: None)
        assert (outcome.done, outcome.failed) == ([partition.topic_partition], [])
        assert cleanup.statistics()["delete"].deleted_segments == 0
        assert offsets(partition) == [*range(0, 18, 2)]


async def test_rewrite_goes_on_until_a_filter_with_little_room_has_seen_all(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        statistics = await Cleanup(broker, Rewriting(OneOffsetAtATime)).run()
        assert statistics.rewrites == 4
        assert partition.store.rewritten_until("delete") == 12
        assert offsets(partition)[:6] == [0, 2, 4, 6, 8, 10]


async def test_rewrite_of_segments_that_do_not_fit_into_one(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        config = broker.topics.get(TOPIC).config | {"segment.bytes": 1}
        async with Workers(broker.config).worker() as worker:
            await worker.rewrite(partition, Rewrite(12, 0.5, 0, _even_offsets), config, broker.clock())
        assert (offsets(partition)[:6], bases(partition)) == ([0, 2, 4, 6, 8, 10], [0, 6, 12])


async def test_rewrite_reads_only_what_a_loss_of_power_cannot_take(tmp_path: Path) -> None:
    """Otherwise the newer record of a key might be lost, and the older one would have been removed for it."""
    durable: list[bool] = []
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        assert partition.has_unflushed

        def note_and_make() -> EvenOffsets:
            durable.append(not partition.has_unflushed)
            return EvenOffsets()

        assert (await Cleanup(broker, Rewriting(note_and_make)).run()).rewrites == 1
    assert durable == [True]


async def test_rewrite_reports_its_progress_from_nothing_to_all_bytes(tmp_path: Path) -> None:
    """Each segment is read twice: for the survey, and to copy it."""
    progress: list[tuple[int, int]] = []
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        size = sum(segment.size_bytes for segment in partition.store.segments()[:-1])
        planned, config = Rewrite(12, 0.5, 0, _even_offsets), broker.topics.get(TOPIC).config
        async with Workers(broker.config).worker() as worker:
            await worker.rewrite(
                partition, planned, config, broker.clock(), lambda _, *bytes_: progress.append(bytes_)
            )
    assert {total for _, total in progress} == {2 * size}
    reads = [read for read, _ in progress]
    assert reads == sorted(reads)
    assert reads[-1] == 2 * size


async def test_rewrite_needs_no_survey(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        statistics = await Cleanup(broker, Rewriting(EvenOffsets, surveys=False)).run()
        assert offsets(partition) == [0, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17]
        assert statistics.counts["surveyed"] == 0


async def test_rewrite_that_waits_for_a_process_begins_where_threads_were_set_to_0(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        workers = Workers(broker.config)

        async def rewrite() -> None:
            async with workers.worker() as worker:
                planned = Rewrite(12, 0.5, 0, _even_offsets)
                config = broker.topics.get(TOPIC).config
                await worker.rewrite(partition, planned, config, broker.clock())

        with trio.fail_after(DEADLINE_S):
            async with trio.open_nursery() as nursery, workers.worker():
                nursery.start_soon(rewrite)
                await trio.testing.wait_all_tasks_blocked(0.1)
                broker.config.set_dynamic({"log.cleaner.threads": "0"}, {})
        assert workers.most == 0
        assert offsets(partition)[:6] == [0, 2, 4, 6, 8, 10]


async def test_rewrite_of_the_most_urgent_log_comes_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    urgencies = {"little": 0.1, "most": 0.9, "some": 0.5}
    policy = Rewriting(Filter, urgency=lambda log: urgencies[log.topic_partition.topic])
    async with running(tmp_path, "file") as broker:
        for name in urgencies:
            await filled(broker, name)
        with caplog.at_level(logging.INFO):
            statistics = await Cleanup(broker, policy).run()
    done = [text.split("-0:")[0] for text in caplog.messages if "rewrote the log" in text]
    assert done == ["most", "some", "little"]
    assert statistics.most_urgency == 0.9


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Broken, "ZeroDivisionError: 6 records"),
        (TooShort, "the filter answers for (5,) records of 6"),
        (type("Local", (Filter,), {}), "cannot be sent to another process"),
    ],
)
async def test_rewrite_with_a_filter_that_fails_leaves_the_log_and_is_tried_again(
    make: Callable[[], Any], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, "file") as broker:
        broken, sound = await filled(broker), await filled(broker, "sound")
        policy = Rewriting(make)
        cleanup = Cleanup(broker, policy)
        statistics = await cleanup.run()
        assert (statistics.failures, statistics.postponed_partitions) == (2, 2)
        assert reason in caplog.text
        policy.make = EvenOffsets
        cleanup.seconds = FIRST_BACKOFF_S - 0.1
        statistics = await cleanup.run()
        assert (statistics.rewrites, statistics.failures, statistics.postponed_partitions) == (0, 2, 2)
        assert statistics.longest_backoff_seconds == FIRST_BACKOFF_S
        for partition in (broken, sound):
            assert (offsets(partition), bases(partition)) == ([*range(18)], [0, 6, 12])
        await broker.topics.alter_config(
            TOPIC, lambda _: {"cleanup.policy": "delete", "retention.bytes": "5"}
        )
        statistics = await cleanup.run()
        assert (statistics.rewrites, statistics.postponed_partitions) == (1, 1)
        assert offsets(broken)[:6] == [0, 2, 4, 6, 8, 10]
        cleanup.seconds = FIRST_BACKOFF_S
        statistics = await cleanup.run()
        assert (statistics.rewrites, statistics.postponed_partitions) == (2, 0)
        assert (statistics.longest_backoff_seconds, statistics.unrewritable_partitions) == (0, 0)
    assert not [name for name in os.listdir(tmp_path / f"{TOPIC}-0") if name.endswith(".cleaned")]  # noqa: PTH208


async def test_statistics_forget_a_failed_rewrite_of_a_topic_that_is_deleted(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        for topic in (TOPIC, "deleted"):
            await filled(broker, topic)
        cleanup = Cleanup(broker, Rewriting(Broken))
        assert (await cleanup.run()).postponed_partitions == 2
        await broker.topics.delete("deleted")
        statistics = await cleanup.run()
        assert (statistics.failures, statistics.postponed_partitions) == (2, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
async def test_rewrite_has_one_thread_in_the_worker(tmp_path: Path) -> None:
    """Each other one would run at times when the broker needs a processor."""
    async with running(tmp_path, "file") as broker:
        await filled(broker)
        statistics = await Cleanup(broker, Rewriting(CountThreads)).run()
        assert statistics.counts == {"threads": 1}


async def test_rewrite_survives_workers_that_die(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        policy = Rewriting(Deadly)
        cleanup = Cleanup(broker, policy)
        for deaths, backoff_s in enumerate((15, 30, 60, 120), 1):
            statistics = await cleanup.run()
            assert (statistics.dead_workers, statistics.failures) == (deaths, deaths)
            assert statistics.longest_backoff_seconds == backoff_s
            assert (await cleanup.run()).dead_workers == deaths
            cleanup.seconds += backoff_s
        assert "was killed by SIGKILL" in caplog.text
        assert statistics.unrewritable_partitions == 0  # pyright: ignore[reportPossiblyUnboundVariable]
        assert offsets(partition) == [*range(18)]
        policy.make = EvenOffsets
        statistics = await cleanup.run()
        assert (statistics.rewrites, statistics.postponed_partitions) == (1, 0)
        await partition.roll()
        policy.make = Deadly
        assert (await cleanup.run()).longest_backoff_seconds == 15


async def test_rewrite_is_tried_again_when_a_disk_has_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refuses = tmp_path / "refuses"
    refuses.touch()
    async with running(tmp_path, "file", **{"log.dirs": str(tmp_path / "data")}) as broker:
        partition = await filled(broker)
        cleanup = Cleanup(broker, Rewriting(lambda: Refused(path=str(refuses))))
        for postponed in (1, 1):
            statistics = await cleanup.run()
            assert (statistics.postponed_partitions, statistics.failures) == (postponed, 1)
        refuses.unlink()
        assert (await cleanup.run()).rewrites == 0
        cleanup.seconds += FIRST_BACKOFF_S
        statistics = await cleanup.run()
        assert (statistics.rewrites, statistics.postponed_partitions) == (1, 0)
        assert offsets(partition)[:6] == [0, 2, 4, 6, 8, 10]
    (message,) = [each for each in caplog.messages if "rewriting" in each]
    assert message.startswith(
        "flights-0: cleanup policy delete: rewriting failed, and is tried again in 15 s: [Errno 5]"
    )


async def test_rewrite_of_a_corrupt_log_is_given_up_until_what_is_corrupt_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        file = tmp_path / f"{TOPIC}-0" / f"{6:020d}.log"
        content = bytearray(file.read_bytes())
        content[-2] ^= 1  # of the last value
        file.write_bytes(content)
        cleanup = Cleanup(broker, Rewriting(EvenOffsets))
        for _ in range(2):
            statistics = await cleanup.run()
            assert (statistics.unrewritable_partitions, statistics.failures) == (1, 1)
            assert (statistics.postponed_partitions, statistics.longest_backoff_seconds) == (0, 0)
            # Neither time nor what is appended makes it readable.
            cleanup.seconds += 10 * MOST_BACKOFF_S
            partition.append_nowait(make_batch([b"more"]))
        await partition.delete_segments_before(12)
        await partition.roll()
        statistics = await cleanup.run()
        assert (statistics.rewrites, statistics.unrewritable_partitions) == (1, 0)
        assert offsets(partition) == [12, 14, 16, 18]
    (message,) = [each for each in caplog.messages if "cannot be rewritten" in each]
    assert "has a wrong checksum; it is passed over until what is damaged is gone" in message


# --- what comes in between

THROTTLED = {"log.cleaner.io.max.bytes.per.second": 1.0}
NO_THROTTLE = {"log.cleaner.io.max.bytes.per.second": "1e9"}


async def rewrite_meanwhile(
    broker: Broker, act: Callable[[], Awaitable[object]], *, surveys: bool, until: int = 12
) -> Rewritten | None:
    """What a rewrite has done of which the worker has reported a first progress when `act` is called.

    The worker waits then for its share of the throttle: in the survey if it `surveys`, with a draft if not.

    Raises:
        TidelogError: as the rewrite ended.
    """
    topic = broker.topics.get(TOPIC)
    planned = Rewrite(until, 0.5, 0 if surveys else until, _even_offsets)
    begun = trio.Event()

    async def act_when_begun() -> None:
        await begun.wait()
        await act()

    async def rewrite(worker: Worker) -> Rewritten:
        def observe(*_: object) -> None:
            begun.set()

        return await worker.rewrite(topic.partitions[0].log, planned, topic.config, broker.clock(), observe)

    with trio.fail_after(DEADLINE_S):
        async with Workers(broker.config).worker() as worker, trio.open_nursery() as nursery:
            nursery.start_soon(act_when_begun)
            try:
                return await rewrite(worker)
            except TidelogError as error:
                failure = error
    raise failure


@pytest.mark.parametrize("surveys", [True, False])
async def test_rewrite_ends_when_the_topic_is_deleted(surveys: bool, tmp_path: Path) -> None:
    async with running(tmp_path, "file", **THROTTLED) as broker:
        await filled(broker)
        with pytest.raises((BrokerError, RewriteAborted), match=r"gone|close"):
            await rewrite_meanwhile(broker, lambda: broker.topics.delete(TOPIC), surveys=surveys)


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_rewrite_is_given_up_at_once_when_the_log_is_truncated(storage: str, tmp_path: Path) -> None:
    async with running(tmp_path, storage, **THROTTLED) as broker:
        partition = await filled(broker)

        async def truncate() -> None:
            await partition.truncate_to(9)

        with pytest.raises(RewriteAborted, match="truncate"):
            await rewrite_meanwhile(broker, truncate, surveys=False)
        assert offsets(partition) == [*range(9)]


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize(("offset", "left"), [(0, 0), (3, 3), (9, 9), (11, 9)])
async def test_rewrite_of_a_log_that_is_truncated_in_the_survey_is_given_up(
    offset: int, left: int, storage: str, tmp_path: Path
) -> None:
    """It is not taken for damaged, and what is left of it is rewritten the next time."""
    async with running(tmp_path, storage, **THROTTLED) as broker:
        partition = await filled(broker)

        async def truncate() -> None:
            await partition.truncate_to(offset)
            broker.config.set_dynamic(NO_THROTTLE, {})

        with pytest.raises(RewriteAborted):
            await rewrite_meanwhile(broker, truncate, surveys=True)
        assert offsets(partition) == [*range(left)]


async def test_run_says_that_a_rewrite_was_given_up_and_tries_it_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That the log was truncated meanwhile is no failure: there is nothing to wait for."""
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)

        def truncate_and_make() -> EvenOffsets:
            trio.from_thread.run(partition.truncate_to, 9)
            return EvenOffsets()

        policy = Rewriting(truncate_and_make)
        cleanup = Cleanup(broker, policy)
        with caplog.at_level(logging.INFO):
            statistics = await cleanup.run()
        assert (statistics.aborted_rewrites, statistics.failures, statistics.rewrites) == (1, 0, 0)
        (message,) = [each for each in caplog.messages if "given up for now" in each]
        assert message.startswith("flights-0: rewriting is given up for now: ")
        assert "truncated" in message
        policy.make = EvenOffsets
        assert (await cleanup.run()).rewrites == 1
        assert offsets(partition) == [0, 2, 4, 6, 7, 8]


async def test_rewrite_of_a_log_that_has_grown_again_after_a_truncation_is_given_up(tmp_path: Path) -> None:
    async with running(tmp_path, "file", **THROTTLED) as broker:
        partition = await filled(broker)

        async def truncate_and_append() -> None:
            await partition.truncate_to(3)
            for _ in range(4):
                partition.append_nowait(make_batch([b"d", b"e", b"f"]))
            await partition.roll()
            broker.config.set_dynamic(NO_THROTTLE, {})

        with pytest.raises(RewriteAborted, match="truncated"):
            await rewrite_meanwhile(broker, truncate_and_append, surveys=True, until=6)
        assert (offsets(partition), bases(partition)) == ([*range(15)], [0, 15])


async def test_rewrite_goes_on_when_only_the_active_segment_is_truncated(tmp_path: Path) -> None:
    async with running(tmp_path, "file", **THROTTLED) as broker:
        partition = await filled(broker)

        async def truncate() -> None:
            await partition.truncate_to(14)
            broker.config.set_dynamic(NO_THROTTLE, {})

        assert await rewrite_meanwhile(broker, truncate, surveys=True)
        assert offsets(partition) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("surveys", [True, False])
async def test_rewrite_is_given_up_when_segments_are_deleted(
    surveys: bool, storage: str, tmp_path: Path
) -> None:
    async with running(tmp_path, storage, **THROTTLED) as broker:
        partition = await filled(broker)

        async def delete() -> None:
            await partition.delete_segments_before(7)
            broker.config.set_dynamic(NO_THROTTLE, {})

        with pytest.raises(RewriteAborted, match=r"deleted|No such file"):
            await rewrite_meanwhile(broker, delete, surveys=surveys)
        assert (offsets(partition), bases(partition)) == ([*range(6, 18)], [6, 12])


async def test_rewrite_of_segments_that_were_all_deleted_before_it_begins_is_given_up(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        await partition.delete_segments_before(12)
        planned, config = Rewrite(12, 0.5, 0, _even_offsets), broker.topics.get(TOPIC).config
        async with Workers(broker.config).worker() as worker:
            with pytest.raises(RewriteAborted, match="deleted"):
                await worker.rewrite(partition, planned, config, broker.clock())
            assert not worker.works
        assert offsets(partition) == [*range(12, 18)]


async def test_rewrite_is_given_up_at_once_when_a_move_begins(tmp_path: Path) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    log_dirs = ",".join(map(str, directories))
    async with running(tmp_path, "file", **{"log.dirs": log_dirs}, **THROTTLED) as broker:
        partition = await filled(broker)
        here = next(each for each in directories if (each / f"{TOPIC}-0").exists())
        (there,) = {*directories} - {here}
        admin = broker.storage.log_directories
        assert admin is not None
        move = partial(admin.move, partition.topic_partition, str(there))
        with pytest.raises(RewriteAborted, match="move"):
            await rewrite_meanwhile(broker, move, surveys=False)
        assert offsets(partition) == [*range(18)]


async def test_rewrite_goes_by_a_throttle_that_is_raised_meanwhile(tmp_path: Path) -> None:
    async with running(tmp_path, "file", **THROTTLED) as broker:
        partition = await filled(broker)

        async def raise_throttle() -> None:
            broker.config.set_dynamic(NO_THROTTLE, {})

        assert await rewrite_meanwhile(broker, raise_throttle, surveys=True)
        assert offsets(partition)[:6] == [0, 2, 4, 6, 8, 10]


async def test_rewrite_counts_no_further_than_a_log_that_was_truncated_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        replace = UnifiedLog.replace_segments

        async def replace_and_truncate(
            self: UnifiedLog, drafts: Sequence[SegmentDraft], replaced: Sequence[int]
        ) -> None:
            await replace(self, drafts, replaced)
            await self.truncate_to(4)

        monkeypatch.setattr(UnifiedLog, "replace_segments", replace_and_truncate)
        cleanup = Cleanup(broker, Rewriting(EvenOffsets))
        assert (await cleanup.run()).rewrites == 1
        assert partition.store.rewritten_until("delete") == partition.log_end_offset <= 4


async def test_rewrite_is_cancelled_when_the_broker_stops(tmp_path: Path) -> None:
    async with running(tmp_path, "file", **{"log.cleaner.io.max.bytes.per.second": 100.0}) as broker:
        await filled(broker)
        with trio.move_on_after(1):
            await Cleanup(broker, Rewriting(EvenOffsets)).run()
    async with running(tmp_path, "file") as broker:
        (partition,) = broker.topics.get(TOPIC).partitions
        assert offsets(partition.log) == [*range(18)]
        assert (await Cleanup(broker, Rewriting(EvenOffsets)).run()).rewrites == 1
        assert offsets(partition.log)[:6] == [0, 2, 4, 6, 8, 10]


async def test_worker_that_is_left_before_its_first_message_still_has_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be kept otherwise, and its messages taken for those of the next rewrite."""
    async with running(tmp_path, "file") as broker:
        partition = await filled(broker)
        planned, config = Rewrite(12, 0.5, 0, _even_offsets), broker.topics.get(TOPIC).config
        async with Workers(broker.config).worker() as worker:
            assert not worker.works
            with trio.CancelScope() as scope:

                async def leave(_: WorkerProcess) -> None:
                    scope.cancel()
                    await trio.sleep_forever()

                monkeypatch.setattr(WorkerProcess, "receive", leave)
                await worker.rewrite(partition, planned, config, broker.clock())
            assert scope.cancelled_caught
            assert worker.works


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
async def test_a_worker_has_the_codecs_of_the_broker(tmp_path: Path, codec: int) -> None:
    async with running(tmp_path, "file") as broker:
        topic = await broker.topics.create(TopicSpec(TOPIC, 1, config={"cleanup.policy": "delete"}))
        (partition,) = topic.partitions
        partition.log.append_nowait(compressed(make_batch([b"value"] * 6), codec))
        assert await partition.log.roll()
        partition.log.append_nowait(make_batch())
        statistics = await Cleanup(broker, Rewriting(EvenOffsets)).run()
        assert statistics.failures == 0
        assert offsets(partition.log) == [0, 2, 4, 6]
        first = next(iter(partition.log.store.headers(0)))
        assert (first.codec, first.record_count) == (codec, 3)


async def test_rewrite_leaves_out_aborted_records_of_every_segment(tmp_path: Path) -> None:
    async with running(tmp_path, "file") as broker:
        topic = await broker.topics.create(TopicSpec(TOPIC, 1, config={"cleanup.policy": "delete"}))
        (partition,) = topic.partitions
        for producer_id in (1, 2):
            batch = make_batch(
                [b"aborted"],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            partition.log.append_nowait(batch, in_transaction=True)
            partition.log.append_marker(producer_id, 0, 0, commit=False)
            partition.log.append_nowait(make_batch([b"plain"]))
            assert await partition.log.roll()
        partition.log.append_nowait(make_batch([b"active"]))
        assert (await Cleanup(broker, Rewriting(Filter)).run()).rewrites == 1
        assert b"aborted" not in [record.value for record in stored_records(partition.log)]
