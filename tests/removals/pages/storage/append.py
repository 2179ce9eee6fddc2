"""Append."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_PARTITION = "kernel/partition"

REMOVALS: Final = (
    Removal(
        "Length, CRC-32C, magic and counts of the batch",
        f"{_PARTITION}/validation.py",
        "if not verify_crc(batch, header):\n        raise _wrong_crc(header)\n    _validate_counts",
        "_validate_counts",
        f"{_PARTITION}/test_validation.py::test_validate_batch_refuses_invalid_batches",
    ),
    Removal(
        "Length, CRC-32C, magic and counts of the batch",
        f"{_PARTITION}/validation.py",
        "if header.batch_length != size - LOG_OVERHEAD_BYTES:",
        "if header.batch_length > size - LOG_OVERHEAD_BYTES:",
        f"{_PARTITION}/test_validation.py::test_validate_batch_refuses_invalid_batches",
    ),
    Removal(
        "Length, CRC-32C, magic and counts of the batch",
        f"{_PARTITION}/validation.py",
        "if header.last_offset_delta != count - 1:",
        "if header.last_offset_delta < count - 1:",
        f"{_PARTITION}/test_validation.py::test_validate_batch_refuses_invalid_batches",
    ),
    Removal(
        "Length, CRC-32C, magic and counts of the batch",
        "kernel/records/batch.py",
        "if magic > MAGIC_V2:",
        "if magic > MAGIC_V2 + 1:",
        f"{_PARTITION}/test_validation.py::test_validate_batch_refuses_invalid_batches",
    ),
    Removal(
        "`max.message.bytes`; a batch larger than a segment (RECORD_LIST_TOO_LARGE)",
        f"{_PARTITION}/validation.py",
        "if size > config.max_message_bytes:",
        "if size < 0:",
        f"{_PARTITION}/test_validation.py::test_validate_batch_enforces_max_message_bytes",
    ),
    Removal(
        "`max.message.bytes`; a batch larger than a segment (RECORD_LIST_TOO_LARGE)",
        f"{_FILE}/log/local_log.py",
        "if size > self.config.segment_bytes:",
        "if size < 0:",
        f"{_FILE}/test_conformance.py::TestFileStorage::test_append_refuses_a_batch_larger_than_a_segment",
    ),
    Removal(
        "CreateTime against `message.timestamp.before.max.ms` and `.after.max.ms`; LogAppendTime stamped",
        f"{_PARTITION}/validation.py",
        "        now_ms - config.message_timestamp_before_max_ms,\n",
        "        -(1 << 63),\n",
        f"{_PARTITION}/test_validation.py::test_validate_in_steps_compares_each_timestamp_with_the_limits",
    ),
    Removal(
        "CreateTime against `message.timestamp.before.max.ms` and `.after.max.ms`; LogAppendTime stamped",
        f"{_PARTITION}/validation.py",
        "min(now_ms + config.message_timestamp_after_max_ms, MAX_TIMESTAMP)",
        "MAX_TIMESTAMP",
        f"{_PARTITION}/test_timestamps.py::test_append_refuses_records_far_ahead_whatever_max_timestamp_the_header_has",
    ),
    Removal(
        "CreateTime against `message.timestamp.before.max.ms` and `.after.max.ms`; LogAppendTime stamped",
        f"{_PARTITION}/appends.py",
        "            stamp_append_time(batch, header, now_ms)\n            return self._writer.append(",
        "            return self._writer.append(",
        f"{_PARTITION}/test_timestamps.py::test_append_time_replaces_what_the_client_said",
    ),
    Removal(
        "The max timestamp of a batch is that of its records, whatever its header says",
        f"{_PARTITION}/appends.py",
        "if header.attributes & TIMESTAMP_TYPE_BIT or max_timestamp != header.max_timestamp:",
        "if header.attributes & TIMESTAMP_TYPE_BIT:",
        f"{_PARTITION}/test_timestamps.py::test_append_sets_max_timestamp_from_the_records",
    ),
    Removal(
        "Records of all batches: count, offsets from 0, no trailing bytes, a limit on the size;",
        "kernel/records/checking.py",
        "if self.scanner.index < self._count and not self.stops:",
        "if self.scanner.index < 0:",
        "kernel/records/test_checking.py::test_check_in_steps_refuses_malformed_records",
    ),
    Removal(
        "Records of all batches: count, offsets from 0, no trailing bytes, a limit on the size;",
        "kernel/records/checking.py",
        "if bytes_follow and not self.stops:",
        "if self._count < 0:",
        "kernel/records/test_checking.py::test_check_in_steps_refuses_malformed_records",
    ),
    Removal(
        "Records of all batches: count, offsets from 0, no trailing bytes, a limit on the size;",
        "kernel/records/checking.py",
        "if offset_delta != self._index:",
        "if offset_delta < 0:",
        "kernel/records/test_checking.py::test_check_in_steps_refuses_malformed_records",
    ),
    Removal(
        "Records of all batches: count, offsets from 0, no trailing bytes, a limit on the size;",
        "kernel/records/scanner.py",
        "or (counts and offset != index << 1)",
        "or (counts and offset < 0)",
        "kernel/records/test_checking.py::test_check_in_steps_refuses_malformed_records",
    ),
    Removal(
        "Records of all batches: count, offsets from 0, no trailing bytes, a limit on the size;",
        "kernel/records/compression.py",
        "if left < 0:",
        "if left < -(1 << 60):",
        f"{_PARTITION}/test_record_checks.py::test_append_does_not_unpack_a_bomb_in_one_turn",
    ),
    Removal(
        "A step of the validation is bounded, and larger batches are validated while others are served",
        f"{_PARTITION}/record_checks.py",
        "_take_for_a_turn(steps, FIRST_TURN_SECONDS)",
        "_take_for_a_turn(steps, 60.0)",
        f"{_PARTITION}/test_record_checks.py::test_append_of_many_records_is_an_awaitable",
    ),
    Removal(
        "A step of the validation is bounded, and larger batches are validated while others are served",
        f"{_PARTITION}/record_checks.py",
        "while not await _others_were_served():",
        "while True:",
        f"{_PARTITION}/test_record_checks.py::test_check_records_continues_in_a_thread_when_other_tasks_are_ready",
    ),
    Removal(
        "Concurrent decompression shares one memory budget; what does not fit waits in order",
        f"{_PARTITION}/memory_budget.py",
        "if self._queue or self._of_all(size) > self._free:",
        "if self._queue:",
        f"{_PARTITION}/test_memory_budget.py::test_try_hold_refuses_more_than_the_free_bytes",
    ),
    Removal(
        "Concurrent decompression shares one memory budget; what does not fit waits in order",
        f"{_PARTITION}/lookup.py",
        "with partition.unpacking.memory.hold(len(batch) + unpacking_memory(batch, header)):",
        "with partition.unpacking.memory.hold(0):",
        f"{_PARTITION}/test_memory_budget.py::test_a_lookup_holds_memory_while_it_unpacks",
    ),
    Removal(
        "Keys in compacted topics",
        "kernel/records/checking.py",
        "if key_bytes < 0 and rules.keys_required:",
        "if key_bytes < -1 and rules.keys_required:",
        f"{_PARTITION}/test_record_checks.py::test_append_refuses_records_without_a_key_in_a_compacted_topic",
    ),
    Removal(
        "Offsets and leader epoch are stamped in place, outside the CRC",
        f"{_PARTITION}/appends.py",
        "stamp_offset(batch, base_offset, self.leader_epoch)",
        "stamp_offset(batch, base_offset, 0)",
        f"{_PARTITION}/test_append.py::test_append_stamps_the_leader_epoch",
    ),
    Removal(
        "Offsets and leader epoch are stamped in place, outside the CRC",
        f"{_PARTITION}/appends.py",
        "stamp_offset(batch, base_offset, self.leader_epoch)",
        "stamp_offset(batch, 0, self.leader_epoch)",
        f"{_PARTITION}/test_append.py::test_append_stamps_the_header_in_place",
    ),
    Removal(
        "Duplicates of the last five batches get their original offsets; sequence gaps and old epochs",
        f"{_PARTITION}/producers.py",
        "            return sent\n    raise",
        "            break\n    raise",
        f"{_PARTITION}/test_producers.py::TestIdempotence::runTest",
    ),
    Removal(
        "Duplicates of the last five batches get their original offsets; sequence gaps and old epochs",
        f"{_PARTITION}/producers.py",
        "elif sequenced and header.base_sequence != entry.next_sequence:",
        "elif sequenced and header.base_sequence < 0:",
        f"{_PARTITION}/test_producers.py",
    ),
    Removal(
        "Duplicates of the last five batches get their original offsets; sequence gaps and old epochs",
        f"{_PARTITION}/producers.py",
        "if header.producer_epoch < entry.epoch:\n        raise InvalidProducerEpoch",
        "if header.producer_epoch < -9:\n        raise InvalidProducerEpoch",
        f"{_PARTITION}/test_producers.py::TestIdempotence::runTest",
    ),
    Removal(
        "One writer: no trio checkpoint between reading the log end offset and the write",
        f"{_PARTITION}/appends.py",
        "watermarks.log_end_offset = last_offset + 1",
        "watermarks.log_end_offset = last_offset + 2",
        f"{_PARTITION}/test_append.py::test_append_gives_dense_offsets",
    ),
    Removal(
        "The leader epoch is assigned to the cache with its first batch",
        f"{_PARTITION}/appends.py",
        "self._epochs.begin(leader_epoch, base_offset)",
        "pass",
        f"{_PARTITION}/test_append.py::test_append_stamps_the_leader_epoch",
    ),
    Removal(
        "Follower append: offsets are unchanged; producers, epochs and aborted transactions are derived",
        f"{_PARTITION}/following.py",
        "partition.writer.write(data, header, header.base_offset, header.last_offset, epoch, marker)",
        "start = partition.log_end_offset\n"
        "            end = start + header.last_offset_delta\n"
        "            partition.writer.write(data, header, start, end, epoch, marker)",
        f"{_PARTITION}/test_following.py::test_follower_append_keeps_the_gaps_of_a_compacted_log",
    ),
    Removal(
        "Follower append: offsets are unchanged; producers, epochs and aborted transactions are derived",
        f"{_PARTITION}/following.py",
        "partition.writer.write(data, header, header.base_offset, header.last_offset, epoch, marker)",
        "partition.writer.write(data, header, header.base_offset, header.last_offset, epoch, None)",
        f"{_PARTITION}/test_following.py::test_follower_append_copies_the_log_and_the_state_of_the_leader",
    ),
    Removal(
        "Follower append: offsets are unchanged; producers, epochs and aborted transactions are derived",
        f"{_PARTITION}/appends.py",
        "elif header.producer_id > NO_PRODUCER_ID:\n            self._producers.update",
        "elif not self._watermarks.follows:\n            self._producers.update",
        f"{_PARTITION}/test_following.py::test_follower_append_copies_the_log_and_the_state_of_the_leader",
    ),
    Removal(
        "A failed append has no effect: the log is truncated to its previous end, or overwritten there",
        f"{_FILE}/segments/segment.py",
        "            self._truncate_file(position)\n            raise",
        "            raise",
        f"{_FILE}/test_failures.py::test_a_disk_that_fills_up_in_the_middle_of_a_batch_leaves_no_part_of_it",
    ),
    Removal(
        "A transaction index that lacks entries of its log is completed at the next start",
        f"{_PARTITION}/producer_state_manager.py",
        "self._store.add_aborted(aborted)",
        "pass",
        f"{_FILE}/indexes/test_transaction_index.py::test_transaction_index_that_lost_entries_is_completed_at_start",
    ),
    Removal(
        "Magic 0 and 1 on disk: validated by their own checksum, not truncated",
        f"{_FILE}/recovery/segment_recovery.py",
        "else (zlib.crc32, MAGIC_AT)",
        "else (crc32c, MAGIC_AT)",
        f"{_FILE}/recovery/test_old_formats.py::test_validate_batches_takes_messages_of_both_formats",
    ),
    Removal(
        "Magic 0 and 1: a segment that begins with a compressed message begins at the first offset in it",
        f"{_PARTITION}/following.py",
        "if first < header.base_offset:",
        "if False:",
        f"{_PARTITION}/test_following.py"
        "::test_a_segment_that_begins_with_a_compressed_message_begins_with_the_first_offset_in_it",
    ),
)
