"""Conformance of cleanup policies: a suite that every policy passes, on logs drawn at random.

    class TestMyPolicy(CleanupPolicyConformance, plugin=my_plugin): ...

Storage and broker need not be there: a policy is a pure function. The filters of its rewrites are tried on
records drawn at random; with `keeps_newest` the suite also proves that the newest record of each key stays,
and tombstones as long as they have to.
"""

from __future__ import annotations

import pickle
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest

from tidelog.kernel.config import Config, TopicConfig, topic_config
from tidelog.kernel.records.batch import DELETE_HORIZON_BIT, HEADER_BYTES, pack_batch, parse_header
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.placed import PlacedBatch
from tidelog.kernel.seams.cleanup import CleanupPolicy, LogView, Plan, RecordFilter, check_plan
from tidelog.kernel.seams.storage import SegmentView, TopicPartition
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.installed import with_installed_keys

if TYPE_CHECKING:
    from tidelog.kernel.records.columns import Mask

LOGS = 300
DAY_MS = 86_400_000
SIZES = (0, 1, 70, 1000, 1 << 20)
AGES_MS = (-DAY_MS, -1, 0, 1, DAY_MS, 7 * DAY_MS, 7 * DAY_MS + 1, 400 * DAY_MS)
"""How long before `START_MS` records were written; some are from the future."""


def random_segment(choose: random.Random, base_offset: int, *, active: bool) -> SegmentView:
    """Return a segment that begins there: with records unless it is an active one by chance."""
    size = choose.choice(SIZES if active else SIZES[1:])
    count = choose.choice((1, 3, 1000)) if size else 0
    written_ms = START_MS - choose.choice(AGES_MS)
    has_timestamp = size and choose.random() < 0.8
    return SegmentView(
        base_offset, base_offset + count, size, written_ms if has_timestamp else -1, max(written_ms, 0)
    )


def random_log(choose: random.Random) -> LogView:
    """Return a log with any number of segments, gaps between them, and offsets anywhere in it."""
    segments: list[SegmentView] = []
    base_offset = choose.choice((0, 5, 1 << 40))
    for remaining in reversed(range(choose.choice((1, 1, 2, 3, 8)))):
        segment = random_segment(choose, base_offset, active=not remaining)
        segments.append(segment)
        base_offset = segment.next_offset + choose.choice((0, 0, 10))
    start, end = segments[0].base_offset, segments[-1].next_offset
    high_watermark = choose.choice((end, end, choose.randint(start, end)))
    log_start = choose.choice((start, start, choose.randint(start, high_watermark)))
    rewritten = choose.choice((None, None, log_start, choose.randint(start, end)))
    return LogView(
        TopicPartition("flights", 0), tuple(segments), log_start, choose.randint(log_start, high_watermark),
        high_watermark, rewritten,
    )  # fmt: skip


def carried_out(plan: Plan, log: LogView) -> LogView:
    """Return the log after a plan that was checked."""
    segments = list(log.segments)
    if plan.roll:
        end = log.log_end_offset
        segments.append(SegmentView(end, end, 0, -1, START_MS))
    start = max(log.log_start_offset, plan.delete_before or 0)
    while len(segments) > 1 and segments[1].base_offset <= start:
        del segments[0]
    rewritten = log.rewritten_until if plan.rewrite is None else plan.rewrite.until
    return attrs.evolve(
        log,
        segments=tuple(segments),
        log_start_offset=max(start, segments[0].base_offset),
        rewritten_until=rewritten,
    )


def random_records(choose: random.Random) -> RecordBlock:
    """Return records of few keys, some without one, some of them tombstones with and without a horizon."""
    content = bytearray()
    batches: list[PlacedBatch] = []
    offset = choose.choice((0, 1 << 40))
    for _ in range(choose.choice((1, 3, 10))):
        count = choose.choice((1, 2, 7))
        keys = [choose.choice((None, b"", b"a", b"b", b"c")) for _ in range(count)]
        values = [choose.choice((None, b"", b"value")) for _ in range(count)]
        batch = make_batch(values, offset, keys=keys, timestamps=START_MS)
        header = parse_header(batch)
        if choose.random() < 0.5:
            horizon_ms = choose.choice((START_MS - 1, START_MS, START_MS + 1))
            attributes = header.attributes | DELETE_HORIZON_BIT
            header = header._replace(attributes=attributes, base_timestamp=horizon_ms)
        batches.append(PlacedBatch(header, len(content)))
        content += pack_batch(header, batch[HEADER_BYTES:])
        offset = header.next_offset + choose.choice((0, 0, 5))
    return RecordBlock(bytes(content), batches)


