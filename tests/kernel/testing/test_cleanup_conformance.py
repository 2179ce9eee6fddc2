"""The suite of cleanup policies finds each wrong one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence

import attrs
import pytest

from tidelog.kernel.config import Config, TopicConfig, topic_config
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.seams.cleanup import NOTHING, CleanupPolicy, LogView, Plan, RecordFilter, Rewrite
from tidelog.kernel.testing.cleanup import DAY_MS, CleanupPolicyConformance
from tidelog.kernel.testing.clock import START_MS

TOPICS = [topic_config(Config.from_mapping({}), {})]
CONFIG = Config.from_mapping({})


class Suite(CleanupPolicyConformance):
    keeps_newest = True


class Careful:
    """A right policy that rewrites each log once, with a filter that keeps everything."""

    name = "right"

    def interval_ms(self, config: Config) -> int:
        return 60_000

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        until = rewritable_end(log)
        return NOTHING if until <= (log.rewritten_until or 0) else self.rewriting(until)

    def rewriting(self, until: int) -> Plan:
        return Plan(rewrite=Rewrite(until, urgency=1.0, survey_from=0, make_filter=self.filter_of))

    def filter_of(self, config: Config) -> RecordFilter:
        return KeepsAll()


def rewritable_end(log: LogView) -> int:
    decided = min(log.last_stable_offset, log.high_watermark)
    return max((each.base_offset for each in log.segments[1:] if each.base_offset <= decided), default=0)


class KeepsAll:
    def survey(self, block: RecordBlock) -> int | None:
        return None

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        return [True] * len(block)

    def counts(self) -> Mapping[str, float]:
        return {}


class DropsTheLastRecord(KeepsAll):
    def keep(self, block: RecordBlock) -> Sequence[bool]:
        return [True] * (len(block) - 1) + [False]


class AnswersTooFew(KeepsAll):
    def keep(self, block: RecordBlock) -> Sequence[bool]:
        return [True] * (len(block) - 1)


class DropsTombstonesAtOnce(KeepsAll):
    def keep(self, block: RecordBlock) -> Sequence[bool]:
        return [record.value is not None for record in block.records()]


class DropsTheNewest(KeepsAll):
    """Keeps the first record of each key."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        keys = [record.key for record in block.records()]
        return [key is None or key not in keys[:index] for index, key in enumerate(keys)]


def with_filter(made: type[KeepsAll]) -> CleanupPolicy:
    class WithFilter(Careful):
        def filter_of(self, config: Config) -> RecordFilter:
            return made()

    return WithFilter()


class NamedLikeAFolder(Careful):
    name = "../retention"


class AsksAlways(Careful):
    def interval_ms(self, config: Config) -> int:
        return 0


class DeletesTheActiveSegment(Careful):
    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        return Plan(log.log_end_offset, reason="it is old")


class DeletesWhatIsNotCommitted(Careful):
    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        return Plan(log.segments[-1].base_offset, reason="it is old")


class RollsAnEmptyLog(Careful):
    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        return Plan(log.log_start_offset, roll=True, reason="it is time")


class RewritesForEver(Careful):
    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        until = rewritable_end(log)
        return self.rewriting(until) if until > log.log_start_offset else NOTHING


class DecidesByTurns(Careful):
    turns = itertools.count()

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        return super().plan(log, now_ms, config) if next(self.turns) % 2 else NOTHING


class WakesTooLate(Careful):
    """Promises that nothing is removed for a day, and removes before it is over."""

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        if now_ms == START_MS:
            return attrs.evolve(NOTHING, not_before_ms=now_ms + DAY_MS)
        return super().plan(log, now_ms, config)


def run(test: str, policy: CleanupPolicy) -> None:
    suite = Suite()
    match test:
        case "name":
            suite.test_name_can_be_an_item_of_a_list(policy)
        case "interval":
            suite.test_interval_ms_is_positive(policy, CONFIG)
        case _:
            getattr(suite, f"test_{test}")(policy, *([CONFIG] if test.startswith("keep_") else []), TOPICS)


WRONG: list[tuple[Callable[[], CleanupPolicy], str]] = [
    (NamedLikeAFolder, "name"),
    (AsksAlways, "interval"),
    (DeletesTheActiveSegment, "plan_can_be_carried_out"),
    (DeletesWhatIsNotCommitted, "plan_can_be_carried_out"),
    (RollsAnEmptyLog, "plan_of_an_empty_log_removes_nothing"),
    (RewritesForEver, "plan_comes_to_an_end"),
    (DecidesByTurns, "plan_depends_on_its_arguments_alone"),
    (WakesTooLate, "plan_keeps_the_promise_of_not_before_ms"),
    (lambda: with_filter(AnswersTooFew), "keep_answers_for_every_record"),
    (lambda: with_filter(DropsTheLastRecord), "keep_drops_nothing_of_what_it_has_kept"),
    (lambda: with_filter(DropsTombstonesAtOnce), "keep_has_the_newest_record_of_each_key"),
    (lambda: with_filter(DropsTheNewest), "keep_has_the_newest_record_of_each_key"),
]


@pytest.mark.parametrize(("wrong", "test"), WRONG)
def test_cleanup_conformance_finds_a_wrong_policy(wrong: Callable[[], CleanupPolicy], test: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError)):
        run(test, wrong())


@pytest.mark.parametrize("test", sorted({test for _, test in WRONG}))
def test_cleanup_conformance_passes_a_right_policy(test: str) -> None:
    random.seed(1)
    run(test, Careful())
