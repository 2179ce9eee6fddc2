"""Background work, the oldest design, and configuration keys."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_PARTITION = "kernel/partition"

_BACKGROUND = f"{_FILE}/background.py"
_INITIAL = "Flush by time, recovery points, log starts, removal of deleted partitions: first after"
_GROUP = "Flush by messages with group commit: one flush serves all appends that wait"
_SEGMENT_GOES = "A deleted segment is renamed immediately and removed after `file.delete.delay.ms`"
_KEYS = "`segment.bytes`, `segment.ms`, `segment.jitter.ms`, `segment.index.bytes`, `index.interval.bytes`"
_BROKER_KEYS = (
    "The broker's defaults of these keys, `producer.id.expiration.ms` and the limits on connections"
)
_INTERVALS = "`log.flush.offset.checkpoint.interval.ms`, `log.flush.start.offset.checkpoint.interval.ms`"

_WORK: Final = (
    Removal(
        _INITIAL,
        _BACKGROUND,
        "self._remove_partitions, deletion_ms, initial_delay_ms)",
        "self._remove_partitions, deletion_ms)",
        f"{_FILE}/test_background.py::test_the_log_managers_tasks_wait_for_the_initial_delay",
    ),
    Removal(
        _INITIAL,
        _BACKGROUND,
        "partial(self._in_each_directory, write), config[key], initial_delay_ms)",
        "partial(self._in_each_directory, write), config[key])",
        f"{_FILE}/test_background.py::test_the_log_managers_tasks_wait_for_the_initial_delay",
    ),
    Removal(
        _INITIAL,
        "kernel/maintenance.py",
        "TimedFlush(topics, clock).run, every, delay)",
        "TimedFlush(topics, clock).run, every)",
        f"{_FILE}/test_background.py::test_the_log_managers_tasks_wait_for_the_initial_delay",
    ),
    Removal(
        _GROUP,
        f"{_PARTITION}/group_commit.py",
        "            self.begin()\n            return True\n",
        "            return True\n",
        f"{_PARTITION}/test_group_commit.py::test_wait_flushed_does_not_wait_for_later_appends",
    ),
    Removal(
        "Flushes of a log directory run in a few threads, those of different directories at the same time",
        f"{_PARTITION}/flush_threads.py",
        "                if queue.threads >= THREADS_PER_DIRECTORY:\n                    continue\n",
        "",
        f"{_PARTITION}/test_flush_threads.py::test_a_directory_has_a_few_threads_and_serves_the_oldest_first",
    ),
    Removal(
        "Flushes of a log directory run in a few threads, those of different directories at the same time",
        f"{_PARTITION}/flush_threads.py",
        "self._queues.setdefault(flush.directory, ",
        'self._queues.setdefault("", ',
        f"{_PARTITION}/test_flush_threads.py::test_a_directory_whose_device_hangs_holds_up_no_other",
    ),
    Removal(
        "After a failed flush nothing is acknowledged or visible until a restart",
        f"{_PARTITION}/group_commit.py",
        "            self._failure = outcome\n",
        "",
        f"{_PARTITION}/test_group_commit.py",
    ),
    Removal(
        "After a failed flush nothing is acknowledged or visible until a restart",
        f"{_PARTITION}/group_commit.py",
        "        else:\n            if not isinstance(outcome, OSError):\n",
        "        else:\n            self._show()\n            if not isinstance(outcome, OSError):\n",
        f"{_PARTITION}/test_group_commit.py",
    ),
    Removal(
        _SEGMENT_GOES,
        f"{_FILE}/log/local_log.py",
        "                disk.rename(path, path + DELETED_SUFFIX)\n",
        "                disk.stat(path)\n",
        f"{_FILE}/directories/test_deletion.py::test_segments_are_renamed_at_once_and_removed_later",
    ),
    Removal(
        _SEGMENT_GOES,
        f"{_FILE}/log/local_log.py",
        "self.services.delete_later(renamed, self.config.file_delete_delay_ms)",
        "self.services.delete_later(renamed, 0)",
        f"{_FILE}/directories/test_deletion.py::test_segments_are_renamed_at_once_and_removed_later",
    ),
    Removal(
        "Nothing is removed from a log directory after its lock is released",
        f"{_FILE}/directories/deletion.py",
        "        self.closed = True\n",
        "",
        f"{_FILE}/directories/test_deletion.py",
    ),
    Removal(
        "Nothing is removed from a log directory after its lock is released",
        f"{_FILE}/directories/deletion.py",
        "        self.closed = True\n        with self._removing:\n            pass",
        "        self.closed = True",
        f"{_FILE}/directories/test_deletion.py",
    ),
    Removal(
        "Background work on a deleted partition does not affect a new one of its name",
        f"{_PARTITION}/side_writes.py",
        "if not self._closed and self.wanted:\n                self._store",
        "if self._store:\n                self._store",
        "kernel/topics/test_deleting_under_work.py",
    ),
    Removal(
        "Background work on a deleted partition does not affect a new one of its name",
        f"{_PARTITION}/side_writes.py",
        "return change() if not self._closed and self.wanted else None",
        "return change()",
        f"{_PARTITION}/test_side_writes.py::test_side_writes_write_nothing_beside_a_partition_that_is_gone",
    ),
)

_OLDEST: Final = (
    Removal(
        "Serial appends to the last file, rolled at a size; flushed after M messages or S seconds",
        f"{_PARTITION}/group_commit.py",
        "if log_end - self.durable_offset >= self.flush_messages:",
        "if log_end < 0:",
        f"{_PARTITION}/test_group_commit.py::test_high_watermark_is_raised_when_a_batch_is_durable",
    ),
    Removal(
        "Serial appends to the last file, rolled at a size; flushed after M messages or S seconds",
        "kernel/maintenance.py",
        "flushes.start_soon(partition.flush)",
        "pass",
        "kernel/test_maintenance.py::test_timed_flush_flushes_only_what_waited_for_flush_ms",
    ),
    Removal(
        "Serial appends to the last file, rolled at a size; flushed after M messages or S seconds",
        f"{_FILE}/segments/segment.py",
        "if self.size + size > policy.segment_bytes or self.index.entries > policy.index_entries:",
        "if self.index.entries > policy.index_entries:",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_replace_segments_is_what_is_read",
    ),
    Removal(
        "A read has an offset and a size; one message that is larger is returned whole",
        f"{_FILE}/segments/readable_segment.py",
        "count = min(count, max(max_bytes, first_size))",
        "count = max(count, first_size)",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_replace_segments_is_what_is_read",
    ),
    Removal(
        "The segment by a binary search in memory, then the position in its file",
        f"{_FILE}/segments/log_segments.py",
        "return bisect_right(segments, offset, key=_base_offset)",
        "return 1",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_a_store_agrees_with_the_simplest_log",
    ),
    Removal(
        "The latest offset, and an error for an offset out of range",
        "plugins/protocol_kafka/handlers/list_offsets.py",
        "return TimestampOffset(NO_TIME, partition.readable_end(isolation), partition.leader_epoch)",
        "return TimestampOffset(NO_TIME, partition.log_start_offset, partition.leader_epoch)",
        "plugins/protocol_kafka/handlers/test_list_offsets.py::test_list_offsets_by_timestamp",
    ),
    Removal(
        "The latest offset, and an error for an offset out of range",
        f"{_PARTITION}/partition.py",
        "if not watermarks.log_start_offset <= offset <= watermarks.log_end_offset:",
        "if offset < 0:",
        f"{_PARTITION}/test_read.py::test_read_out_of_range",
    ),
    Removal(
        "Recovery validates the newest segment: sizes within the file, CRC, then truncation",
        f"{_FILE}/recovery/segment_recovery.py",
        "if checksum(view[at + covers_from : end], 0) != crc:",
        "if crc < 0:",
        f"{_FILE}/recovery/test_segment_recovery.py::test_validate_batches_ends_the_log_at_a_batch_with_a_flipped_bit",
    ),
)

_CONFIGURATION: Final = (
    Removal(
        _KEYS,
        f"{_FILE}/log_config.py",
        "return cls(config.segment_bytes, config.segment_ms, jitter)",
        "return cls(1 << 30, config.segment_ms, jitter)",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_replace_segments_is_what_is_read",
    ),
    Removal(
        _KEYS,
        f"{_FILE}/log_config.py",
        "return cls(config.segment_bytes, config.segment_ms, jitter)",
        "return cls(config.segment_bytes, 1 << 60, jitter)",
        f"{_FILE}/log/test_rolling.py::test_roll_by_age_uses_the_clock_without_timestamps",
    ),
    Removal(
        _KEYS,
        f"{_FILE}/log_config.py",
        "limit = min(config.segment_jitter_ms, config.segment_ms)",
        "limit = 0",
        f"{_FILE}/log/test_rolling.py::test_roll_policy_draws_a_random_jitter",
    ),
    Removal(
        _KEYS,
        f"{_FILE}/segments/creation.py",
        "            config.segment_index_bytes,\n",
        "            10 << 20,\n",
        f"{_FILE}/log/test_rolling.py::test_roll_by_a_full_offset_index",
    ),
    Removal(
        _KEYS,
        f"{_FILE}/log/local_log.py",
        "segment.index_interval_bytes = self.config.index_interval_bytes",
        "segment.index_interval_bytes = 4096",
        f"{_FILE}/log/test_rolling.py::test_roll_by_a_full_offset_index",
    ),
    Removal(
        "`flush.messages`, `flush.ms`",
        f"{_PARTITION}/group_commit.py",
        "if log_end - self.durable_offset >= self.flush_messages:",
        "if log_end < 0:",
        f"{_PARTITION}/test_group_commit.py::test_high_watermark_is_raised_when_a_batch_is_durable",
    ),
    Removal(
        "`flush.messages`, `flush.ms`",
        "kernel/maintenance.py",
        "if now - since >= flush_ms:",
        "if now - since >= 1 << 60:",
        "kernel/test_maintenance.py::test_timed_flush_flushes_only_what_waited_for_flush_ms",
    ),
    Removal(
        "`preallocate`, for a new log and when it rolls",
        f"{_FILE}/segments/creation.py",
        "config.segment_bytes if config.preallocate else 0,",
        "0,",
        f"{_FILE}/test_layout.py::test_preallocate_reserves_segment_bytes_and_close_trims_the_log",
    ),
    Removal(
        "`preallocate`, for a new log and when it rolls",
        f"{_FILE}/segments/creation.py",
        "config.segment_bytes if config.preallocate else 0,",
        "0,",
        f"{_FILE}/segments/test_creation.py::test_spare_segment_lets_a_roll_create_and_trim_nothing_on_the_event_loop",
    ),
    Removal(
        "`file.delete.delay.ms`",
        f"{_FILE}/partition_store.py",
        "self.log.services.delete_later([path], self.config.file_delete_delay_ms)",
        "self.log.services.delete_later([path], 0)",
        f"{_FILE}/directories/test_deletion.py::test_a_partition_is_renamed_at_once_and_removed_later",
    ),
    Removal(
        "`file.delete.delay.ms`",
        f"{_FILE}/log/local_log.py",
        "self.services.delete_later(renamed, self.config.file_delete_delay_ms)",
        "self.services.delete_later(renamed, 60_000)",
        f"{_FILE}/directories/test_deletion.py::test_remove_partitions_waits_for_the_initial_task_delay_unlike_remove_files",
    ),
    Removal(
        "`num.recovery.threads.per.data.dir` for opening",
        f"{_FILE}/recovery/parallel_opening.py",
        "if directory.clean else (self._threads, 1)",
        "if directory.clean else (1, 1)",
        f"{_FILE}/test_closing.py::test_open_partitions_recovers_logs_in_threads_for_each_directory",
    ),
    Removal(
        "`num.recovery.threads.per.data.dir` for closing",
        f"{_FILE}/closing.py",
        "limiter = trio.CapacityLimiter(threads)",
        "limiter = trio.CapacityLimiter(1)",
        f"{_FILE}/test_closing.py::test_close_partitions_uses_threads_for_each_directory",
    ),
    Removal(
        _INTERVALS,
        _BACKGROUND,
        "            if config[key]\n",
        "            if name\n",
        f"{_FILE}/test_background.py::test_tasks_omit_a_checkpoint_task_whose_interval_ms_is_zero",
    ),
    Removal(
        "`log.initial.task.delay.ms`",
        _BACKGROUND,
        "initial_delay_ms = config[kernel_keys.LOG_INITIAL_TASK_DELAY_MS]",
        "initial_delay_ms = 30_000",
        f"{_FILE}/test_background.py::test_the_log_managers_tasks_wait_for_the_initial_delay",
    ),
    Removal(
        "Each topic key can be changed while the broker runs",
        "kernel/topics/topics.py",
        "            await run_in_steps(topic.configure(config), pace)\n            _log.info",
        "            _log.info",
        "plugins/protocol_kafka/handlers/test_alter_configs.py",
    ),
    Removal(
        "Each topic key can be changed while the broker runs",
        f"{_FILE}/log/local_log.py",
        "        self.config = config\n        self._policy = RollPolicy.of(config)\n        self.segments",
        "        self.config = config\n        self.segments",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_configure_is_followed_by_appends",
    ),
    Removal(
        _BROKER_KEYS,
        "kernel/controller/dynamic_config.py",
        "            await self._topics.refresh_configs()\n",
        "",
        "plugins/protocol_kafka/handlers/test_alter_configs.py::test_incremental_alter_configs_of_all_brokers_sets_the_defaults_of_topics",
    ),
    Removal(
        _BROKER_KEYS,
        "kernel/controller/dynamic_config.py",
        "        self._events.publish(BrokerConfigChanged())\n",
        "",
        "plugins/protocol_kafka/handlers/test_alter_configs.py::test_incremental_alter_configs_of_connection_limits_takes_effect_immediately",
    ),
)

REMOVALS: Final = (*_WORK, *_OLDEST, *_CONFIGURATION)
