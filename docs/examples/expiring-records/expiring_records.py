"""The cleanup policy `expire`: records that carry the time of their end are removed after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel import Config, hookimpl
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.seams.cleanup import NOTHING, CleanupPolicy, LogView, Plan, Rewrite

if TYPE_CHECKING:
    from tidelog.kernel.records.block import RecordBlock

TIDELOG_INTERFACE = "1.0"
HEADER = "expires"


class NotExpired:
    """Keeps what has no end, and what has not reached it at `now_ms`."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.dropped = 0

    def survey(self, block: RecordBlock) -> int | None:
        return None

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        stays = [True] * len(block)
        for index, value in block.header_values(HEADER).items():
            stays[index] = not self.is_over(value)
        self.dropped += stays.count(False)
        return stays

    def is_over(self, value: bytes | None) -> bool:
        # What is no number is no end. Twenty digits are more than any time has.
        return value is not None and len(value) < 20 and value.isdigit() and int(value) <= self.now_ms

    def counts(self) -> Mapping[str, float]:
        return {"expired records": self.dropped}


def filter_at(now_ms: int, config: Config) -> NotExpired:
    return NotExpired(now_ms)


class ExpirePolicy:
    name = "expire"

    def interval_ms(self, config: Config) -> int:
        return 60_000

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        decided = min(log.last_stable_offset, log.high_watermark)
        ends = [segment.base_offset for segment in log.segments[1:]]
        until = max((end for end in ends if end <= decided), default=0)
        done = log.rewritten_until or 0
        if until <= done:
            return NOTHING
        new_bytes = sum(each.size_bytes for each in log.segments if done <= each.base_offset < until)
        urgency = new_bytes / max(log.size_bytes, 1)
        return Plan(
            rewrite=Rewrite(until, urgency, survey_from=until, make_filter=partial(filter_at, now_ms))
        )


@hookimpl
def tidelog_cleanup_policies() -> Iterable[CleanupPolicy]:
    return [ExpirePolicy()]
