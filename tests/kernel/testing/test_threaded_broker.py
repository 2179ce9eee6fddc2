"""A broker in a thread of its own, for tests whose clients block."""

from __future__ import annotations

from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.coordinator.keys import GROUP_INITIAL_REBALANCE_DELAY_MS

NOW_MS = 1_700_000_000_000


def test_broker_in_thread_has_the_clock_of_the_test_and_groups_that_wait_for_no_one() -> None:
    with broker_in_thread(clock=lambda: NOW_MS) as running:
        assert running.broker.clock() == NOW_MS
        assert running.broker.config[GROUP_INITIAL_REBALANCE_DELAY_MS] == 0


def test_broker_in_thread_has_the_settings_of_the_test() -> None:
    with broker_in_thread({"group.initial.rebalance.delay.ms": 7}) as running:
        assert running.broker.config[GROUP_INITIAL_REBALANCE_DELAY_MS] == 7
