"""An append that has to look at everything: limits of the segment, rolling, a mirror.

Source: seed 002, "Segment rolling".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.errors import BatchTooLarge
from tidelog.plugins.storage_file.log.flushes import flush_inactive
from tidelog.plugins.storage_file.segments.creation import create_segment
from tidelog.plugins.storage_file.segments.roll_policy import RollPolicy

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import Buffer
    from tidelog.plugins.storage_file.log.open_log import OpenLog
    from tidelog.plugins.storage_file.segments.segment import Segment


def append_with_care(
    log: OpenLog, batch: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
) -> bool:
    """Append one batch of `size` bytes as `PartitionStore.append` promises; whether a segment was begun."""
    segment = log.segment_list.active
    log.durability.check()
    if size > log.config.segment_bytes:
        raise BatchTooLarge(
            f"a batch of {size} bytes is larger than a segment of {log.topic_partition} "
            f"({log.config.segment_bytes} bytes)"
        )
    if base_offset < segment.next_offset:
        raise ValueError(f"offsets {base_offset} to {last_offset} do not follow {segment.next_offset}")
    log.touched = True
    try:
        rolled = _roll_and_append(log, segment, batch, size, base_offset, last_offset, max_timestamp)
    except OSError as error:
        log.tell_unless_full(error)
        raise
    mirror = log.mirror
    if mirror is not None:
        mirror.append(batch, base_offset, last_offset, max_timestamp)
        # Every append has to come by here.
        log.append_carefully_next()
    return rolled


def _roll_and_append(
    log: OpenLog,
    segment: Segment,
    batch: Buffer,
    size: int,
    base_offset: int,
    last_offset: int,
    max_timestamp: int,
) -> bool:
    rolled = _must_roll(log, segment, size, last_offset, max_timestamp)
    if rolled:
        segment = _roll(log, base_offset)
    first = not segment.size
    if first:
        segment.index_interval_bytes = log.config.index_interval_bytes
    elif log.spare.is_wanted and _passes(log, _half(log), segment, size, max_timestamp):
        _request_spare(log)
    if segment.wake(_next_limits(log)) >= log.services.descriptor_budget:
        # Descriptors are numbered from below, so that many are open.
        segment.touched = True
        log.services.release_idle()
    segment.append(batch, size, last_offset, max_timestamp)
    if first:
        segment.first_timestamp = max_timestamp
        segment.wake(_next_limits(log))
    return rolled


def _next_limits(log: OpenLog) -> RollPolicy:
    """Limits at which an append has to look at everything again."""
    return _half(log) if log.spare.is_wanted else log.policy


def _half(log: OpenLog) -> RollPolicy:
    return log.policy.half(log.config.segment_index_bytes)


def _request_spare(log: OpenLog) -> None:
    """Have the files of the next segment created in a thread."""
    spare, directory, settings = log.spare, log.directory, log.segment_settings()
    spare.is_wanted = False

    def create() -> None:
        try:
            spare.create(directory, settings)
        except OSError as error:
            # Rolling creates the files itself then, and the producer learns of it if that is refused, too.
            log.tell_unless_full(error)

    log.services.in_thread(f"next segment {log.topic_partition}", create)


def _must_roll(log: OpenLog, segment: Segment, size: int, last_offset: int, max_timestamp: int) -> bool:
    if last_offset > segment.offset_limit:
        return True
    if not segment.size:
        # A full index on an empty segment means that no segment can have entries; rolling would not help.
        return False
    return segment.index.is_full or _passes(log, log.policy, segment, size, max_timestamp)


def _passes(log: OpenLog, policy: RollPolicy, segment: Segment, size: int, max_timestamp: int) -> bool:
    """Whether a batch of `size` bytes would bring a segment with batches beyond the limits of `policy`."""
    if segment.size + size > policy.segment_bytes or segment.index.entries > policy.index_entries:
        return True
    since = segment.first_timestamp
    waited = max_timestamp - since if since >= 0 else log.services.now_ms() - segment.created_ms
    return policy.outlived(waited)


def begin_segment(log: OpenLog, offset: int) -> None:
    """Go on in a new segment at an offset behind a gap.

    Raises:
        OSError: the disk refused.
    """
    log.touched = True
    _roll(log, offset)


def _roll(log: OpenLog, base_offset: int) -> Segment:
    """Start a new active segment; the old one is finished and made durable in the background.

    Without a spare segment its files are created here, and not preallocated: that could take long.

    Raises:
        OSError: the disk refused; the old segment goes on.
    """
    settings = log.segment_settings()
    new = log.spare.take(log.directory, base_offset, settings)
    if new is None:
        new = create_segment(log.directory, base_offset, settings._replace(preallocate_bytes=0))
    log.segment_list.active.become_inactive()
    log.durability.files_created()
    log.policy = RollPolicy.of(log.config)
    log.segment_list.add(new)
    log.services.in_thread(f"flush {log.topic_partition}", lambda: flush_inactive(log))
    return new
