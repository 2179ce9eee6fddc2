"""What docs/transactions.md claims, taken out of the code."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_COORDINATOR = "plugins/coordinator"
_HANDLERS = "plugins/protocol_kafka/handlers"

REMOVALS: Final = (
    Removal(
        "A new instance gets the next producer epoch, and an open transaction of the previous one is",
        f"{_COORDINATOR}/transactions/machine.py",
        "bumped = ProducerIdentity(known.producer_id, known.producer_epoch + 1)",
        "bumped = ProducerIdentity(known.producer_id, known.producer_epoch)",
        f"{_COORDINATOR}/transactions/test_machine.py::TestInit::test_init_producer_id_returns_the_next_epoch_to_each_instance",
    ),
    Removal(
        "A new instance gets the next producer epoch, and an open transaction of the previous one is",
        f"{_COORDINATOR}/transactions/machine.py",
        "    if known.state is ONGOING:\n        return known\n    if init",
        "    if init",
        f"{_COORDINATOR}/transactions/test_machine.py::TestInit::test_init_producer_id_leaves_an_open_transaction_to_be_fenced_first",
    ),
    Removal(
        "A fenced producer is refused by the coordinator and by every partition",
        f"{_COORDINATOR}/transactions/machine.py",
        "        raise ProducerFenced(_mismatch(known, producer))\n    return known",
        "        pass\n    return known",
        f"{_COORDINATOR}/transactions/test_machine.py::TestAdd::test_add_partitions_to_txn_and_verify_refuse_wrong_producers_and_prepare_states",
    ),
    Removal(
        "A fenced producer is refused by the coordinator and by every partition",
        f"{_HANDLERS}/transaction_verification.py",
        "if transactions.includes_partition(*producer, partition):",
        "if transactions:",
        f"{_HANDLERS}/test_transactions.py::test_produce_refuses_batches_outside_of_the_transaction",
    ),
    Removal(
        "The outcome is in the log before any marker is written, and completion continues after a crash",
        f"{_COORDINATOR}/transactions/completion.py",
        "        await self._state.record(partition, decided)\n        await self.complete",
        "        self._state.table.partition(partition).put(decided)\n        await self.complete",
        f"{_COORDINATOR}/transactions/test_completion.py::test_complete_after_a_crash_at_every_write_of_end",
    ),
    Removal(
        "The outcome is in the log before any marker is written, and completion continues after a crash",
        f"{_COORDINATOR}/transactions/completion.py",
        "prepared.items()):\n            await self.complete(partition, transactional_id)",
        "prepared.items()):\n            pass",
        f"{_COORDINATOR}/transactions/test_completion.py::test_complete_after_a_crash_at_every_write_of_end",
    ),
    Removal(
        "One outcome in all partitions: a marker that a partition refuses is written later; deleted",
        f"{_COORDINATOR}/transactions/markers.py",
        "                    failed.add(place)\n                else",
        "                    pass\n                else",
        f"{_COORDINATOR}/transactions/test_completion.py",
    ),
    Removal(
        "One outcome in all partitions: a marker that a partition refuses is written later; deleted",
        f"{_COORDINATOR}/transactions/markers.py",
        '_log.info("%s is gone, a transaction ends without it", place)',
        "failed.add(place)",
        f"{_COORDINATOR}/transactions/test_completion.py::test_end_txn_needs_no_marker_in_a_partition_that_was_deleted",
    ),
    Removal(
        "Offsets of a transaction become visible when it commits, and only then",
        f"{_COORDINATOR}/offsets/table.py",
        "if commit and committed is not None:",
        "if committed is not None:",
        f"{_COORDINATOR}/test_conformance.py::TestClassic::test_txn_offset_commit_of_complete_transactions_survives_a_restart",
    ),
    Removal(
        "Offsets of a transaction become visible when it commits, and only then",
        f"{_COORDINATOR}/transactions/markers.py",
        "self._offsets.complete_transaction(place.partition, end.producer.producer_id, end.commit)",
        "pass",
        f"{_COORDINATOR}/test_conformance.py::TestClassic::test_txn_offset_commit_of_an_open_transaction_survives_a_restart",
    ),
    Removal(
        "With `flush.messages` a response is sent only when the state is flushed",
        f"{_COORDINATOR}/transactions/state_manager.py",
        "            change.apply(transactions)\n        await self.log.committed(partition, result)",
        "            change.apply(transactions)",
        f"{_COORDINATOR}/transactions/test_state_manager.py::test_init_producer_id_answers_when_its_record_is_on_disk",
    ),
    Removal(
        "A transaction that is open for longer than `transaction.timeout.ms` is aborted and its",
        f"{_COORDINATOR}/transactions/machine.py",
        "return known.state is ONGOING and known.start_ms + known.timeout_ms < now_ms",
        "return False",
        f"{_COORDINATOR}/transactions/test_timeouts.py::test_abort_overdue_fences_the_producer",
    ),
    Removal(
        "A transaction that is open for longer than `transaction.timeout.ms` is aborted and its",
        f"{_COORDINATOR}/transactions/timeouts.py",
        "await self._completion.fence(partition, transaction)\n                except",
        "pass\n                except",
        f"{_COORDINATOR}/transactions/test_timeouts.py::test_abort_overdue_fences_the_producer",
    ),
    Removal(
        "`read_committed` ends at the first open transaction, and responses list the aborted",
        "kernel/partition/transactions.py",
        "undecided += islice(self.open, 1)",
        "pass",
        "kernel/partition/test_append_marker.py",
    ),
    Removal(
        "`read_committed` ends at the first open transaction, and responses list the aborted",
        f"{_HANDLERS}/fetch_reads.py",
        "for aborted in partition.aborted_transactions(offset, records, wait=wait)",
        "for aborted in ()",
        f"{_HANDLERS}/test_fetch_committed.py",
    ),
    Removal(
        "A timeout has to be within `transaction.max.timeout.ms`",
        f"{_COORDINATOR}/transactions/service.py",
        "if not two_phase_commit and not 0 < timeout_ms <= self._context.max_timeout_ms:",
        "if timeout_ms is None:",
        f"{_COORDINATOR}/transactions/test_service.py::test_init_producer_id_refuses_timeouts_out_of_range",
    ),
    Removal(
        "A transactional id that is not used for `transactional.id.expiration.ms` is removed",
        f"{_COORDINATOR}/transactions/machine.py",
        "return known.state in AT_REST and known.last_update_ms <= now_ms - expiration_ms",
        "return False",
        f"{_COORDINATOR}/transactions/test_timeouts.py::test_remove_expired_removes_unused_ids",
    ),
    Removal(
        "A transactional id that is not used for `transactional.id.expiration.ms` is removed",
        f"{_COORDINATOR}/transactions/machine.py",
        "return known.state in AT_REST and known.last_update_ms <= now_ms - expiration_ms",
        "return known.last_update_ms <= now_ms - expiration_ms",
        f"{_COORDINATOR}/transactions/test_machine.py::test_is_expired_only_for_transactional_ids_at_rest",
    ),
    Removal(
        "With transaction version 2 each transaction has its own producer epoch, and its markers have",
        f"{_COORDINATOR}/transactions/machine.py",
        "bumps = version >= EPOCH_PER_TRANSACTION",
        "bumps = False",
        f"{_COORDINATOR}/transactions/test_machine.py::TestEnd::test_end_txn_in_transaction_version_2_by_state_and_epoch",
    ),
    Removal(
        "With transaction version 2 each transaction has its own producer epoch, and its markers have",
        "kernel/partition/producers.py",
        "if producer_epoch < entry.epoch or late:",
        "if producer_epoch < entry.epoch:",
        "kernel/partition/test_append_marker.py",
    ),
    Removal(
        "A repeated EndTxn gets the same response; one with the opposite outcome is refused",
        f"{_COORDINATOR}/transactions/states.py",
        "    (COMPLETE_COMMIT, COMMIT, RETRY): Verdict.DONE,\n",
        "",
        f"{_COORDINATOR}/transactions/test_machine.py::TestEnd::test_end_txn_in_transaction_version_2_by_state_and_epoch",
    ),
    Removal(
        "A repeated EndTxn gets the same response; one with the opposite outcome is refused",
        f"{_COORDINATOR}/transactions/states.py",
        "    (COMPLETE_COMMIT, COMMIT): Verdict.DONE,\n",
        "    (COMPLETE_COMMIT, COMMIT): Verdict.DONE,\n    (COMPLETE_COMMIT, ABORT): Verdict.DONE,\n",
        f"{_COORDINATOR}/transactions/test_machine.py::TestEnd::test_end_txn_in_transaction_version_0_by_state",
    ),
    Removal(
        "While a transaction is completed every request gets CONCURRENT_TRANSACTIONS",
        f"{_COORDINATOR}/transactions/machine.py",
        "if known.state in PREPARED:",
        "if known is None:",
        f"{_COORDINATOR}/transactions/test_machine.py::TestInit::test_init_producer_id_raises_concurrent_transactions_in_prepare_states",
    ),
    Removal(
        "When the producer epochs are exhausted the producer gets a new producer id",
        f"{_COORDINATOR}/transactions/machine.py",
        "return known is not None and version >= EPOCH_PER_TRANSACTION and known.is_exhausted",
        "return False",
        f"{_COORDINATOR}/transactions/test_service.py::test_end_txn_assigns_a_producer_id_when_epochs_run_out",
    ),
    Removal(
        "A batch is refused unless its partition is in the transaction; for newer clients the broker",
        f"{_COORDINATOR}/transactions/machine.py",
        "        if partition in known.partitions\n",
        "        if known\n",
        f"{_COORDINATOR}/transactions/test_machine.py::TestAdd::test_verify_returns_transaction_abortable_for_partitions_not_included",
    ),
    Removal(
        "A batch is refused unless its partition is in the transaction; for newer clients the broker",
        f"{_HANDLERS}/transaction_verification.py",
        "if self._version < IMPLICIT_SINCE:\n            return {}",
        "if self._version:\n            return {}",
        f"{_HANDLERS}/test_transactions.py::test_produce_refuses_batches_outside_of_the_transaction",
    ),
)
