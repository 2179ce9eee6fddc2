"""Cleanup policies are asked, checked and carried out, whatever they plan."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pickle import PicklingError
from typing import Any

import attrs
import pytest
import trio

from tests.plugins.cleaner.filters import (
    DropNewest,
    DropTheLast,
    EvenOffsets,
    Filter,
    ForgetTombstones,
    TooShort,
)
from tests.tables import for_each
from tests.turns import turns_of_another_task
from tidelog.kernel import pace
from tidelog.kernel.broker import Broker
from tidelog.kernel.config import Config, TopicConfig
from tidelog.kernel.errors import InvalidTopicConfig, StorageError
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.seams.cleanup import NOTHING, CleanupPolicy, LogView, Plan, RecordFilter, Rewrite
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import ForwardingStore, SegmentView
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.cleanup import CleanupPolicyConformance
from tidelog.plugins.cleaner.compaction.policy import CompactionPolicy
from tidelog.plugins.cleaner.execution import planning, workers
from tidelog.plugins.cleaner.execution.log_cleanup import LogCleanup
from tidelog.plugins.retention.policy import RetentionPolicy

TOPIC = "flights"


@attrs.define
class Policy:
    """Makes plans with a function, and notes for which logs it was asked."""

    make: Callable[[LogView], Any]
    name: str = "delete"
    asked: list[LogView] = attrs.field(factory=list[LogView])

    def interval_ms(self, config: Config) -> int:
        """Never by itself within a test."""
        del config
        return 1 << 40

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        """Whatever the function returns."""
        del now_ms, config
        self.asked.append(log)
        return self.make(log)  # type: ignore[no-any-return]


def cleanup_of(broker: Broker, *policies: CleanupPolicy) -> Callable[[], Any]:
    """What looks at every log once, for each of the policies."""
    made = LogCleanup({each.name: each for each in policies}, broker.config, broker.topics, broker.clock)

    async def run() -> dict[str, Any]:
        for task in made.policy_tasks():
            await task.run()
        return made.statistics()

    return run


async def filled(broker: Broker, name: str = TOPIC, policies: str = "delete", batches: int = 6) -> UnifiedLog:
    """The partition of a new topic: two batches a segment, the last one active."""
    config = {"segment.bytes": "1048576", "cleanup.policy": policies}
    topic = await broker.topics.create(TopicSpec(name, 1, config=config))
    (partition,) = topic.partitions
    for index in range(batches):
        if index and not index % 2:
            assert await partition.log.roll()
        partition.log.append_nowait(make_batch([b"x" * 100]))
    return partition.log


def bases(partition: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in partition.store.segments()]


async def test_run_deletes_what_a_policy_plans(caplog: pytest.LogCaptureFixture) -> None:
    policy = Policy(lambda log: Plan(log.segments[1].base_offset, reason="it is old"))
    async with running_broker() as broker:
        partition = await filled(broker)
        run = cleanup_of(broker, policy)
        size = partition.store.segments()[0].size_bytes
        with caplog.at_level(logging.INFO):
            statistics = await run()
        assert (bases(partition), partition.log_start_offset) == ([2, 4], 2)
        assert (statistics["delete"].deleted_segments, statistics["delete"].deleted_bytes) == (1, size)
        assert (
            f"flights-0: cleanup policy delete deleted 1 segment(s), {size} bytes; the log starts at 2, no "
            "longer at 0 (it is old)" in caplog.messages
        )
        assert (await run())["delete"].deleted_segments == 2
        assert bases(partition) == [4]
    (first, second) = policy.asked
    assert (first.log_start_offset, second.log_start_offset) == (0, 2)
    assert (first.last_stable_offset, first.high_watermark, first.log_end_offset) == (6, 6, 6)
    assert first.size_bytes == 3 * size


async def test_run_rolls_an_active_segment_that_goes() -> None:
    policy = Policy(lambda log: Plan(log.log_end_offset, roll=True) if log.active.size_bytes else NOTHING)
    async with running_broker() as broker:
        partition = await filled(broker)
        statistics = await cleanup_of(broker, policy)()
        assert (bases(partition), partition.log_start_offset, partition.log_end_offset) == ([6], 6, 6)
        assert (statistics["delete"].rolled_segments, statistics["delete"].deleted_segments) == (1, 3)
        assert partition.append_nowait(make_batch([b"more"])).base_offset == 6


async def test_run_counts_no_roll_of_an_active_segment_that_was_emptied_since() -> None:
    async with running_broker() as broker:
        partition = await filled(broker)

        def make(log: LogView) -> Plan:
            trio.from_thread.run(partition.truncate_to, log.active.base_offset)
            return Plan(roll=True)

        statistics = await cleanup_of(broker, Policy(make))()
        assert (bases(partition), partition.log_end_offset) == ([0, 2, 4], 4)
        assert (statistics["delete"].rolled_segments, statistics["delete"].failures) == (0, 0)


async def test_run_keeps_what_was_appended_between_a_plan_and_its_roll() -> None:
    async with running_broker() as broker:
        partition = await filled(broker)
        roll = partition.roll

        async def append_and_roll() -> bool:
            partition.append_nowait(make_batch([b"more"]))
            return await roll()

        topics = topic_of(broker, _with(partition, roll=append_and_roll))
        policy = Policy(lambda log: Plan(log.log_end_offset, roll=True))
        (task,) = LogCleanup({"delete": policy}, broker.config, topics, broker.clock).policy_tasks()
        await task.run()
        assert (partition.log_start_offset, partition.log_end_offset) == (6, 7)
        assert bases(partition) == [4, 7]


def topic_of(broker: Broker, log: Any) -> Any:
    """The topic with another log."""
    partition = types.SimpleNamespace(log=log)
    return [types.SimpleNamespace(config=broker.topics.get(TOPIC).config, partitions=[partition])]


def _with(partition: UnifiedLog, **changed: Any) -> Any:
    """A log that differs in some attributes."""

    class Changed:
        def __getattr__(self, name: str) -> Any:
            return changed[name] if name in changed else getattr(partition, name)

    return Changed()


def past_the_high_watermark(log: LogView) -> Plan:
    return Plan(log.high_watermark + 1, roll=log.active.size_bytes > 0)


def into_the_active_segment(log: LogView) -> Plan:
    return Plan(log.active.base_offset + 1) if log.high_watermark > log.active.base_offset else NOTHING


def below_zero(_: LogView) -> Plan:
    return Plan(-1)


def roll_without_records(log: LogView) -> Plan:
    return Plan(roll=not log.active.size_bytes)


def no_plan(_: LogView) -> Any:
    return None


def an_error(_: LogView) -> Plan:
    raise ZeroDivisionError("oh")


def rewrite_of(until: int, **more: Any) -> Callable[[LogView], Plan]:
    fields: dict[str, Any] = {"urgency": 0.5, "survey_from": 0, "make_filter": keep_all, **more}
    return lambda _: Plan(rewrite=Rewrite(until, **fields))


def keep_all(config: Config) -> RecordFilter:
    del config
    return Filter()


async def test_run_refuses_a_wrong_rewrite(caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker() as broker:
        partition = await filled(broker)
        statistics = (await cleanup_of(broker, Policy(rewrite_of(3)))())["delete"]
        assert (statistics.failures, statistics.rewrites, bases(partition)) == (1, 0, [0, 2, 4])
    assert "the plan is refused: it rewrites up to 3, where no segment begins after the first" in caplog.text


async def test_run_refuses_to_rewrite_an_open_transaction(caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker() as broker:
        partition = await filled(broker, batches=2)
        batch = make_batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        partition.append_nowait(batch, in_transaction=True)
        await partition.roll()
        partition.append_nowait(make_batch([b"x"]))
        statistics = (await cleanup_of(broker, Policy(rewrite_of(3)))())["delete"]
        assert (statistics.failures, statistics.rewrites) == (1, 0)
    assert "it rewrites up to 3, but transactions are open from 2 on" in caplog.text


WRONG: dict[Callable[[LogView], Any], str] = {
    past_the_high_watermark: "the plan is refused: it deletes up to 7, but only offsets below 6 are "
    "committed",
    into_the_active_segment: "the plan is refused: it deletes up to 5, which is in the active segment at 4, "
    "without rolling that",
    below_zero: "the plan is refused: it deletes up to -1, but only offsets below 6 are committed",
    no_plan: "the plan is refused: it is no plan, but None",
    an_error: "no plan: ZeroDivisionError: oh",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
async def test_run_refuses_a_wrong_plan_and_says_so_once(
    wrong: Callable[[LogView], Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_described", RateLimit(600))
    async with running_broker() as broker:
        partition, other = await filled(broker), await filled(broker, "trains")
        run = cleanup_of(
            broker, Policy(lambda log: NOTHING if "trains" in str(log.topic_partition) else wrong(log))
        )
        for failures in (1, 2):
            assert (await run())["delete"].failures == failures
        for each in (partition, other):
            assert (bases(each), each.log_start_offset) == ([0, 2, 4], 0)
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [f"flights-0: cleanup policy delete: {WRONG[wrong]}"]
    tracebacks = [record for record in caplog.records if record.exc_info]
    assert len(tracebacks) == (wrong is an_error)


async def test_run_refuses_to_roll_an_empty_segment(caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker() as broker:
        partition = await filled(broker, batches=0)
        statistics = await cleanup_of(broker, Policy(roll_without_records))()
        assert (bases(partition), statistics["delete"].failures) == ([0], 1)
    assert "it rolls the active segment at 0, which is empty" in caplog.text


def suite_of(policy: CleanupPolicy) -> CleanupPolicyConformance:
    """The suite for a plugin that offers that policy."""
    plugin: Any = types.ModuleType("wrong")
    plugin.tidelog_cleanup_policies = lambda: [policy]
    return type("Suite", (CleanupPolicyConformance,), {"plugin": plugin})()  # type: ignore[no-any-return]


def undecided(answers: list[int]) -> Callable[[LogView], Plan]:
    """Plans that change from one call to the next."""

    def make(log: LogView) -> Plan:
        answers.append(0)
        return Plan(log.log_start_offset if len(answers) % 2 else None)

    return make


def promise_and_forget(calls: list[int]) -> Callable[[LogView], Plan]:
    """Plans that promise to remove nothing for long, and do so the next time."""

    def make(log: LogView) -> Plan:
        calls.append(0)
        if len(calls) % 2 or len(log.segments) < 2:
            return Plan(not_before_ms=1 << 62)
        return Plan(min(log.segments[1].base_offset, log.high_watermark))

    return make


def rewrite_for_ever(log: LogView) -> Plan:
    """Rewrites everything, whether or not that was done before."""
    until = log.active.base_offset
    if len(log.segments) < 2 or until > min(log.last_stable_offset, log.high_watermark):
        return NOTHING
    return Plan(rewrite=Rewrite(until, 0.5, 0, keep_all))


def never_content(log: LogView) -> Plan:
    """Deletes one more record each time, even when there is none."""
    return Plan(min(log.log_start_offset + 1, log.high_watermark), roll=log.active.size_bytes > 0)


@for_each(
    ("make", "test"),
    [
        (past_the_high_watermark, "test_plan_can_be_carried_out"),
        (past_the_high_watermark, "test_plan_of_an_empty_log_removes_nothing"),
        (into_the_active_segment, "test_plan_can_be_carried_out"),
        (below_zero, "test_plan_can_be_carried_out"),
        (roll_without_records, "test_plan_of_an_empty_log_removes_nothing"),
        (no_plan, "test_plan_can_be_carried_out"),
        (an_error, "test_plan_can_be_carried_out"),
        (undecided([]), "test_plan_depends_on_its_arguments_alone"),
        (promise_and_forget([]), "test_plan_keeps_the_promise_of_not_before_ms"),
        (never_content, "test_plan_comes_to_an_end"),
        (rewrite_for_ever, "test_plan_comes_to_an_end"),
    ],
)
def test_cleanup_policy_conformance_detects_a_wrong_policy(make: Callable[[LogView], Any], test: str) -> None:
    suite, policy = suite_of(Policy(make)), Policy(make)
    topics: Sequence[TopicConfig] = [TopicConfig()]
    with pytest.raises(
        (AssertionError, ValueError, AttributeError, ZeroDivisionError, pytest.fail.Exception)
    ):
        partial(getattr(suite, test), policy, topics)()


@pytest.mark.parametrize(
    ("make", "test"),
    [
        (TooShort, "test_keep_answers_for_every_record"),
        (type("Local", (Filter,), {}), "test_keep_answers_for_every_record"),
        (DropNewest, "test_keep_has_the_newest_record_of_each_key"),
        (ForgetTombstones, "test_keep_has_the_newest_record_of_each_key"),
        (DropTheLast, "test_keep_has_the_newest_record_of_each_key"),
        (DropTheLast, "test_keep_drops_nothing_of_what_it_has_kept"),
    ],
)
def test_cleanup_policy_conformance_detects_a_wrong_filter(
    make: Callable[[], RecordFilter], test: str
) -> None:
    def plan(log: LogView) -> Plan:
        until = log.active.base_offset
        if len(log.segments) < 2 or until > min(log.last_stable_offset, log.high_watermark):
            return NOTHING
        return Plan(rewrite=Rewrite(until, 0.5, 0, lambda _: make()))

    suite, policy = suite_of(Policy(plan)), Policy(plan)
    type(suite).keeps_newest = True
    with pytest.raises((AssertionError, PicklingError)):
        getattr(suite, test)(policy, None, [TopicConfig()])


def test_cleanup_policy_conformance_proves_a_rule_of_its_own() -> None:
    """A policy that is to keep the records with even offsets keeps the others."""

    class Suite(CleanupPolicyConformance):
        def must_stay(self, block: RecordBlock) -> Sequence[bool]:
            return [offset % 2 == 0 for offset in block.offset.tolist()]

    def check(make: Callable[[], RecordFilter]) -> None:
        def made(_: Config) -> RecordFilter:  # pyright: ignore[reportUnusedFunction]
            return make()

        def plan(log: LogView) -> Plan:
            plan = rewrite_for_ever(log)
            rewrite = plan.rewrite
            return (
                plan if rewrite is None else Plan(rewrite=attrs.evolve(rewrite, make_filter=lambda _: make()))
            )

        config: Any = None
        Suite().test_keep_has_the_newest_record_of_each_key(Policy(plan), config, [TopicConfig()])

    check(EvenOffsets)
    with pytest.raises(AssertionError, match="a record that has to stay is dropped"):
        check(DropTheLast)


async def test_run_asks_nothing_before_the_promised_time_of_a_log_that_stays_as_it_is() -> None:
    clock = FakeClock()
    policy = Policy(lambda _: Plan(not_before_ms=clock() + 1000))
    async with running_broker(clock=clock) as broker:
        partition = await filled(broker)
        run = cleanup_of(broker, policy)

        async def truncate() -> None:
            await partition.truncate_to(partition.log_end_offset - 1)

        async def replace() -> None:
            draft = partition.store.draft_segment(0)
            await partition.replace_segments([draft], [0])

        async def alter() -> None:
            await broker.topics.alter_config(TOPIC, lambda _: {"cleanup.policy": "delete"})

        async def move() -> None:
            # As a storage with several log directories reports it.
            broker._partition_moved(partition.topic_partition, "elsewhere")  # pyright: ignore[reportPrivateUsage]

        steps: Sequence[tuple[int, Callable[[], object]]] = (
            (1, lambda: None),
            (1, lambda: clock.advance(999)),
            (2, lambda: clock.advance(1)),
            (2, lambda: clock.advance(-5000)),
            (2, lambda: clock.advance(5000)),
            (3, lambda: partition.append_nowait(make_batch([b"more"]))),
            (4, truncate),
            (4, partition.flush),
            (5, replace),
            (6, partition.roll),
            (7, move),
            (8, lambda: partition.delete_records_before(1)),
            (8, lambda: None),
            (9, alter),
            (9, lambda: None),
        )
        for expected, change in steps:
            changed = change()
            if isinstance(changed, Coroutine):
                await changed
            await broker.tasks.wait_for_jobs()
            await run()
            assert len(policy.asked) == expected


async def test_run_asks_nothing_of_idle_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it starts no thread for them."""
    policies: Sequence[CleanupPolicy] = (RetentionPolicy(), CompactionPolicy())
    async with running_broker() as broker:
        config = {"cleanup.policy": "compact,delete"}
        topic = await broker.topics.create(TopicSpec(TOPIC, 200, config=config))
        for partition in topic.partitions[::2]:
            partition.log.append_nowait(make_batch([b"x"], keys=[b"k"]))
        run = cleanup_of(broker, *policies)
        await run()
        for policy in policies:
            monkeypatch.setattr(policy, "plan", None)
        monkeypatch.setattr(trio.to_thread, "run_sync", None)
        statistics = await run()
    assert [each.failures for each in statistics.values()] == [0, 0]