class CleanupPolicyConformance:
    """Everything that the log cleaner relies on; `plugin` is the module with the hook of the policy to prove.

    `policy_name` chooses one where the plugin offers several. `keeps_newest`: its rewrites drop no record
    that is the newest of its key, unless it is a tombstone whose time has come; a policy with another rule
    overrides `must_stay`. Every test is repeated with each mapping of `topic_settings`, the configuration of
    a topic as text.
    """

    plugin: ClassVar[ModuleType]
    policy_name: ClassVar[str | None] = None
    keeps_newest: ClassVar[bool] = False
    topic_settings: ClassVar[Sequence[Mapping[str, str]]] = ({},)

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    @pytest.fixture
    def policy(self) -> CleanupPolicy:
        """Return the policy under test."""
        offered: Sequence[CleanupPolicy] = list(self.plugin.tidelog_cleanup_policies())
        (chosen,) = [each for each in offered if self.policy_name in (None, each.name)]
        return chosen

    @pytest.fixture
    def config(self) -> Config:
        """Return the configuration of a broker with the plugin's keys."""
        own = list(self.plugin.tidelog_config_keys()) if hasattr(self.plugin, "tidelog_config_keys") else []
        return Config.from_mapping({}, with_installed_keys(own))

    @pytest.fixture
    def topics(self, config: Config) -> Sequence[TopicConfig]:
        """Return the configurations to prove the policy with."""
        return [topic_config(config, settings) for settings in self.topic_settings]

    def cases(self, topics: Sequence[TopicConfig]) -> Iterator[tuple[random.Random, LogView, TopicConfig]]:
        """Iterate over logs, each with a configuration of its topic."""
        for seed in range(LOGS):
            choose = random.Random(seed)
            for topic in topics:
                yield choose, random_log(choose), topic

    def test_name_can_be_an_item_of_a_list(self, policy: CleanupPolicy) -> None:
        assert re.fullmatch(r"[a-zA-Z0-9._-]{1,100}", policy.name), "it is part of the name of a file"

    def test_interval_ms_is_positive(self, policy: CleanupPolicy, config: Config) -> None:
        assert policy.interval_ms(config) >= 1

    def test_plan_depends_on_its_arguments_alone(
        self, policy: CleanupPolicy, topics: Sequence[TopicConfig]
    ) -> None:
        for _, log, topic in self.cases(topics):
            plans = [policy.plan(log, START_MS, topic)]
            elsewhere = threading.Thread(target=lambda: plans.append(policy.plan(log, START_MS, topic)))  # noqa: B023 ends here
            elsewhere.start()
            elsewhere.join()
            assert plans[0] == plans[1]

    def test_plan_can_be_carried_out(self, policy: CleanupPolicy, topics: Sequence[TopicConfig]) -> None:
        for _, log, topic in self.cases(topics):
            check_plan(policy.plan(log, START_MS, topic), log)

    def test_plan_of_an_empty_log_removes_nothing(
        self, policy: CleanupPolicy, topics: Sequence[TopicConfig]
    ) -> None:
        for topic in topics:
            for offset in (0, 5, 1 << 40):
                for modified_ms in (0, START_MS, START_MS + DAY_MS):
                    empty = SegmentView(offset, offset, 0, -1, modified_ms)
                    log = LogView(TopicPartition("flights", 0), (empty,), offset, offset, offset)
                    plan = policy.plan(log, START_MS, topic)
                    assert (plan.delete_before or 0) <= offset
                    assert not plan.roll

    def test_plan_comes_to_an_end(self, policy: CleanupPolicy, topics: Sequence[TopicConfig]) -> None:
        for _, before, topic in self.cases(topics):
            log = before
            for _ in range(len(before.segments) + 2):
                plan = policy.plan(log, START_MS, topic)
                after = carried_out(plan, log)
                # A rewrite that is planned although it was done is done for ever.
                if after == log and plan.rewrite is None:
                    break
                log = after
            else:
                pytest.fail(f"the plans for {before} never come to an end")

    def test_plan_keeps_the_promise_of_not_before_ms(
        self, policy: CleanupPolicy, topics: Sequence[TopicConfig]
    ) -> None:
        for choose, before, topic in self.cases(topics):
            plan = policy.plan(before, START_MS, topic)
            until = plan.not_before_ms
            if until is None or until <= START_MS or carried_out(plan, before) != before:
                continue
            for now_ms in (choose.randrange(START_MS, until), until - 1):
                again = policy.plan(before, now_ms, topic)
                assert again.rewrite is None, f"a rewrite of {before} comes before {until}"
                assert carried_out(again, before) == before, f"a removal from {before} comes before {until}"

    def must_stay(self, block: RecordBlock) -> Sequence[bool]:
        """Return for each record whether no rewrite may drop it; override it to prove a rule of your own.

        By default these are the newest records of all keys with `keeps_newest`, and none without.
        """
        newest = {record.key: index for index, record in enumerate(block.records()) if self.keeps_newest}
        horizons = block.delete_horizon.tolist()
        return [
            record.key is not None
            and newest.get(record.key) == index
            and (record.value is not None or horizons[index] > START_MS)
            for index, record in enumerate(block.records())
        ]

    def filters(
        self, policy: CleanupPolicy, config: Config, topics: Sequence[TopicConfig]
    ) -> Iterator[tuple[random.Random, Callable[[], RecordFilter]]]:
        """Iterate over what makes the filters of rewrites, as another process gets them."""
        for choose, log, topic in self.cases(topics):
            rewrite = policy.plan(log, START_MS, topic).rewrite
            if rewrite is not None:
                pickled = pickle.dumps(rewrite.make_filter(config))
                yield choose, partial(pickle.loads, pickled)

    def test_keep_answers_for_every_record(
        self, policy: CleanupPolicy, config: Config, topics: Sequence[TopicConfig]
    ) -> None:
        for choose, make_filter in self.filters(policy, config, topics):
            block, record_filter = random_records(choose), make_filter()
            full_at = record_filter.survey(block)
            assert full_at is None or full_at in block.offset
            assert len(record_filter.keep(block)) == len(block)
            assert all(isinstance(name, str) for name in record_filter.counts())

    def test_keep_drops_nothing_of_what_it_has_kept(
        self, policy: CleanupPolicy, config: Config, topics: Sequence[TopicConfig]
    ) -> None:
        """A rewrite is repeated after a crash, and one that drops, say, the newest record drops all so."""
        for choose, make_filter in self.filters(policy, config, topics):
            block = random_records(choose)
            kept = _kept(make_filter(), block)
            if kept is not None and kept.any():
                again = _kept(make_filter(), block.select(kept))
                assert again is None or again.all(), "a repeated rewrite drops what the first one has kept"

    def test_keep_has_the_newest_record_of_each_key(
        self, policy: CleanupPolicy, config: Config, topics: Sequence[TopicConfig]
    ) -> None:
        if not self.keeps_newest and type(self).must_stay is CleanupPolicyConformance.must_stay:
            pytest.skip("neither keeps_newest nor must_stay has the rule of the policy")
        tried = 0
        for choose, make_filter in self.filters(policy, config, topics):
            block = random_records(choose)
            kept = _kept(make_filter(), block)
            if kept is None:
                continue
            tried += 1
            stays = self.must_stay(block)
            for index, record in enumerate(block.records()):
                assert kept[index] or not stays[index], f"a record that has to stay is dropped: {record}"
        assert tried, "no rewrite was planned"


def _kept(record_filter: RecordFilter, block: RecordBlock) -> Mask | None:
    """Return what a filter keeps of records that it has surveyed, None if it has no room for them."""
    # Not at the top: brokers, whose tests import this as well, need no arrays.
    import numpy as np

    return (
        None if record_filter.survey(block) is not None else np.asarray(record_filter.keep(block), np.bool_)
    )
