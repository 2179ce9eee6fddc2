"""Rolling."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_TESTS = "plugins/storage_file"

_BY_SIZE_AGE_AND_INDEX = "By size, by age of the first batch's timestamp (or of the segment) minus jitter,"

REMOVALS: Final = (
    Removal(
        _BY_SIZE_AGE_AND_INDEX,
        f"{_FILE}/segments/segment.py",
        "if self.size + size > policy.segment_bytes or self.index.entries > policy.index_entries:",
        "if self.index.entries > policy.index_entries:",
        f"{_TESTS}/test_conformance.py::TestFileStorage::test_replace_segments_is_what_is_read",
    ),
    Removal(
        _BY_SIZE_AGE_AND_INDEX,
        f"{_FILE}/log_config.py",
        "return waited_ms > self.segment_ms - self.jitter_ms",
        "return False",
        f"{_TESTS}/log/test_rolling.py::test_roll_by_age_uses_the_clock_without_timestamps",
    ),
    Removal(
        _BY_SIZE_AGE_AND_INDEX,
        f"{_FILE}/segments/segment.py",
        "waited = max_timestamp - since if since >= 0 else now_ms() - self.created_ms",
        "waited = now_ms() - self.created_ms",
        f"{_TESTS}/log/test_rolling.py::test_roll_by_age_after_a_restart",
    ),
    Removal(
        _BY_SIZE_AGE_AND_INDEX,
        f"{_FILE}/segments/segment.py",
        "waited = max_timestamp - since if since >= 0 else now_ms() - self.created_ms",
        "waited = max_timestamp - since if since >= 0 else 0",
        f"{_TESTS}/log/test_rolling.py::test_roll_by_age_uses_the_clock_without_timestamps",
    ),
    Removal(
        _BY_SIZE_AGE_AND_INDEX,
        f"{_FILE}/log_config.py",
        "jitter = _random.randrange(limit) if limit > 0 else 0",
        "jitter = 0",
        f"{_TESTS}/log/test_rolling.py::test_roll_policy_draws_a_random_jitter",
    ),
    Removal(
        _BY_SIZE_AGE_AND_INDEX,
        f"{_FILE}/segments/segment.py",
        "return self.index.is_full or self.exceeds(",
        "return self.exceeds(",
        f"{_TESTS}/log/test_rolling.py::test_roll_by_a_full_offset_index",
    ),
    Removal(
        "By an offset that does not fit the relative 32 bits",
        f"{_FILE}/segments/segment.py",
        "if last_offset > self.offset_limit:\n            return True\n        if",
        "if",
        f"{_TESTS}/log/test_rolling.py::test_roll_by_an_offset_that_does_not_fit_into_the_indexes",
    ),
    Removal(
        "A lookup whose index page is not in memory is done in a thread",
        f"{_FILE}/indexes/residency.py",
        'return not _mincore(address + start, end - start, pages) and pages.raw.count(b"\\0") == 0',
        "return True",
        f"{_TESTS}/indexes/test_residency.py::test_is_resident_is_false_for_evicted_pages_so_that_floor_position_would_block",
    ),
    Removal(
        "The event loop creates, preallocates and trims no file when a log rolls, whatever the reason",
        f"{_FILE}/log/local_log.py",
        "new = self._spare.take(self.directory, base_offset, settings)",
        "new = None",
        f"{_TESTS}/segments/test_creation.py::test_spare_segment_lets_a_roll_create_and_trim_nothing_on_the_event_loop",
    ),
    Removal(
        "The event loop creates, preallocates and trims no file when a log rolls, whatever the reason",
        f"{_FILE}/log/local_log.py",
        "settings._replace(preallocate_bytes=0)",
        "settings",
        f"{_TESTS}/segments/test_creation.py",
    ),
    Removal(
        "The event loop creates, preallocates and trims no file when a log rolls, whatever the reason",
        f"{_FILE}/log/local_log.py",
        "        self.segments.active.become_inactive()\n",
        "        self.segments.active.become_inactive()\n        self.segments.active.finish()\n",
        f"{_TESTS}/segments/test_creation.py::test_spare_segment_lets_a_roll_create_and_trim_nothing_on_the_event_loop",
    ),
    Removal(
        "Files created ahead are removed at a clean shutdown, and after a crash at the next start",
        f"{_FILE}/log/local_log.py",
        "self._spare.remove(self.directory)",
        "pass",
        f"{_TESTS}/segments/test_creation.py::test_spare_segment_is_removed_at_a_clean_stop",
    ),
    Removal(
        "Files created ahead are removed at a clean shutdown, and after a crash at the next start",
        f"{_FILE}/segments/segment_files.py",
        "for name in [name for name in names if name.endswith(_LEFTOVER_SUFFIXES)]:",
        "for name in [name for name in names if name.endswith(_LEFTOVER_SUFFIXES) and '.next' not in name]:",
        f"{_TESTS}/segments/test_creation.py::test_spare_segment_that_a_crash_left_is_removed_at_start",
    ),
    Removal(
        "An empty segment whose indexes have no room does not roll onto itself",
        f"{_FILE}/segments/segment.py",
        "rolling would not help.\n            return False",
        "rolling would not help.\n            return self.index.is_full",
        f"{_TESTS}/log/test_rolling.py::test_roll_happens_once_when_indexes_have_no_room_for_entries",
    ),
    Removal(
        "Snapshot of the producers at the new base offset, old segment flushed in the background",
        "kernel/partition/appends.py",
        "self._producers.snapshot_soon(base_offset)",
        "pass",
        "kernel/partition/test_append.py::test_append_writes_a_producer_snapshot_at_every_roll",
    ),
    Removal(
        "Snapshot of the producers at the new base offset, old segment flushed in the background",
        f"{_FILE}/log/local_log.py",
        'self.services.in_thread(f"flush {self._label}", self.flush_inactive)',
        "pass",
        f"{_TESTS}/log/test_rolling.py::test_roll_by_a_full_offset_index",
    ),
)
