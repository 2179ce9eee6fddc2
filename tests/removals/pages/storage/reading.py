"""Read and look up, and the offsets that bound it."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_PARTITION = "kernel/partition"

_LOOKING_UP: Final = (
    Removal(
        "Limited by the high watermark or the last stable offset; OFFSET_OUT_OF_RANGE otherwise",
        f"{_PARTITION}/partition.py",
        "limit = watermarks.last_stable_offset if isolation else watermarks.high_watermark",
        "limit = watermarks.high_watermark",
        f"{_PARTITION}/test_read.py::test_read_is_bounded_by_the_isolation",
    ),
    Removal(
        "Limited by the high watermark or the last stable offset; OFFSET_OUT_OF_RANGE otherwise",
        f"{_PARTITION}/partition.py",
        "limit = watermarks.last_stable_offset if isolation else watermarks.high_watermark",
        "limit = watermarks.last_stable_offset if isolation else watermarks.log_end_offset",
        f"{_PARTITION}/test_read.py::test_read_is_bounded_by_the_isolation",
    ),
    Removal(
        "Limited by the high watermark or the last stable offset; OFFSET_OUT_OF_RANGE otherwise",
        f"{_PARTITION}/partition.py",
        "if not watermarks.log_start_offset <= offset <= watermarks.log_end_offset:",
        "if offset < 0:",
        f"{_PARTITION}/test_read.py::test_read_out_of_range",
    ),
    Removal(
        "Index, short scan, then a file region without a copy",
        f"{_FILE}/segments/readable_segment.py",
        "start = self.index.floor_position(offset, wait)",
        "start = 0",
        f"{_FILE}/test_log_file.py",
    ),
    Removal(
        "Index, short scan, then a file region without a copy",
        f"{_FILE}/segments/readable_segment.py",
        "return LogSlice((FileRegion(log, position, count),), count, min(bound, limit_offset))",
        "return LogSlice((log.read_exactly(position, count),), count, min(bound, limit_offset))",
        f"{_FILE}/test_log_file.py::test_prefetch_ends_at_the_end_of_the_file",
    ),
    Removal(
        "At least one whole batch, even if it is larger than the requested size",
        f"{_FILE}/segments/readable_segment.py",
        "count = min(count, max(max_bytes, first_size))",
        "count = min(count, max_bytes)",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_replace_segments_is_what_is_read",
    ),
    Removal(
        "Aborted transactions that overlap the range, across segments, limited by the last stable",
        f"{_FILE}/indexes/transaction_index.py",
        "if aborted.first_offset < to_offset:",
        "if aborted.last_offset < to_offset:",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_aborted_transactions_returns_all_that_overlap_a_range",
    ),
    Removal(
        "Aborted transactions that overlap the range, across segments, limited by the last stable",
        f"{_FILE}/segments/log_segments.py",
        "            if not more:\n                break",
        "            break",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_aborted_transactions_returns_all_that_overlap_a_range",
    ),
    Removal(
        "Aborted transactions that overlap the range, across segments, limited by the last stable",
        f"{_FILE}/indexes/transaction_index.py",
        "if aborted.last_stable_offset >= to_offset:",
        "if aborted.first_offset >= to_offset:",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_aborted_transactions_ends_where_nothing_can_follow",
    ),
    Removal(
        "By timestamp, earliest, latest, largest timestamp",
        f"{_PARTITION}/lookup.py",
        "return next((record for record in records if record.timestamp_ms >= timestamp_ms), None)",
        "return next(records, None)",
        f"{_PARTITION}/test_lookup.py::test_offset_for_timestamp_returns_the_first_record_at_or_after_it",
    ),
    Removal(
        "By timestamp, earliest, latest, largest timestamp",
        f"{_FILE}/segments/log_segments.py",
        "segment = max(self.all, key=_max_timestamp_if_filled)",
        "segment = self.all[-1]",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_a_store_agrees_with_the_simplest_log",
    ),
    Removal(
        "By timestamp, earliest, latest, largest timestamp",
        f"{_PARTITION}/lookup.py",
        "return found or _search_from(partition, timestamp_ms, max(header.next_offset, start))",
        "return found",
        f"{_PARTITION}/test_lookup.py::test_offset_for_timestamp_ignores_records_below_the_log_start_offset",
    ),
    Removal(
        "What is not in memory is read in a thread",
        f"{_FILE}/log_file.py",
        "return disk.preadv(self.fd, [buffer], position, self._flags)",
        "return disk.preadv(self.fd, [buffer], position, 0)",
        f"{_FILE}/test_log_file.py::test_read_raises_would_block_for_a_position_that_is_not_resident",
    ),
    Removal(
        "What is not in memory is read in a thread",
        "kernel/server/connection.py",
        "await trio.to_thread.run_sync(file.prefetch, position, resident_until - position)",
        "pass",
        "kernel/server/test_connection.py::test_send_parts_prefetches_a_cold_file_chunk_by_chunk",
    ),
    Removal(
        "A short read without waiting means that the rest is not in memory, never that there is no more",
        f"{_FILE}/indexes/transaction_index.py",
        "                raise _short_read(file, slot, wait)\n            for",
        "                return\n            for",
        f"{_FILE}/test_short_reads.py::TestFileStorageOnAShortDisk::test_aborted_transactions_returns_all_that_overlap_a_range",
    ),
    Removal(
        "A short read without waiting means that the rest is not in memory, never that there is no more",
        f"{_FILE}/indexes/transaction_index.py",
        "if file.read_into(field, slot * ENTRY.size + _LAST_OFFSET_AT, wait) < _LAST_OFFSET_BYTES:",
        "if file.read_into(field, slot * ENTRY.size + _LAST_OFFSET_AT, wait) < 0:",
        f"{_FILE}/test_short_reads.py::TestFileStorageOnAShortDisk::test_aborted_transactions_returns_all_that_overlap_a_range",
    ),
)

_OFFSETS: Final = (
    Removal(
        "log start ≤ last stable ≤ high watermark ≤ log end; the log start never exceeds the high",
        f"{_PARTITION}/log_changes.py",
        "if not 0 <= offset <= watermarks.high_watermark:",
        "if not 0 <= offset <= watermarks.log_end_offset:",
        f"{_PARTITION}/test_following.py::test_raise_log_start_is_bounded_by_the_high_watermark",
    ),
    Removal(
        "log start ≤ last stable ≤ high watermark ≤ log end; the log start never exceeds the high",
        f"{_PARTITION}/watermarks.py",
        "return min(max(undecided, self.log_start_offset), self.high_watermark)",
        "return undecided",
        f"{_PARTITION}/test_following.py",
    ),
    Removal(
        "The recovery point is raised by a flush and never before",
        f"{_FILE}/log/durability.py",
        "            if self._sync_unless_retired(segments, directory, growing):\n"
        "                self._durable_offset = max(self._durable_offset, target)",
        "            self._durable_offset = max(self._durable_offset, target)\n"
        "            self._sync_unless_retired(segments, directory, growing)",
        f"{_FILE}/log/test_durability.py::test_recovery_point_moves_only_after_the_device_has_everything",
    ),
    Removal(
        "The recovery point is raised by a flush and never before",
        f"{_FILE}/log/durability.py",
        "self._durable_offset = max(self._durable_offset, target)",
        "pass",
        f"{_FILE}/log/test_durability.py::test_recovery_point_moves_with_every_flush",
    ),
    Removal(
        "DeleteRecords raises the log start offset, truncates epochs and snapshots, and deletes the",
        f"{_PARTITION}/log_changes.py",
        "self._store.raise_log_start(offset)",
        "pass",
        "kernel/topics/test_changing_topics.py::test_delete_records_before_survives_a_restart",
    ),
    Removal(
        "DeleteRecords raises the log start offset, truncates epochs and snapshots, and deletes the",
        f"{_PARTITION}/epochs.py",
        "if self.truncate_from_start(offset):",
        "if False:",
        f"{_PARTITION}/test_side_writes.py::test_raise_log_start_truncates_lineage_and_snapshots",
    ),
    Removal(
        "DeleteRecords raises the log start offset, truncates epochs and snapshots, and deletes the",
        f"{_PARTITION}/producer_state_manager.py",
        "lambda: self.remove_snapshots(below=below)",
        "lambda: None",
        f"{_PARTITION}/test_side_writes.py::test_raise_log_start_truncates_lineage_and_snapshots",
    ),
    Removal(
        "DeleteRecords raises the log start offset, truncates epochs and snapshots, and deletes the",
        f"{_PARTITION}/log_changes.py",
        "partial(self._delete_segments_before, self._watermarks.log_start_offset)\n        )",
        "lambda: None\n        )",
        "kernel/topics/test_changing_topics.py::test_delete_records_before_survives_a_restart",
    ),
    Removal(
        "The checkpoint of high watermarks (`replication-offset-checkpoint`), written periodically and",
        f"{_FILE}/background.py",
        'PeriodicTask("checkpoint high watermarks", self._write_high_watermarks, high_watermarks_ms),',
        "",
        f"{_FILE}/test_background.py::test_the_log_managers_tasks_wait_for_the_initial_delay",
    ),
    Removal(
        "The checkpoint of high watermarks (`replication-offset-checkpoint`), written periodically and",
        f"{_FILE}/closing.py",
        "directory.write_high_watermarks(high_watermarks())",
        "pass",
        f"{_FILE}/test_high_watermarks.py::test_high_watermarks_are_written_at_a_clean_shutdown",
    ),
    Removal(
        "The checkpoint of high watermarks (`replication-offset-checkpoint`), written periodically and",
        f"{_FILE}/directories/log_directory.py",
        "if store.log_end_offset < shown:",
        "if store.log_end_offset < 0:",
        f"{_FILE}/test_high_watermarks.py::test_checkpointed_high_watermark_is_read_at_start",
    ),
    Removal(
        "At start the high watermark is the log end offset of a leader, and the checkpoint of a",
        f"{_PARTITION}/loading.py",
        "    high_watermark = end\n",
        "    high_watermark = min(store.checkpointed_high_watermark, end)\n",
        f"{_PARTITION}/test_following.py",
    ),
    Removal(
        "At start the high watermark is the log end offset of a leader, and the checkpoint of a",
        f"{_PARTITION}/loading.py",
        "high_watermark = max(min(store.checkpointed_high_watermark, end), start)",
        "pass",
        f"{_PARTITION}/test_following.py",
    ),
)

REMOVALS: Final = (*_LOOKING_UP, *_OFFSETS)
