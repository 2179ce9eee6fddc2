"""Flushing by time."""

from __future__ import annotations

import pytest

from tidelog.kernel.config import Config, keys
from tidelog.kernel.maintenance import TimedFlush, timed_flush_task
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.topics import Topic


def waiting(*topics: Topic) -> list[str]:
    return [topic.name for topic in topics if topic.partitions[0].log.has_unflushed]


async def test_timed_flush_flushes_only_what_waited_for_flush_ms() -> None:
    clock = FakeClock()
    async with running_broker(clock=clock) as broker:
        timed = await broker.topics.create(TopicSpec("timed", config={"flush.ms": "5000"}))
        untimed = await broker.topics.create(TopicSpec("untimed"))
        task = TimedFlush(broker.topics, clock)
        for topic in (timed, untimed):
            topic.partitions[0].log.append_nowait(make_batch([b"value"], timestamps=clock()))
        await task.run()
        assert waiting(timed, untimed) == ["timed", "untimed"]
        clock.advance(4999)
        await task.run()
        assert waiting(timed, untimed) == ["timed", "untimed"]
        clock.advance(1)
        await task.run()
        assert waiting(timed, untimed) == ["untimed"]


def test_timed_flush_task_runs_at_log_flush_scheduler_interval_ms() -> None:
    def interval(**values: object) -> float:
        config = Config.from_mapping({name.replace("_", "."): value for name, value in values.items()})
        interval_ms = timed_flush_task(config, None, FakeClock()).interval_ms  # type: ignore[arg-type]
        assert not callable(interval_ms)
        return interval_ms

    assert interval() == 1000
    assert interval(log_flush_scheduler_interval_ms=250) == 250


@pytest.mark.parametrize("initial_delay_ms", [0, 30, 30_000])
def test_timed_flush_task_first_waits_for_log_initial_task_delay_ms(initial_delay_ms: int) -> None:
    settings = {"log.initial.task.delay.ms": initial_delay_ms, "log.flush.scheduler.interval.ms": 250}
    task = timed_flush_task(Config.from_mapping(settings), None, FakeClock())  # type: ignore[arg-type]
    assert task.initial_delay_ms == initial_delay_ms


def test_flush_ms_defaults_to_log_flush_interval_ms_or_the_scheduler_interval() -> None:
    def flush_ms(values: dict[str, object]) -> int:
        return Config.from_mapping(values).default_topic_config[keys.FLUSH_MS]

    assert flush_ms({"log.flush.scheduler.interval.ms": 3000}) == 3000
    assert flush_ms({"log.flush.scheduler.interval.ms": 3000, "log.flush.interval.ms": 50}) == 50
