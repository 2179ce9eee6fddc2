"""Log directories: what is in them, those that fail, moves between them."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_PARTITION = "kernel/partition"

_DIRECTORIES = f"{_FILE}/directories"
_TESTS = f"{_FILE}/directories/test_log_directories.py"
_FAILURES = f"{_FILE}/directories/test_failed_directories.py"
_SEVERAL = "Several; missing ones are created, duplicates are refused; a new partition goes to the one with"
_PARALLEL = "Logs are opened in parallel, by threads for each directory; remaining logs and segments are"
_CHECKPOINTS = "Checkpoints in Kafka's text form, replaced atomically; one that is corrupt is not used"
_DELETED = "`-delete` directories are removed after their delay, and at the next start"
_STRAY = "`-stray`: partitions that the metadata does not know"
_OFFLINE = "A directory that fails goes offline, once; its partitions are notified, the others are served"
_HALT = "The last one, or that of the metadata log, halts the broker"
_MOVES = "`-future`: a replica move to another directory during appends, crash-safe at every step"
_MEETING = "Moves, drafts, replacements, deletions and truncations exclude, abort or notify each other"
_DRAFTS = "A draft is valid once, for the store that created it, and while the segments that it replaces"
_PROGRESS = "The progress of a move, and the size of a directory: DescribeLogDirs"
_LOCKED = "Topics are changed under a lock, so a new configuration never races with opening"

_PLACES: Final = (
    Removal(
        _SEVERAL,
        f"{_DIRECTORIES}/placing.py",
        "if len({path.resolve() for path in paths}) < len(paths):",
        "if not paths:",
        f"{_TESTS}::test_configured_paths_refuses_log_directories_named_twice",
    ),
    Removal(
        _SEVERAL,
        f"{_DIRECTORIES}/placing.py",
        "min(self.live, key=counts.__getitem__)",
        "self.live[0]",
        f"{_TESTS}::test_open_partitions_creates_new_ones_in_the_directory_with_the_fewest",
    ),
    Removal(
        _SEVERAL,
        f"{_DIRECTORIES}/log_directory.py",
        "path.mkdir(mode=disk.DIRECTORY_MODE, parents=True, exist_ok=True)",
        "pass",
        _TESTS,
    ),
    Removal(
        "`.lock` as Java takes it",
        f"{_DIRECTORIES}/lock.py",
        "fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        f"{_FILE}/directories/test_lock.py::test_a_record_lock_of_another_process_is_respected",
    ),
    Removal(
        "`.lock` as Java takes it",
        f"{_DIRECTORIES}/lock.py",
        "if self._directory in _locked_here:",
        "if not self._directory:",
        f"{_FILE}/directories/test_lock.py::test_directory_lock_refuses_a_second_broker_in_the_same_process",
    ),
    Removal(
        "`meta.properties` with the directory's id",
        f"{_DIRECTORIES}/log_directory.py",
        "directory_id = ids.directory_id if ids is not None and ids.directory_id is not None else new_id()",
        "directory_id = new_id()",
        f"{_TESTS}::test_open_partitions_finds_data_regardless_of_the_order_of_log_dirs",
    ),
    Removal(
        "`meta.properties` with the directory's id",
        f"{_DIRECTORIES}/meta_properties.py",
        '        f"directory.id={ids.directory_id}",\n',
        "",
        f"{_FILE}/test_layout.py::test_the_log_directory_after_a_clean_stop",
    ),
    Removal(
        "`.kafka_cleanshutdown` is removed at start, so that a crash during loading is detected",
        f"{_DIRECTORIES}/checkpoints.py",
        "disk.unlink(path)",
        "disk.stat(path)",
        f"{_FILE}/test_layout.py::test_the_clean_mark_is_gone_while_the_storage_is_open",
    ),
    Removal(
        _PARALLEL,
        f"{_FILE}/recovery/parallel_opening.py",
        "if directory.clean else (self._threads, 1)",
        "if directory.clean else (1, 1)",
        f"{_FILE}/test_closing.py::test_open_partitions_recovers_logs_in_threads_for_each_directory",
    ),
    Removal(
        _PARALLEL,
        f"{_FILE}/recovery/parallel_opening.py",
        "progress.logs_done(str(directory.path), len(chunk))",
        "pass",
        "kernel/seams/storage/test_load_progress.py::test_remaining_logs_are_none_when_the_broker_is_ready",
    ),
    Removal(
        _PARALLEL,
        f"{_FILE}/recovery/log_loader.py",
        "self._remaining(len(bases) - index)",
        "pass",
        "kernel/seams/storage/test_load_progress.py::test_remaining_segments_of_a_log_decrease",
    ),
    Removal(
        _CHECKPOINTS,
        f"{_DIRECTORIES}/checkpoints.py",
        'disk.replace_file(path, ("\\n".join(lines) + "\\n").encode())',
        'disk.write_file(path, ("\\n".join(lines) + "\\n").encode(), durable=True)',
        f"{_FILE}/test_atomic_files.py",
    ),
    Removal(
        _CHECKPOINTS,
        f"{_DIRECTORIES}/checkpoints.py",
        "if int(count) != len(lines):",
        "if int(count) < 0:",
        f"{_FILE}/directories/test_checkpoints.py::test_read_checkpoint_ignores_a_damaged_file_and_logs_it",
    ),
    Removal(
        _CHECKPOINTS,
        f"{_DIRECTORIES}/checkpoints.py",
        "lines = [_VERSION, str(len(offsets))]",
        "lines = [_VERSION]",
        f"{_FILE}/directories/test_checkpoints.py::test_write_checkpoint_uses_the_text_format_of_apache_kafka",
    ),
    Removal(
        _DELETED,
        f"{_DIRECTORIES}/deletion.py",
        "due = [path for when, path in self._waiting if when <= now and concerns(path)]",
        "due = [path for when, path in self._waiting if concerns(path)]",
        f"{_FILE}/directories/test_deletion.py::test_segments_are_renamed_at_once_and_removed_later",
    ),
    Removal(
        _DELETED,
        f"{_FILE}/storage.py",
        "directory.deletions.add(directory.leftovers, 0)",
        "pass",
        f"{_FILE}/directories/test_deletion.py::test_what_was_not_removed_in_time_goes_at_the_next_start",
    ),
    Removal(
        _STRAY,
        f"{_DIRECTORIES}/stray_partitions.py",
        "    if strays:\n        _rename_strays(directory, strays)",
        "    if strays:\n        pass",
        f"{_TESTS}::test_quarantine_stray_partitions_renames_unknown_partitions",
    ),
    Removal(
        _STRAY,
        f"{_DIRECTORIES}/stray_partitions.py",
        "if topic_id not in (None, wanted) and not was_never_written(path):",
        "if topic_id is wanted:",
        f"{_TESTS}::test_quarantine_stray_partitions_renames_those_of_another_topic_id",
    ),
)

_FAILING: Final = (
    Removal(
        _OFFLINE,
        f"{_DIRECTORIES}/failed_directories.py",
        "            if directory in self._offered:\n                return\n",
        "",
        f"{_FAILURES}::test_a_directory_that_fails_again_and_again_is_taken_once",
    ),
    Removal(
        _OFFLINE,
        f"{_DIRECTORIES}/failed_directories.py",
        "self._context.partitions_failed(lost, described)",
        "pass",
        _FAILURES,
    ),
    Removal(
        _OFFLINE,
        f"{_DIRECTORIES}/failed_directories.py",
        "self._directories.in_service.remove(directory)",
        "pass",
        _FAILURES,
    ),
    Removal(
        _OFFLINE,
        f"{_DIRECTORIES}/failed_directories.py",
        "await self._context.metadata.fail_directory(directory.id_bytes, sorted(directory.stores))",
        "pass",
        _FAILURES,
    ),
    Removal(
        _HALT,
        f"{_DIRECTORIES}/failed_directories.py",
        "elif not self._directories:",
        "elif self._directories is None:",
        _FAILURES,
    ),
    Removal(
        _HALT,
        f"{_DIRECTORIES}/failed_directories.py",
        "if directory is self._directories.metadata_directory:",
        "if self._directories is None:",
        _FAILURES,
    ),
    Removal(
        "It stays offline until a restart",
        f"{_DIRECTORIES}/placing.py",
        "return self.known.assigned(spec.topic_partition) not in [home.id_bytes for home in self.live]",
        "return False",
        _FAILURES,
    ),
    Removal(
        "It stays offline until a restart",
        f"{_DIRECTORIES}/failed_directories.py",
        "store.fail(OSError(errno.EIO, described))",
        "pass",
        _FAILURES,
    ),
)

_MOVING: Final = (
    Removal(
        _MOVES,
        f"{_FILE}/moving/replica_move.py",
        "        self.store.copy_side_files_to(copy)\n",
        "",
        f"{_FILE}/moving/test_replica_moves.py::test_run_next_moves_log_start_epochs_producers_and_aborted_transactions",
    ),
    Removal(
        _MOVES,
        f"{_FILE}/moving/replica_move.py",
        "        copy.flush()\n",
        "",
        "crash/test_moves.py::test_a_log_that_nobody_flushes_meanwhile_is_durable_where_it_moves_to",
    ),
    Removal(
        _MOVES,
        f"{_FILE}/moving/replica_moves.py",
        "await self._assign(move.partition, move.target.id_bytes)\n                swapped",
        "swapped",
        f"{_FILE}/moving/test_replica_moves.py",
    ),
    Removal(
        _MOVES,
        f"{_FILE}/partition_store.py",
        "copy.append(batch, base_offset, last_offset, max_timestamp)",
        "None",
        f"{_FILE}/moving/test_replica_moves.py::test_run_next_moves_a_partition_during_appends_and_reads",
    ),
    Removal(
        _MEETING,
        f"{_FILE}/log/operations.py",
        "                other.aborted_by = operation\n",
        "",
        f"{_FILE}/log/test_operations.py::test_operations_follow_the_table_of_rules",
    ),
    Removal(
        _MEETING,
        f"{_FILE}/log/operations.py",
        "other.informed(change)",
        "pass",
        f"{_FILE}/moving/test_meeting.py::test_delete_segments_before_during_a_replica_move_stays_in_effect",
    ),
    Removal(
        _MEETING,
        f"{_FILE}/log/operations.py",
        "if rule is Rule.REFUSED:",
        "if rule is None:",
        f"{_FILE}/log/test_operations.py::test_operations_follow_the_table_of_rules",
    ),
    Removal(
        _MEETING,
        f"{_FILE}/moving/replica_move.py",
        "        self._follow_deletions(copy)\n        copy.rewritten",
        "        copy.rewritten",
        f"{_FILE}/moving/test_meeting.py::test_delete_segments_before_during_a_replica_move_stays_in_effect",
    ),
    Removal(
        _DRAFTS,
        f"{_FILE}/log/drafts.py",
        "if aborted_by is not None:",
        "if aborted_by is self:",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_replace_segments_refuses_a_draft_of_an_earlier_opening",
    ),
    Removal(
        _DRAFTS,
        f"{_FILE}/log/drafts.py",
        "if not draft.is_of(self):",
        "if draft is None:",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_replace_segments_refuses_a_draft_of_another_partition",
    ),
    Removal(
        _DRAFTS,
        f"{_FILE}/log/drafts.py",
        "if change.start_offset < end_offset and start_offset < change.end_offset:",
        "if change.start_offset < 0:",
        f"{_FILE}/test_conformance.py",
    ),
    Removal(
        _PROGRESS,
        f"{_FILE}/log_directory_admin.py",
        "max(move.offset_lag, 0)",
        "0",
        f"{_FILE}/moving/test_replica_moves.py",
    ),
    Removal(
        _PROGRESS,
        f"{_FILE}/log_directory_admin.py",
        "return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail",
        "return -1, -1",
        "plugins/protocol_kafka/handlers/test_log_dirs.py::test_describe_log_dirs_in_every_version",
    ),
    Removal(
        _LOCKED,
        "kernel/topics/topics.py",
        "        async with self._changing:\n"
        "            with trio.CancelScope(shield=True):\n                for index, (name, alter) in",
        "        if self._changing:\n"
        "            with trio.CancelScope(shield=True):\n                for index, (name, alter) in",
        "kernel/topics/test_changing_topics.py::test_alter_config_of_concurrent_changes",
    ),
)

REMOVALS: Final = (*_PLACES, *_FAILING, *_MOVING)