@pytest.mark.parametrize(("topics", "partitions"), [(1, 100), (100, 1)])
async def test_run_lets_other_tasks_run_while_it_looks_at_idle_logs(
    topics: int, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether one topic has many partitions, or many topics have another policy."""
    async with running_broker() as broker:
        policies = "delete" if topics == 1 else "compact"
        for number in range(topics):
            new = TopicSpec(f"{TOPIC}{number}", partitions, config={"cleanup.policy": policies})
            await broker.topics.create(new)
        run = cleanup_of(broker, RetentionPolicy())
        await run()
        monkeypatch.setattr(pace, "STEP_SECONDS", 0.0)
        async with turns_of_another_task() as turns:
            await run()
            assert turns.count > 90


async def test_run_has_one_call_of_a_thread_for_many_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    run_sync = trio.to_thread.run_sync

    async def counting(job: Callable[..., Any], *args: Any, **more: Any) -> Any:
        calls.append(job)
        return await run_sync(job, *args, **more)

    policy = Policy(lambda _: NOTHING)
    async with running_broker() as broker:
        await broker.topics.create(TopicSpec(TOPIC, 200))
        run = cleanup_of(broker, policy)
        monkeypatch.setattr(trio.to_thread, "run_sync", counting)
        await run()
    assert (len(policy.asked), len(calls)) == (200, 4)


async def test_run_deletes_by_age_what_compaction_has_left() -> None:
    """Compaction lowers the largest timestamp of a segment, so that it is due earlier than before."""
    clock = FakeClock()
    async with running_broker({"storage": "memory"}, clock=clock) as broker:
        config = {
            "cleanup.policy": "compact,delete", "retention.ms": "100000", "segment.bytes": "1048576"
        }  # fmt: skip
        topic = await broker.topics.create(TopicSpec(TOPIC, 1, config=config))
        (partition,) = topic.partitions
        for key, timestamp in ((b"old", clock()), (b"new", clock() + 90_000)):
            partition.log.append_nowait(make_batch([b"x" * 400_000], keys=[key], timestamps=timestamp))
        await partition.log.roll()
        clock.advance(90_000)
        # So large that it is not put together with the segment before.
        partition.log.append_nowait(make_batch([b"x" * 800_000], keys=[b"new"], timestamps=clock()))
        await partition.log.roll()
        partition.log.append_nowait(make_batch([b"x"], keys=[b"active"], timestamps=clock()))
        run_retention = cleanup_of(broker, RetentionPolicy())
        await run_retention()
        await cleanup_of(broker, CompactionPolicy())()
        assert partition.log.log_start_offset == 0
        clock.advance(10_001)
        assert (await run_retention())["delete"].deleted_segments == 1
        assert partition.log.log_start_offset > 0


async def test_run_keeps_no_promise_about_a_topic_that_is_gone() -> None:
    policy = Policy(lambda _: Plan(not_before_ms=1 << 62))
    async with running_broker() as broker:
        run = cleanup_of(broker, policy)
        for number in range(1, 3):
            await filled(broker)
            await run()
            await run()
            assert len(policy.asked) == number
            await broker.topics.delete(TOPIC)


async def test_run_lets_one_policy_at_a_time_have_a_partition() -> None:
    gate, asked = trio.Event(), list[str]()

    def make(name: str) -> Callable[[LogView], Plan]:
        def plan(_: LogView) -> Plan:
            asked.append(name)
            if name == "compact" and len(asked) == 1:
                trio.from_thread.run(gate.wait)
            return NOTHING

        return plan

    async with running_broker() as broker:
        await filled(broker, policies="compact,delete", batches=0)
        policies = {name: Policy(make(name), name) for name in ("compact", "delete")}
        cleanup = LogCleanup(policies, broker.config, broker.topics, broker.clock)
        compact, delete = (task.run for task in cleanup.policy_tasks())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(compact)
            while not asked:
                await trio.lowlevel.checkpoint()
            await delete()
            assert asked == ["compact"]
            gate.set()
        await delete()
        assert asked == ["compact", "delete"]


async def test_run_holds_no_partition_back_after_an_error() -> None:
    async with running_broker() as broker:
        partition = await filled(broker)
        errors = [ZeroDivisionError("a fault of the storage")]

        async def roll() -> bool:
            if errors:
                raise errors.pop()
            return await partition.roll()

        topics = topic_of(broker, changed := _with(partition, roll=roll))
        policy = Policy(lambda log: Plan(log.log_end_offset, roll=True))
        (task,) = LogCleanup({"delete": policy}, broker.config, topics, broker.clock).policy_tasks()
        with pytest.raises(ZeroDivisionError):
            await task.run()
        assert bases(changed) == [0, 2, 4]
        await task.run()
        assert bases(changed) == [6]


async def test_run_rewrites_nothing_of_a_log_whose_segments_could_not_be_deleted() -> None:
    """The storage is asked to do one thing after the other, as the plan says."""
    async with running_broker({"log.cleaner.threads": 0}) as broker:
        partition = await filled(broker)

        async def refuse(_: int) -> Sequence[SegmentView]:
            raise StorageError("no")

        plan = Plan(2, rewrite=Rewrite(4, urgency=0.5, survey_from=2, make_filter=keep_all))
        found: list[tuple[float, int]] = []
        for changed in (_with(partition, delete_segments_before=refuse), partition):
            cleanup = LogCleanup(
                {"delete": Policy(lambda _: plan)}, broker.config, topic_of(broker, changed), broker.clock
            )
            (task,) = cleanup.policy_tasks()
            await task.run()
            statistics = cleanup.statistics()["delete"]
            found.append((statistics.most_urgency, statistics.failures))
        assert found == [(0, 1), (0.5, 0)]


async def test_rewrite_now_names_the_logs_that_no_process_could_be_started_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise BlockingIOError(11, "no more processes")

    monkeypatch.setattr(workers, "_new_process", refuse)
    async with running_broker() as broker:
        logs = [await filled(broker, name) for name in ("flights", "trains")]
        logs[0].store.set_rewritten_until("delete", 2)
        cleanup = LogCleanup({"delete": Policy(rewrite_of(4))}, broker.config, broker.topics, broker.clock)
        outcome = await cleanup.rewrite_now((), lambda *_: None)
        assert (outcome.done, sorted(outcome.failed)) == ([], [each.topic_partition for each in logs])
        assert cleanup.statistics()["delete"].failures == 1


async def test_background_tasks_are_one_for_each_policy_and_one_that_keeps_workers() -> None:
    policies: list[CleanupPolicy] = [Policy(lambda _: NOTHING), CompactionPolicy()]
    async with running_broker() as broker:
        cleanup = LogCleanup(
            {each.name: each for each in policies}, broker.config, broker.topics, broker.clock
        )
        assert [task.name for task in cleanup.background_tasks()] == [
            "cleanup policy delete",
            "cleanup policy compact",
            "cleanup workers",
        ]


async def test_run_passes_over_topics_of_other_policies_and_offline_partitions() -> None:
    policy = Policy(lambda _: NOTHING)
    async with running_broker() as broker:
        await filled(broker, "kept", policies="compact", batches=0)
        (await filled(broker, "offline")).take_offline()
        await filled(broker, "both", policies="compact,delete", batches=0)
        await cleanup_of(broker, policy)()
    assert [str(log.topic_partition) for log in policy.asked] == ["both-0"]


@pytest.mark.parametrize("reads", [False, True])
async def test_a_topic_that_is_deleted_under_a_plan_is_no_failure(reads: bool) -> None:
    async with running_broker() as broker:
        partition = await filled(broker)

        def make(log: LogView) -> Plan:
            trio.from_thread.run(broker.topics.delete, TOPIC)
            if reads:
                raise FileNotFoundError(2, "the first batch of a segment is gone")
            return Plan(log.active.base_offset)

        statistics = await cleanup_of(broker, Policy(make))()
        assert statistics["delete"].failures == 0
        assert partition.offline is not None


async def test_a_disk_that_refuses_is_a_failure_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker() as broker:
        partition = await filled(broker)
        refusals = [OSError(5, "no"), OSError(5, "no")]

        def segments() -> Sequence[SegmentView]:
            if refusals:
                raise refusals.pop()
            return partition.store.segments()

        store = ForwardingStore(partition.store)
        store.segments = segments  # type: ignore[method-assign]
        topics = topic_of(broker, _with(partition, store=store))
        policy = Policy(lambda log: Plan(log.active.base_offset))
        cleanup = LogCleanup({"delete": policy}, broker.config, topics, broker.clock)
        (task,) = cleanup.policy_tasks()
        for failures in (1, 2, 2):
            await task.run()
            assert cleanup.statistics()["delete"].failures == failures
        assert bases(partition) == [4]
    assert caplog.text.count("the log cannot be looked at") == 1


@pytest.mark.parametrize(
    ("noted", "found"), [(None, None), (0, 0), (1, 1), (6, 6), (7, 2), (2**63 - 1, 2)], ids=str
)
async def test_run_takes_a_log_for_dirty_that_ends_below_where_it_is_said_to_be_rewritten(
    noted: int | None, found: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """It is dirty from its start on, is noted as such, and is not warned of again."""
    async with running_broker() as broker:
        partition = await filled(broker)
        partition.raise_log_start(2)
        if noted is not None:
            partition.store.set_rewritten_until("delete", noted)
        policy = Policy(lambda _: NOTHING)
        run = cleanup_of(broker, policy)
        for _ in range(2):
            await run()
        assert [log.rewritten_until for log in policy.asked] == [found, found]
        assert partition.store.rewritten_until("delete") == found
    warnings = [text for text in caplog.messages if "it is rewritten from its start on" in text]
    assert warnings == (
        []
        if noted == found
        else [
            f"flights-0: cleanup policy delete is said to have rewritten the log up to {noted}, but it ends "
            "at 6; it is rewritten from its start on"
        ]
    )


async def test_a_warning_of_a_plan_is_logged_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    warnings = ["odd", "odd", "", "odd", "even"]
    async with running_broker() as broker:
        await filled(broker)
        run = cleanup_of(broker, Policy(lambda _: Plan(warning=warnings.pop(0))))
        for _ in tuple(warnings):
            await run()
    found = [text for text in caplog.messages if "cleanup policy delete" in text]
    assert found == [f"flights-0: cleanup policy delete: {each}" for each in ("odd", "odd", "even")]


async def test_cleanup_policy_takes_the_names_of_installed_policies() -> None:
    async with running_broker() as broker:
        with pytest.raises(InvalidTopicConfig) as raised:
            await broker.topics.create(TopicSpec("wrong", config={"cleanup.policy": "compact,delte"}))
        assert str(raised.value) == (
            "cleanup.policy = 'compact,delte': has 'delte', but may have any of compact, delete (did you "
            "mean delete?)."
        )
