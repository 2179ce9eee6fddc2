"""Groups through joins, leaves, crashes, cut connections, expiries and changes of topics, under a clock.

Never two members fetch one partition; and once it is quiet each partition that anyone wants has one owner,
which fetches it.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.zookeeper.consumers.simulation import SESSION_S, Clock, Group, Registries
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper.consumers.membership import MembershipPhase
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription

SUBSCRIPTIONS = (
    Subscription({"orders": 1}),
    Subscription({"orders": 2, "clicks": 1}),
    Subscription({"clicks": 3}),
    Subscription({"orders|clicks|late-.*": 1}, "white_list"),
    Subscription({"orders": 2}, "black_list"),
    Subscription({"none": 1}),
)


class Scenario:
    """A group to which random things happen for a while."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = Clock()
        self.registries = Registries(self.clock, self.random, topics={"orders": 5, "clicks": 3})
        self.group = Group(self.registries)

    def run(self, steps: int) -> None:
        for number in range(steps):
            self._do(number)
            self.clock.run_until(self.clock.now + self.random.choice((0.01, 0.3, 2, 8)), self.group.check)

    def _do(self, number: int) -> None:
        random, living = self.random, self.group.living
        match random.randrange(9 if living else 1):
            case 0 | 1:
                if len(living) < 6:
                    self.group.join(f"c{number}", random.choice(SUBSCRIPTIONS))
            case 2:
                random.choice(living).leave()
            case 3:
                random.choice(living).crash()
            case 4 | 5:
                random.choice(living).cut()
            case 6 | 7:
                random.choice(living).link()
            case _:
                self._change_topics()

    def _change_topics(self) -> None:
        name = self.random.choice(("orders", "clicks", f"late-{self.random.randrange(3)}"))
        self.registries.topics[name] = self.registries.topics.get(name, 0) + self.random.randrange(1, 4)
        self.registries.change()

    def settle(self) -> None:
        """Let everything that was broken work again, and wait."""
        for member in self.group.living:
            member.link()
        self.registries.has_brokers = True
        self.registries.change()
        self.clock.run_until(self.clock.now + SESSION_S + 60, self.group.check)

    def check_quiet(self) -> None:
        living = self.group.living
        assert [each.state.phase for each in living] == [MembershipPhase.OWNING] * len(living)
        topics = [*self.registries.topics]
        wanted = {
            TopicPartition(topic, number)
            for member in living
            for topic in member.subscription.streams_of(topics)
            for number in range(self.registries.topics.get(topic, 0))
        }
        owned = Counter(each for member in living for each in member.fetched_now)
        assert owned == Counter(wanted)
        assert self.registries.owners.keys() == wanted


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_membership_never_has_two_owners_and_ends_with_one(seed: int, steps: int) -> None:
    scenario = Scenario(seed)
    scenario.run(steps)
    scenario.settle()
    scenario.check_quiet()


@pytest.mark.long
def test_membership_survives_many_long_scenarios() -> None:
    for seed in range(1500):
        scenario = Scenario(seed)
        scenario.run(60)
        scenario.settle()
        scenario.check_quiet()


def test_membership_that_is_quiet_asks_for_nothing() -> None:
    scenario = Scenario(1)
    for name in ("a", "b"):
        scenario.group.join(name, SUBSCRIPTIONS[0])
    scenario.settle()
    numbers = [each.state.number for each in scenario.group.members]
    scenario.clock.run_until(scenario.clock.now + 1000, scenario.group.check)
    assert [each.state.number for each in scenario.group.members] == numbers


def test_membership_follows_a_storm_of_changes_with_few_requests() -> None:
    scenario = Scenario(1)
    scenario.group.join("a", SUBSCRIPTIONS[0])
    scenario.settle()
    (member,) = scenario.group.members
    before = member.state.number
    for _ in range(1000):
        scenario.registries.change()
        member.notice_change()
        scenario.clock.run_until(scenario.clock.now + 0.001, scenario.group.check)
    scenario.settle()
    # At most ten readings in a second, each with its release.
    assert member.state.number - before < 2 * 15
    scenario.check_quiet()
