"""The cleanup seam: policies that say what may be removed from a log.

A policy is a pure function: from a view of a log, a time and the topic's configuration to a plan. It touches
neither files nor partitions, and is called in any thread. The log cleaner asks every policy that the topic's
`cleanup.policy` names, checks the plan, and carries it out.

A plan deletes segments from the log's beginning, or rewrites some without the records that a filter drops.
What a log needs whichever records are dropped (batches that tell how far a producer came, markers of
transactions, offsets) is the log cleaner's business: a filter sees the records of applications alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

import attrs

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.storage import SegmentView, TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import Config, TopicConfig
    from tidelog.kernel.records.block import RecordBlock
    from tidelog.kernel.records.columns import Column, Mask


def _no_timestamp(segment: SegmentView) -> int:
    del segment
    return NO_TIMESTAMP


@attrs.frozen
class LogView:
    """A log as it was a moment ago: its segments, oldest first, and its offsets.

    There is at least one segment; the last is the active one, to which records are still appended.
    """

    topic_partition: TopicPartition
    segments: Sequence[SegmentView]
    log_start_offset: int
    """The first offset that can be read; records below it in the first segment are deleted already."""
    last_stable_offset: int
    """The offset below which no transaction is open."""
    high_watermark: int
    """The offset below which everything is committed."""
    rewritten_until: int | None = None
    """The offset below which this policy has rewritten the log, None if it is not known.

    For `compact` it is also what Apache Kafka has reached. It is never beyond the log's end.
    """
    first_timestamp: Callable[[SegmentView], int] = attrs.field(default=_no_timestamp, eq=False, repr=False)
    """Blocking: the largest timestamp of the first batch of a segment, -1 without one."""

    @property
    def active(self) -> SegmentView:
        """The segment that takes appends."""
        return self.segments[-1]

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""
        return self.active.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_bytes for segment in self.segments)


class RecordFilter(Protocol):
    """Which records of a log stay. It is pickled, and used in a process that has no broker.

    First `survey` is given the records from `Rewrite.survey_from` on, oldest first; then `keep` is given all
    records that are rewritten, oldest first. Neither sees markers, nor records of transactions that were
    aborted, which go in any case. Their classes have to be importable by name.
    """

    def survey(self, block: RecordBlock) -> int | None:
        """Look at records; return the offset of the first one for which there was no room, None if all fit.

        After an offset no more blocks come, and the log counts as rewritten up to it.
        """
        ...

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        """Return for each record whether it stays.

        `block.delete_horizon` is the time from which on a record may be removed if it is a tombstone. The
        result may be an array of numpy.
        """
        ...

    def counts(self) -> Mapping[str, float]:
        """Return what the log line and the statistics show of the rewrite, by name.

        The statistics add up whole numbers, and show others as of the last rewrite.
        """
        ...


@runtime_checkable
class BatchFilter(Protocol):
    """A `RecordFilter` that can also decide that no record of a whole batch stays."""

    def drops(self, base_offsets: Column, last_offsets: Column) -> Mask:
        """Return for each batch whether none of its records stays; `keep` is not given these then.

        `base_offsets` and `last_offsets` have an offset for each batch; they grow.
        """
        ...


@attrs.frozen
class Rewrite:
    """Segments that are to be rewritten with fewer records.

    `until`: all inactive segments that begin below this offset, which is at most the last stable offset and
    the base offset of the active segment. `urgency` compares with that of other logs, 0 to 1 and above for
    what may not wait. `survey_from`: where `RecordFilter.survey` begins; with `until` there is none.
    `make_filter(config)` returns the filter, from the broker's configuration. Tombstones (records without a
    value) and markers whose transactions are gone may be dropped `delete_retention_ms` after the rewrite that
    first keeps them.
    """

    until: int
    urgency: float
    survey_from: int
    make_filter: Callable[[Config], RecordFilter] = attrs.field(eq=False)
    delete_retention_ms: int = 0


@attrs.frozen
class Plan:
    """The removals that a policy wants now; all parts are optional.

    `delete_before`: raise the log start to this offset and delete the segments below it; at most the high
    watermark. `roll`: begin a new active segment first; needed when `delete_before` is in the active segment.
    `reason` explains the deletion in the log. `warning` is logged whenever it has changed. With
    `not_before_ms`, in a plan that removes nothing, the policy promises that it has nothing to remove before
    that time as long as the log stays as it is; it is not asked until then, unless records were appended or
    committed, segments have changed, or the topic's configuration has. That is what keeps tens of thousands
    of idle logs cheap. `rewrite` is done in a process of its own, after the rest; of the rewrites of all logs
    the most urgent is done first.
    """

    delete_before: int | None = None
    roll: bool = False
    reason: str = ""
    warning: str = ""
    not_before_ms: int | None = None
    rewrite: Rewrite | None = None


NOTHING: Final = Plan()
"""Remove nothing."""


class BadPlan(ValueError):
    """A plan that must not be carried out; the message says why."""


def check_plan(plan: object, log: LogView) -> None:
    """Check that a plan removes nothing that is needed.

    Raises:
        BadPlan: it deletes what is not committed, or in the active segment without rolling it; it rolls an
            active segment that is empty; or it rewrites what is not committed, or the active segment.
    """
    if not isinstance(plan, Plan):
        raise BadPlan(f"it is no plan, but {plan!r}")
    if plan.roll and not log.active.size_bytes:
        raise BadPlan(f"it rolls the active segment at {log.active.base_offset}, which is empty")
    if plan.delete_before is not None:
        _check_deletion(plan.delete_before, log, roll=plan.roll)
    if plan.rewrite is not None:
        _check_rewrite(plan.rewrite, log)


def _check_deletion(offset: int, log: LogView, *, roll: bool) -> None:
    if not 0 <= offset <= log.high_watermark:
        raise BadPlan(f"it deletes up to {offset}, but only offsets below {log.high_watermark} are committed")
    if offset > log.active.base_offset and not roll:
        raise BadPlan(
            f"it deletes up to {offset}, which is in the active segment at {log.active.base_offset}, without "
            "rolling that"
        )


def _check_rewrite(rewrite: Rewrite, log: LogView) -> None:
    until = rewrite.until
    # At the first one nothing would lie below it; and the active one, which is the last, never does.
    if until not in [segment.base_offset for segment in log.segments[1:]]:
        raise BadPlan(f"it rewrites up to {until}, where no segment begins after the first")
    decided = min(log.last_stable_offset, log.high_watermark)
    if until > decided:
        raise BadPlan(f"it rewrites up to {until}, but transactions are open from {decided} on")
    if not 0 <= rewrite.survey_from <= until:
        raise BadPlan(f"it surveys from {rewrite.survey_from} on and rewrites up to {until}")
    if not math.isfinite(rewrite.urgency):
        raise BadPlan(f"its urgency is {rewrite.urgency}")
    if rewrite.delete_retention_ms < 0:
        raise BadPlan(f"it keeps tombstones for {rewrite.delete_retention_ms} ms")


class CleanupPolicy(Protocol):
    """A way to remove old records, which the key `cleanup.policy` can name."""

    @property
    def name(self) -> str:
        """The name in `cleanup.policy`, alone or among others."""
        ...

    def interval_ms(self, config: Config) -> int:
        """Return how often all logs are to be looked at, in milliseconds; 0: never, and nothing is removed.

        What it returns may change while the broker runs, but not from or to 0.
        """
        ...

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        """Return what is to be removed from `log` at `now_ms`, milliseconds since the epoch."""
        ...


@attrs.define
class CleanupStatistics:
    """What one policy has done since the start: counts, and sizes in bytes."""

    deleted_segments: int = 0
    deleted_bytes: int = 0
    rolled_segments: int = 0
    rewrites: int = 0
    """Logs that were rewritten, each time counted."""
    rewrite_read_bytes: int = 0
    rewrite_kept_bytes: int = 0
    rewrite_read_records: int = 0
    rewrite_kept_records: int = 0
    rewrite_seconds: float = 0
    most_rewrite_seconds: float = 0
    """The time of the rewrite that took longest."""
    aborted_rewrites: int = 0
    """Rewrites that a truncation, a move or a deletion ended."""
    dead_workers: int = 0
    most_urgency: float = 0
    """The largest urgency of a rewrite that was planned when the logs were last looked at."""
    unrewritable_partitions: int = 0
    """Partitions that are passed over since a part of them is corrupt, until that or their topic changes."""
    postponed_partitions: int = 0
    """Partitions whose last rewrite failed, and is tried again after a back-off."""
    longest_backoff_seconds: float = 0
    """The longest back-off of one of them; it grows with each failure, up to a quarter of an hour."""
    failures: int = 0
    """Plans that were refused, and errors of the policy, of the disk and of rewrites."""
    counts: dict[str, float] = attrs.field(factory=dict[str, float])
    """What the policy's filters counted; see `RecordFilter.counts`."""


class RewriteOutcome(NamedTuple):
    """The logs that were rewritten as far as their policy wanted, and those that could not be."""

    done: Sequence[TopicPartition]
    failed: Sequence[TopicPartition]


class LogCleaner(Protocol):
    """What carries out the cleanup policies of a broker; see `BrokerContext.register_log_cleaner`."""

    def statistics(self) -> Mapping[str, CleanupStatistics]:
        """Return what it has done since the start, by the name of the policy."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether it looks at a log, deletes of it or rewrites it at the moment."""
        ...

    async def clean_now(self) -> None:
        """Let each policy look at each log at once, and do what it wants."""
        ...

    async def rewrite_now(
        self, topics: Collection[str], observe: Callable[[TopicPartition, int, int], None] | None = None
    ) -> RewriteOutcome:
        """Rewrite the logs of topics, or of all, however little there is to rewrite, and delete nothing.

        `observe(log, bytes read, all bytes)` receives the progress.
        """
        ...
