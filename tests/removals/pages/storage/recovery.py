"""Recovery."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_PARTITION = "kernel/partition"

_LEFTOVERS = "`.deleted` removed, `.swap` and `.cleaned` resolved in order, replaced segments removed"
_IN_ORDER = "Segments in order; an index without its log is removed; a corrupt one is rebuilt"
_CHECKED = "Skipped after a clean shutdown; otherwise from the recovery point up, torn and foreign bytes"
_RECONCILED = "Epochs and producers are reconciled with the recovered log"
_AGAIN = "What recovery has read is durable only when it was flushed: a crash during recovery is safe"

REMOVALS: Final = (
    Removal(
        _LEFTOVERS,
        f"{_FILE}/segments/segment_files.py",
        "    for name in [name for name in names if name.endswith(_LEFTOVER_SUFFIXES)]:\n",
        "    for name in ():\n",
        f"{_FILE}/recovery/test_segment_recovery.py::test_list_segment_files_removes_leftovers_of_an_interrupted_change",
    ),
    Removal(
        _LEFTOVERS,
        f"{_FILE}/segments/swap_files.py",
        "undecided = [name for name in swaps if _base_of(name) >= lowest]",
        "undecided = swaps[:0]",
        f"{_FILE}/segments/test_swap_files.py::test_replace_segments_with_a_crash_at_every_step",
    ),
    Removal(
        _LEFTOVERS,
        f"{_FILE}/segments/swap_files.py",
        "_remove(directory, names, cleaned)",
        "pass",
        f"{_FILE}/segments/test_swap_files.py::test_replace_segments_with_a_crash_at_every_step",
    ),
    Removal(
        _LEFTOVERS,
        f"{_FILE}/segments/swap_files.py",
        "_remove(directory, names, _replaced(directory, names))",
        "pass",
        f"{_FILE}/segments/test_swap_files.py::test_replace_segments_with_a_crash_at_every_step",
    ),
    Removal(
        _LEFTOVERS,
        f"{_FILE}/segments/swap_files.py",
        "        _remove_marks(directory, names)\n        disk.sync_directory(directory)",
        "        _remove(directory, names, swaps)\n        disk.sync_directory(directory)",
        f"{_FILE}/segments/test_swap_files.py::test_replace_segments_with_a_crash_at_every_step",
    ),
    Removal(
        _IN_ORDER,
        f"{_FILE}/segments/segment_files.py",
        "return SegmentFiles(bases,",
        "return SegmentFiles(bases[::-1],",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_keeps_every_batch_after_a_crash_without_damage",
    ),
    Removal(
        _IN_ORDER,
        f"{_FILE}/segments/segment_files.py",
        "_remove_orphans(directory, names, set(bases), (*index_suffixes, TXN_INDEX_SUFFIX))",
        "pass",
        f"{_FILE}/recovery/test_segment_recovery.py::test_list_segment_files_removes_an_index_without_its_log",
    ),
    Removal(
        _IN_ORDER,
        f"{_FILE}/segments/segment.py",
        "if position == start and start and not _is_indexed_by(header, indexed_offset):",
        "if position < 0:",
        f"{_FILE}/recovery/test_segment_recovery.py::test_log_loader_rebuilds_an_index_whose_newest_entry_is_of_another_batch",
    ),
    Removal(
        _CHECKED,
        f"{_FILE}/directories/log_directory.py",
        "self._unchecked = set() if self.clean else set(self.folders)",
        "self._unchecked = set(self.folders)",
        f"{_FILE}/recovery/test_log_loader.py::test_load_after_a_clean_shutdown_reads_no_batch",
    ),
    Removal(
        _CHECKED,
        f"{_FILE}/directories/log_directory.py",
        "self._unchecked = set() if self.clean else set(self.folders)",
        "self._unchecked = set()",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_keeps_every_batch_after_a_crash_without_damage",
    ),
    Removal(
        _CHECKED,
        f"{_FILE}/directories/log_directory.py",
        "return self._recovery_points.get(partition, 0) if partition in self._unchecked else None",
        "return 0 if partition in self._unchecked else None",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_checks_only_segments_above_the_recovery_point",
    ),
    Removal(
        _CHECKED,
        f"{_FILE}/recovery/log_loader.py",
        "disk.ftruncate(log.fd, builder.size)",
        "pass",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_does_not_find_batches_again_that_were_cut_off",
    ),
    Removal(
        _CHECKED,
        f"{_FILE}/recovery/segment_recovery.py",
        "if checksum(view[at + covers_from : end], 0) != crc:",
        "if crc < 0:",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_ends_the_log_at_a_batch_with_a_flipped_bit",
    ),
    Removal(
        _CHECKED,
        f"{_FILE}/recovery/segment_recovery.py",
        "and base_offset >= builder.next_offset",
        "and base_offset >= 0",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_cuts_off_an_old_batch_behind_the_end_of_the_log",
    ),
    Removal(
        "Segments above a truncation are removed",
        f"{_FILE}/recovery/log_loader.py",
        "                self._drop(bases[index + 1 :])\n",
        "",
        f"{_FILE}/recovery/test_segment_recovery.py::test_log_loader_removes_the_segments_behind_a_damaged_one",
    ),
    Removal(
        "A segment whose offsets overflow is split",
        f"{_FILE}/recovery/log_loader.py",
        "if builder.overflow_offset is not None:",
        "if builder.overflow_offset == -1:",
        f"{_FILE}/recovery/test_splitting.py::test_split_segment_where_offsets_do_not_fit",
    ),
    Removal(
        "A log start offset beyond the log end offset: the log is empty and starts there",
        f"{_FILE}/recovery/opening.py",
        "    _remove_segments_below(log_start, path, loaded)\n",
        "",
        f"{_FILE}/recovery/test_segment_recovery.py::test_open_partition_recreates_a_log_that_ends_before_its_log_start_checkpoint",
    ),
    Removal(
        _RECONCILED,
        f"{_PARTITION}/epochs.py",
        "        self.truncate_from_end(store.log_end_offset + 1)\n",
        "",
        f"{_PARTITION}/test_loading.py::test_load_partition_drops_leader_epochs_of_lost_records_from_the_lineage",
    ),
    Removal(
        _RECONCILED,
        f"{_PARTITION}/epochs.py",
        "        self.truncate_from_start(store.log_start_offset)\n",
        "",
        f"{_PARTITION}/test_loading.py::test_load_partition_truncates_the_leader_epoch_lineage_to_the_log_start",
    ),
    Removal(
        _RECONCILED,
        f"{_PARTITION}/loading.py",
        "    producers.remove_snapshots(below=start, above=end)\n",
        "",
        f"{_PARTITION}/test_loading.py::test_load_partition_removes_snapshots_beyond_a_truncated_log",
    ),
    Removal(
        _AGAIN,
        f"{_FILE}/recovery/opening.py",
        "durable = end if recover_from is None else min(recover_from, end)",
        "durable = end",
        "crash/test_durable_offset.py::test_a_flush_after_a_kill_reaches_what_was_appended_before",
    ),
)
