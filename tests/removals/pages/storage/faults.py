"""Faults: what the tests of crashes, full disks and the like protect."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_PARTITION = "kernel/partition"

_KILLED = "`kill -9` before and after every file operation of a small broker, and of its recovery"
_POWER = "Power failure: what was not synced is lost, torn at 512 bytes, or garbage; also during recovery"
_TORN = "Torn tail at every byte, flipped bits, zeros, old blocks, swapped batches, far offsets"
_DAMAGED = "Indexes, snapshots, checkpoints: missing, empty, truncated, padded, corrupt, stale"
_FULL = "Full disk at append, index, roll, side file; then free space again"
_STAYS = (
    "On a full disk the broker stays up, stops with status 0 and starts; what it could not write comes later"
)
_EIO = "EIO on read, write and fsync; after a failed fsync nothing is acknowledged"
_EMFILE = "EMFILE: files of idle partitions are closed"
_OTHERS = "EROFS and EACCES, but not EMFILE, take a directory down; two brokers on one directory"
_CLOCK = "The clock jumps backwards and forwards; timestamps in the future, at 0 and at -1"
_STOPS = "SIGTERM stops gracefully, a second one immediately; the deletion of a topic wakes waiting fetches"

_CRASHES: Final = (
    Removal(
        _KILLED,
        f"{_PARTITION}/log_changes.py",
        "if header.base_offset >= snapshot_offset and header.producer_id > NO_PRODUCER_ID:",
        "if header.base_offset < 0:",
        "crash/test_every_step.py::test_a_recording_leads_to_the_same_files",
    ),
    Removal(
        "`kill -9` of a real process before every file operation",
        f"{_PARTITION}/log_changes.py",
        "if header.base_offset >= snapshot_offset and header.producer_id > NO_PRODUCER_ID:",
        "if header.base_offset < 0:",
        "crash/test_killed_process.py::test_a_process_may_be_killed_at_any_operation",
    ),
    Removal(
        "Repeated `kill -9` of a real process under load",
        f"{_PARTITION}/log_changes.py",
        "if header.base_offset >= snapshot_offset and header.producer_id > NO_PRODUCER_ID:",
        "if header.base_offset < 0:",
        "crash/test_killed_broker.py::test_nothing_acknowledged_is_lost_or_doubled",
    ),
    Removal(
        _POWER,
        f"{_FILE}/log/durability.py",
        "if segment.next_offset > self._durable_offset:",
        "if segment.next_offset < 0:",
        "crash/test_power_cut.py::test_what_was_durable_survives_the_loss_of_power",
    ),
    Removal(
        _POWER,
        f"{_FILE}/log/durability.py",
        "        if self._directory_changed:\n            self._sync_names(directory)\n",
        "",
        "crash/test_power_cut.py::test_what_was_durable_survives_the_loss_of_power",
    ),
    Removal(
        _POWER,
        "kernel/disk.py",
        "        if durable:\n            fsync(fd)\n",
        "",
        "crash/test_power_cut.py",
    ),
    Removal(
        _TORN,
        f"{_FILE}/recovery/segment_recovery.py",
        "and base_offset + delta < self._limit_offset",
        "and delta < 1 << 40",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_cuts_a_segment_that_overlaps_the_next_one",
    ),
    Removal(
        _TORN,
        f"{_FILE}/recovery/segment_recovery.py",
        "if checksum(view[at + covers_from : end], 0) != crc:",
        "if crc < 0:",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_ends_the_log_at_a_batch_with_a_flipped_bit",
    ),
    Removal(
        _TORN,
        f"{_FILE}/recovery/segment_recovery.py",
        "and base_offset >= builder.next_offset",
        "and base_offset >= 0",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_cuts_off_an_old_batch_behind_the_end_of_the_log",
    ),
    Removal(
        _DAMAGED,
        f"{_PARTITION}/snapshots.py",
        "if crc32c(body) != crc:",
        "if crc < 0:",
        f"{_PARTITION}/test_snapshots.py::test_decode_snapshot_detects_a_flipped_bit_anywhere",
    ),
    Removal(
        _DAMAGED,
        f"{_FILE}/directories/checkpoints.py",
        "if offsets[TopicPartition(topic, int(partition))] < 0:",
        "if not topic:",
        f"{_FILE}/directories/test_checkpoints.py::test_read_checkpoint_ignores_a_damaged_file_and_logs_it",
    ),
)

_REFUSALS: Final = (
    Removal(
        _FULL,
        f"{_FILE}/segments/segment.py",
        "            self._truncate_file(position)\n            raise",
        "            raise",
        f"{_FILE}/test_failures.py::test_a_disk_that_fills_up_in_the_middle_of_a_batch_leaves_no_part_of_it",
    ),
    Removal(
        _FULL,
        f"{_FILE}/indexes/mapped_index.py",
        "disk.write_all(fd, bytes(reserved - used), used)",
        "pass",
        f"{_FILE}/test_failures.py::test_no_room_for_an_index_entry_refuses_the_append",
    ),
    Removal(
        _FULL,
        "kernel/disk.py",
        "        with contextlib.suppress(OSError):\n            unlink(temporary)\n        raise",
        "        raise",
        f"{_FILE}/test_failures.py",
    ),
    Removal(
        _STAYS,
        f"{_FILE}/disk_errors.py",
        "_NOT_THE_DISK: Final = disk.FULL | frozenset(",
        "_NOT_THE_DISK: Final = frozenset(",
        f"{_FILE}/test_full_disk.py::test_disk_failed_keeps_a_full_directory_in_service",
    ),
    Removal(
        _STAYS,
        "kernel/tasks.py",
        "if last_run or not disk.is_full(error):",
        "if True:",
        f"{_FILE}/test_full_disk.py::test_side_writes_that_a_full_disk_refuses_are_written_later",
    ),
    Removal(
        "A real broker at the limit of the file size",
        "kernel/disk.py",
        "FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})",
        "FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})",
        "faults/test_processes.py::test_a_disk_that_takes_no_more_refuses_and_keeps_what_it_has",
    ),
    Removal(
        _EIO,
        f"{_FILE}/log/durability.py",
        "            self._failure = error\n            if disk",
        "            if disk",
        f"{_FILE}/test_failures.py::test_after_a_failed_flush_nothing_is_taken_for_durable",
    ),
    Removal(
        _EIO,
        f"{_FILE}/log/reads.py",
        "            log.report_disk_error(error)\n            raise\n\n    def _read_inactive",
        "            raise\n\n    def _read_inactive",
        f"{_FILE}/directories/test_failed_directories.py",
    ),
    Removal(
        _EMFILE,
        f"{_FILE}/log/local_log.py",
        "self.services.release_idle()",
        "pass",
        f"{_FILE}/test_idle.py::test_files_of_idle_partitions_are_closed_early_when_descriptors_run_short",
    ),
    Removal(
        _OTHERS,
        f"{_FILE}/directories/lock.py",
        "fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        f"{_FILE}/directories/test_lock.py::test_directory_lock_refuses_a_second_process_until_the_first_is_killed",
    ),
    Removal(
        _OTHERS,
        f"{_FILE}/disk_errors.py",
        "        errno.EMFILE,\n",
        "        errno.EROFS,\n",
        f"{_FILE}/directories/test_failed_directories.py",
    ),
    Removal(
        "A flush that hangs blocks no other client, and is completed though the client has disconnected",
        f"{_PARTITION}/group_commit.py",
        "                watermarks.advance_partly(self.durable_offset)\n            self.begin()",
        "                watermarks.advance_partly(self.durable_offset)",
        f"{_PARTITION}/test_group_commit.py",
    ),
)

_PROCESSES: Final = (
    Removal(
        _CLOCK,
        "kernel/maintenance.py",
        "since = min(self._waiting_since.get(partition, now), now)",
        "since = self._waiting_since.get(partition, now)",
        "faults/test_clock.py::test_a_clock_that_is_set_back_delays_a_flush_by_its_time_and_no_more",
    ),
    Removal(
        _CLOCK,
        "kernel/maintenance.py",
        "since = min(self._waiting_since.get(partition, now), now)",
        "since = self._waiting_since.get(partition) or now",
        "faults/test_clock.py::test_a_clock_that_is_set_back_delays_a_flush_by_its_time_and_no_more",
    ),
    Removal(
        _STOPS,
        "kernel/broker.py",
        "                broker.request_stop()\n",
        "                pass\n",
        "kernel/test_broker.py::test_serve_ends_on_sigterm",
    ),
    Removal(
        _STOPS,
        f"{_PARTITION}/availability.py",
        'is gone")\n        self._watermarks.abandon_waiters()',
        'is gone")',
        f"{_PARTITION}/test_watermarks.py",
    ),
    Removal(
        "A decompression bomb for each codec",
        "kernel/records/compression.py",
        "if left < 0:",
        "if left < -(1 << 60):",
        f"{_PARTITION}/test_record_checks.py::test_append_does_not_unpack_a_bomb_in_one_turn",
    ),
    Removal(
        "Thousands of partitions: an idle one has no open file descriptor",
        f"{_FILE}/recovery/opening.py",
        "loaded.segments[0].sleep()",
        "pass",
        f"{_FILE}/test_idle.py",
    ),
    Removal(
        "A fetch of 1,000 partitions allocates no memory for the records that it sends",
        f"{_FILE}/segments/readable_segment.py",
        "return LogSlice((FileRegion(log, position, count),), count, min(bound, limit_offset))",
        "return LogSlice((log.read_exactly(position, count),), count, min(bound, limit_offset))",
        "faults/test_processes.py::test_a_fetch_of_a_thousand_partitions_takes_no_memory_for_what_it_sends",
    ),
)

REMOVALS: Final = (*_CRASHES, *_REFUSALS, *_PROCESSES)
