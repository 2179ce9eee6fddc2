"""Producer state and leader epochs."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_PARTITION = "kernel/partition"

_SNAPSHOTS = "Snapshot: version, CRC, 46-byte entries; one that is corrupt is dropped for the one before it"
_WHEN = "On every roll and at a clean shutdown; stray snapshots are removed, at a start and when segments"
_CLEAN = "After a clean shutdown no batch is read; a long log without snapshots is read once"
_OPEN = "Open transactions, first unstable offset, aborted transactions, fencing of coordinators"
_EXPIRY = "`producer.id.expiration.ms`; a producer in a transaction does not expire"
_VERIFIED = "The coordinator verifies the transaction of a batch before it is appended (KIP-890)"

_PRODUCERS: Final = (
    Removal(
        "Up to five batches for each producer, in memory",
        f"{_PARTITION}/producers.py",
        "BATCHES_TO_RETAIN = 5",
        "BATCHES_TO_RETAIN = 4",
        f"{_PARTITION}/test_producers.py",
    ),
    Removal(
        _SNAPSHOTS,
        f"{_PARTITION}/snapshots.py",
        "if version != VERSION:",
        "if version < 0:",
        f"{_PARTITION}/test_snapshots.py::test_decode_snapshot_detects_a_flipped_bit_anywhere",
    ),
    Removal(
        _SNAPSHOTS,
        f"{_PARTITION}/snapshots.py",
        "if crc32c(body) != crc:",
        "if crc < 0:",
        f"{_PARTITION}/test_snapshots.py::test_decode_snapshot_detects_a_flipped_bit_anywhere",
    ),
    Removal(
        _SNAPSHOTS,
        f"{_PARTITION}/snapshots.py",
        '_ENTRY = struct.Struct(">qhiqiqiq")',
        '_ENTRY = struct.Struct(">qhiqiqqq")',
        f"{_PARTITION}/test_snapshots.py::test_encode_snapshot_writes_the_layout_of_kafka",
    ),
    Removal(
        _SNAPSHOTS,
        f"{_PARTITION}/producer_state_manager.py",
        "                store.delete_side_file(name)\n",
        "                store.delete_side_file(name)\n                break\n",
        f"{_PARTITION}/test_producer_state_manager.py",
    ),
    Removal(
        _WHEN,
        f"{_PARTITION}/appends.py",
        "self._producers.snapshot_soon(base_offset)",
        "pass",
        f"{_PARTITION}/test_append.py::test_append_writes_a_producer_snapshot_at_every_roll",
    ),
    Removal(
        _WHEN,
        f"{_PARTITION}/partition.py",
        "self.producers.write_snapshot(self.log_end_offset)",
        "pass",
        f"{_PARTITION}/test_producer_state_manager.py::test_write_snapshot_at_a_clean_stop_writes_one_at_the_log_end",
    ),
    Removal(
        _WHEN,
        f"{_PARTITION}/producer_state_manager.py",
        "        for offset in older:\n",
        "        for offset in older[:0]:\n",
        f"{_PARTITION}/test_producer_state_manager.py::test_remove_stray_snapshots_keeps_those_of_segments_and_of_the_last_clean_stop",
    ),
    Removal(
        _WHEN,
        f"{_PARTITION}/log_changes.py",
        "self._producers.remove_stray_snapshots()",
        "pass",
        f"{_PARTITION}/test_producer_state_manager.py::test_replace_segments_removes_the_snapshots_of_segments_that_are_gone",
    ),
    Removal(
        _WHEN,
        f"{_PARTITION}/log_changes.py",
        "if header.base_offset >= snapshot_offset and header.producer_id > NO_PRODUCER_ID:",
        "if header.base_offset < 0:",
        f"{_PARTITION}/test_loading.py::test_load_partition_after_a_kill_restores_all_producer_batches_of_the_log",
    ),
    Removal(
        _CLEAN,
        f"{_PARTITION}/partition.py",
        "self.producers.write_snapshot(self.log_end_offset)",
        "pass",
        f"{_FILE}/recovery/test_log_loader.py::test_load_after_a_clean_shutdown_reads_no_batch",
    ),
    Removal(
        _CLEAN,
        f"{_PARTITION}/producer_state_manager.py",
        "            self.write_snapshot(end)\n",
        "            pass\n",
        f"{_FILE}/recovery/test_log_loader.py::test_load_of_a_log_without_snapshots_reads_its_batches_only_once",
    ),
    Removal(
        _OPEN,
        f"{_PARTITION}/producers.py",
        "self.transactions.begin(base_offset, header.producer_id)",
        "pass",
        f"{_PARTITION}/test_append_marker.py::test_append_refuses_a_non_transactional_batch_while_a_transaction_is_open",
    ),
    Removal(
        _OPEN,
        f"{_PARTITION}/transactions.py",
        "self.open = OrderedDict(sorted(open_transactions))",
        "self.open = OrderedDict()",
        f"{_PARTITION}/test_append_marker.py::test_open_transactions_come_back_from_a_snapshot_and_from_the_log",
    ),
    Removal(
        _OPEN,
        f"{_PARTITION}/transactions.py",
        "undecided = [ended[0].first_offset] if ended else []",
        "undecided = list[int]()",
        f"{_PARTITION}/test_following.py",
    ),
    Removal(
        _OPEN,
        f"{_PARTITION}/producer_state_manager.py",
        "            self._store.add_aborted(aborted)\n",
        "            pass\n",
        f"{_PARTITION}/test_append_marker.py::test_committed_readers_wait_for_the_first_transaction_that_is_open",
    ),
    Removal(
        _OPEN,
        f"{_PARTITION}/producers.py",
        "if coordinator_epoch < entry.coordinator_epoch:",
        "if coordinator_epoch < -9:",
        f"{_PARTITION}/test_append_marker.py::test_append_marker_fences_older_epochs",
    ),
    Removal(
        _EXPIRY,
        "kernel/maintenance.py",
        "            partition.producers.expire(horizon)\n",
        "",
        "kernel/test_broker.py::test_producer_expiry_removes_producers_after_producer_id_expiration_ms",
    ),
    Removal(
        _EXPIRY,
        f"{_PARTITION}/producers.py",
        "if entry.last_timestamp < older_than_ms and entry.current_txn_first_offset == NO_OFFSET",
        "if entry.last_timestamp < older_than_ms",
        f"{_PARTITION}/test_producers.py::test_expire_keeps_a_producer_with_an_open_transaction",
    ),
    Removal(
        _VERIFIED,
        "plugins/protocol_kafka/handlers/transaction_verification.py",
        "raise self._known_to_client(refused or",
        "return True\n        raise self._known_to_client(refused or",
        "plugins/protocol_kafka/handlers/test_transactions.py::test_produce_refuses_batches_outside_of_the_transaction",
    ),
    Removal(
        _VERIFIED,
        f"{_PARTITION}/appends.py",
        "if header.attributes & TRANSACTIONAL_BIT and transaction_version == NO_TRANSACTION:",
        "if header.attributes < 0:",
        f"{_PARTITION}/test_append_marker.py::test_append_refuses_a_transactional_batch_that_is_not_verified",
    ),
)

_GROWING = "Epoch and start offset, strictly increasing, in `leader-epoch-checkpoint`"
_TRUNCATED = "Truncation from both ends; written in the background, never over a newer version"

_EPOCHS: Final = (
    Removal(
        _GROWING,
        "kernel/leader_epochs.py",
        "if epoch <= self.latest:",
        "if epoch < self.latest:",
        "kernel/test_leader_epochs.py::test_assign",
    ),
    Removal(
        _GROWING,
        "kernel/leader_epochs.py",
        "if not (self.latest < epoch <= MAX_EPOCH and newest_start < start <= MAX_OFFSET):",
        "if not (self.latest < epoch <= MAX_EPOCH and start <= MAX_OFFSET):",
        "kernel/test_leader_epochs.py::test_decode_refuses_a_malformed_checkpoint",
    ),
    Removal(
        "After a crash the broker leads in a new epoch, which is durable before it is visible",
        f"{_PARTITION}/epochs.py",
        "        self._store.write_side_file(CHECKPOINT_NAME, self.encode())\n",
        "        pass\n",
        f"{_PARTITION}/test_loading.py::test_load_partition_after_lost_records_appends_under_a_new_leader_epoch",
    ),
    Removal(
        "After a crash the broker leads in a new epoch, which is durable before it is visible",
        f"{_PARTITION}/loading.py",
        "partition.leader_epoch = max(newest, wanted) + 1",
        "partition.leader_epoch = max(newest, wanted)",
        f"{_PARTITION}/test_loading.py::test_load_partition_after_any_loss_restores_the_state_of_the_remaining_batches",
    ),
    Removal(
        "The end of an epoch for OffsetForLeaderEpoch",
        "kernel/leader_epochs.py",
        "if epoch == self._epochs[-1]:\n            return epoch, log_end_offset",
        "if epoch == self._epochs[-1]:\n            return epoch, self._starts[-1]",
        "kernel/test_leader_epochs.py::test_end_offset_for_an_epoch",
    ),
    Removal(
        "The end of an epoch for OffsetForLeaderEpoch",
        "kernel/leader_epochs.py",
        "return self._epochs[following - 1], self._starts[following]",
        "return self._epochs[following - 1], self._starts[following - 1]",
        "plugins/protocol_kafka/handlers/test_offset_for_leader_epoch.py::test_offset_for_leader_epoch_returns_end_offsets",
    ),
    Removal(
        _TRUNCATED,
        f"{_PARTITION}/epochs.py",
        "if self.truncate_from_end(offset) or rewrite:",
        "if False:",
        f"{_PARTITION}/test_side_writes.py::test_truncate_to_drops_snapshots_that_wait_to_be_written",
    ),
    Removal(
        _TRUNCATED,
        f"{_PARTITION}/epochs.py",
        "if self.truncate_from_start(offset):",
        "if False:",
        f"{_PARTITION}/test_side_writes.py::test_raise_log_start_truncates_lineage_and_snapshots",
    ),
    Removal(
        _TRUNCATED,
        f"{_PARTITION}/side_writes.py",
        "if self._newest.get(name) != number:",
        "if False:",
        f"{_PARTITION}/test_side_writes.py::test_side_writes_keep_the_newest_leader_epochs_in_any_order_of_jobs",
    ),
)

REMOVALS: Final = (*_PRODUCERS, *_EPOCHS)
