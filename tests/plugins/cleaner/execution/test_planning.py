"""A policy is asked for plans, and whether it waits for the end of the active segment."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from tests.plugins.cleaner.execution.test_policy_execution import (
    TOPIC,
    Policy,
    an_error,
    filled,
    rewrite_of,
)
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.cleanup import NOTHING, LogView, Plan
from tidelog.kernel.seams.storage import SegmentView
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.cleaner.execution import planning
from tidelog.plugins.cleaner.execution.planning import Planner

NOW_MS = 5_000


def all_inactive(log: LogView) -> Plan:
    return rewrite_of(log.active.base_offset)(log)


def all_but_one(log: LogView) -> Plan:
    return rewrite_of(log.segments[-2].base_offset)(log)


def nothing(_: LogView) -> Plan:
    return NOTHING


@pytest.mark.parametrize(
    ("make", "wants"), [(all_inactive, True), (all_but_one, False), (nothing, False), (an_error, False)]
)
async def test_wants_active_segment_if_the_policy_would_rewrite_it_behind_another_one(
    make: Callable[[LogView], Plan], wants: bool
) -> None:
    async with running_broker() as broker:
        partition = await filled(broker)
        segments = tuple(partition.store.segments())
        policy = Policy(make)
        config = broker.topics.get(TOPIC).config
        assert await Planner(policy).wants_active_segment(partition, config, NOW_MS) is wants
        assert tuple(partition.store.segments()) == segments
    (asked,) = policy.asked
    assert asked.segments == (*segments, SegmentView(6, 6, 0, NO_TIMESTAMP, NOW_MS))


@pytest.mark.parametrize("batches", [0, 6])
async def test_wants_active_segment_asks_nothing_of_an_empty_one(batches: int) -> None:
    async with running_broker() as broker:
        partition = await filled(broker, batches=batches)
        if batches:
            assert await partition.roll()
        policy = Policy(all_inactive)
        config = broker.topics.get(TOPIC).config
        assert not await Planner(policy).wants_active_segment(partition, config, NOW_MS)
    assert policy.asked == []


@pytest.mark.parametrize("asks", ["for a plan", "whether it wants more"])
async def test_an_error_of_a_policy_is_logged_with_its_traceback_once(
    asks: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(planning, "_described", RateLimit(600))
    async with running_broker() as broker:
        partition = await filled(broker)
        planner, config = Planner(Policy(an_error)), broker.topics.get(TOPIC).config
        for _ in range(2):
            if asks == "for a plan":
                (planned,) = await planner.plans([(partition, config)], NOW_MS)
                assert (planned.plan, planned.problem) == (NOTHING, "no plan: ZeroDivisionError: oh")
            else:
                assert not await planner.wants_active_segment(partition, config, NOW_MS)
    (described,) = [record for record in caplog.records if record.exc_info]
    assert (described.levelno, described.getMessage()) == (
        logging.WARNING,
        "the error of cleanup policy delete:",
    )


async def test_plans_nothing_for_a_log_without_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that is deleted at the moment."""
    policy = Policy(an_error)
    async with running_broker() as broker:
        partition = await filled(broker)
        config = broker.topics.get(TOPIC).config
        monkeypatch.setattr(partition.store, "segments", list)
        (planned,) = await Planner(policy).plans([(partition, config)], NOW_MS)
        assert not await Planner(policy).wants_active_segment(partition, config, NOW_MS)
    assert (planned.plan, planned.problem, policy.asked) == (NOTHING, "", [])
