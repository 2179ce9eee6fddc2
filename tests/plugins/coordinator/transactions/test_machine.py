"""The machine, request by request: what follows what, and which error a client is told."""

from __future__ import annotations

import attrs
import pytest

from tidelog.kernel.errors import (
    BrokerError,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    ProducerFenced,
    TransactionAbortable,
)
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity, TransactionState
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.transactions import machine
from tidelog.plugins.coordinator.transactions.states import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    MOVES,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    Event,
    move,
)
from tidelog.plugins.coordinator.transactions.transaction import Transaction

HERE, THERE = TopicPartition("here", 0), TopicPartition("there", 3)
NOW = 5000
SPARE = 99
LAST_EPOCH = 32766

# Kafka's table of the states that each one may be entered from.
PREVIOUS = {
    EMPTY: {EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    ONGOING: {ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    PREPARE_COMMIT: {ONGOING},
    PREPARE_ABORT: {ONGOING, PREPARE_EPOCH_FENCE, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    COMPLETE_COMMIT: {PREPARE_COMMIT},
    COMPLETE_ABORT: {PREPARE_ABORT},
    DEAD: {EMPTY, COMPLETE_ABORT, COMPLETE_COMMIT},
    PREPARE_EPOCH_FENCE: {ONGOING},
}


def known(state: TransactionState, epoch: int = 4, producer_id: int = 7) -> Transaction:
    return Transaction(
        "orders",
        producer_id,
        epoch,
        60_000,
        state,
        frozenset() if state in AT_REST else frozenset({HERE}),
        start_ms=-1 if state is EMPTY else 1000,
        last_update_ms=2000,
        previous_producer_id=producer_id,
    )


def producer(epoch: int = 4, producer_id: int = 7) -> ProducerIdentity:
    return ProducerIdentity(producer_id, epoch)


def test_move_enters_each_state_from_the_same_states_as_kafka() -> None:
    entered: dict[TransactionState, set[TransactionState]] = {}
    for (state, _), following in MOVES.items():
        entered.setdefault(following, set()).add(state)
    assert entered == PREVIOUS


def test_move_refuses_an_illegal_event_and_names_state_and_event() -> None:
    with pytest.raises(InvalidTransactionState, match="PrepareCommit cannot add"):
        move(PREPARE_COMMIT, Event.ADD)


def test_transaction_state_titles_are_those_of_kafka_tools() -> None:
    assert [state.title for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


class TestInit:
    def test_init_producer_id_of_an_unknown_transactional_id_starts_with_epoch_0(self) -> None:
        assert machine.init_needs_producer_id(None, None)
        begun = machine.first("orders", SPARE, 1000, NOW)
        assert (begun.producer, begun.state, begun.timeout_ms) == ((SPARE, 0), EMPTY, 1000)

    @pytest.mark.parametrize("state", sorted(AT_REST))
    def test_init_producer_id_returns_the_next_epoch_to_each_instance(self, state: TransactionState) -> None:
        begun = machine.init(known(state), 1000, None, NOW)
        assert (begun.producer, begun.state, begun.partitions) == ((7, 5), EMPTY, frozenset())
        assert (begun.timeout_ms, begun.start_ms, begun.last_update_ms) == (1000, -1, NOW)

    def test_init_producer_id_leaves_an_open_transaction_to_be_fenced_first(self) -> None:
        assert machine.init(known(ONGOING), 1000, None, NOW) == known(ONGOING)

    @pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
    @pytest.mark.parametrize("current", [None, producer(), producer(0, 3)])
    def test_init_producer_id_raises_concurrent_transactions_in_prepare_states(
        self, state: TransactionState, current: ProducerIdentity | None
    ) -> None:
        with pytest.raises(ConcurrentTransactions):
            machine.init(known(state), 1000, current, NOW)

    def test_init_producer_id_of_the_current_producer_returns_its_next_epoch(self) -> None:
        begun = machine.init(known(EMPTY), 1000, producer(), NOW)
        assert begun.producer == (7, 5)
        assert machine.init(begun, 1000, producer(), NOW).producer == (7, 5), "the same request again"

    @pytest.mark.parametrize("current", [producer(3), producer(5), producer(4, 8), producer(LAST_EPOCH, 8)])
    def test_init_producer_id_raises_producer_fenced_for_another_identity(
        self, current: ProducerIdentity
    ) -> None:
        with pytest.raises(ProducerFenced):
            machine.init(known(EMPTY), 1000, current, NOW)

    def test_init_producer_id_accepts_the_previous_id_only_after_its_epochs_ran_out(self) -> None:
        rotated = attrs.evolve(known(EMPTY), previous_producer_id=3)
        message = "'orders' has producer id 7 and epoch 4, the request has 3 and 4"
        with pytest.raises(ProducerFenced, match=message):
            machine.init(rotated, 1000, producer(4, 3), NOW)

    @pytest.mark.parametrize("current", [None, producer(LAST_EPOCH)])
    def test_init_producer_id_takes_a_new_producer_id_when_epochs_run_out(
        self, current: ProducerIdentity | None
    ) -> None:
        last = known(EMPTY, LAST_EPOCH)
        assert machine.init_needs_producer_id(last, current)
        begun = machine.init(last, 1000, current, NOW, SPARE)
        assert (begun.producer, begun.previous_producer_id) == ((SPARE, 0), 7)
        if current is not None:
            assert not machine.init_needs_producer_id(begun, current)
            assert machine.init(begun, 1000, current, NOW).producer == (SPARE, 0), "the same request again"


class TestAdd:
    @pytest.mark.parametrize("state", sorted(AT_REST))
    def test_add_partitions_to_txn_begins_a_transaction_with_the_first_partition(
        self, state: TransactionState
    ) -> None:
        added = machine.add(known(state), producer(), [THERE], 2, NOW)
        assert added is not None
        assert (added.state, added.partitions, added.start_ms) == (ONGOING, frozenset({THERE}), NOW)
        assert added.client_version == 2

    def test_add_partitions_to_txn_keeps_the_start_of_an_open_transaction(self) -> None:
        added = machine.add(known(ONGOING), producer(), [THERE], 0, NOW)
        assert added is not None
        assert (added.partitions, added.start_ms, added.last_update_ms) == (
            frozenset({HERE, THERE}),
            1000,
            NOW,
        )

    def test_add_partitions_to_txn_needs_no_record_for_included_partitions(self) -> None:
        assert machine.add(known(ONGOING), producer(), [HERE], 0, NOW) is None

    @pytest.mark.parametrize(
        ("transaction", "asker", "error"),
        [
            (None, producer(), InvalidProducerIdMapping),
            (known(EMPTY), producer(4, 8), InvalidProducerIdMapping),
            (known(EMPTY), producer(3), ProducerFenced),
            (known(ONGOING), producer(5), ProducerFenced),
            (known(PREPARE_COMMIT), producer(), ConcurrentTransactions),
            (known(PREPARE_ABORT), producer(0, SPARE), ConcurrentTransactions),
        ],
    )
    def test_add_partitions_to_txn_and_verify_refuse_wrong_producers_and_prepare_states(
        self, transaction: Transaction | None, asker: ProducerIdentity, error: type[BrokerError]
    ) -> None:
        with pytest.raises(error):
            machine.add(transaction, asker, [HERE], 0, NOW)
        with pytest.raises(error):
            machine.verify(transaction, asker, [HERE])

    def test_verify_returns_transaction_abortable_for_partitions_not_included(self) -> None:
        verified = machine.verify(known(ONGOING), producer(), [HERE, THERE])
        assert verified[HERE] is None
        assert isinstance(verified[THERE], TransactionAbortable)


COMMIT, ABORT = True, False
DECIDED, DONE = "decided", "done"


class TestEnd:
    @pytest.mark.parametrize(
        ("state", "commit", "outcome"),
        [
            (EMPTY, COMMIT, InvalidTransactionState),
            (EMPTY, ABORT, InvalidTransactionState),
            (ONGOING, COMMIT, DECIDED),
            (ONGOING, ABORT, DECIDED),
            (PREPARE_COMMIT, COMMIT, ConcurrentTransactions),
            (PREPARE_COMMIT, ABORT, ConcurrentTransactions),
            (PREPARE_ABORT, ABORT, ConcurrentTransactions),
            (COMPLETE_COMMIT, COMMIT, DONE),
            (COMPLETE_COMMIT, ABORT, InvalidTransactionState),
            (COMPLETE_ABORT, ABORT, DONE),
            (COMPLETE_ABORT, COMMIT, InvalidTransactionState),
        ],
    )
    def test_end_txn_in_transaction_version_0_by_state(
        self, state: TransactionState, commit: bool, outcome: str | type[BrokerError]
    ) -> None:
        check_end(state, commit, producer(), 0, outcome, epoch=4)

    @pytest.mark.parametrize(
        ("state", "commit", "epoch", "outcome"),
        [
            (EMPTY, ABORT, 4, DECIDED),
            (EMPTY, COMMIT, 4, InvalidTransactionState),
            (EMPTY, ABORT, 3, ProducerFenced),
            (EMPTY, COMMIT, 3, ProducerFenced),
            (ONGOING, COMMIT, 4, DECIDED),
            (ONGOING, ABORT, 4, DECIDED),
            (ONGOING, COMMIT, 3, ProducerFenced),
            (PREPARE_COMMIT, COMMIT, 3, ConcurrentTransactions),
            (PREPARE_ABORT, ABORT, 4, ConcurrentTransactions),
            (COMPLETE_COMMIT, COMMIT, 3, DONE),
            (COMPLETE_COMMIT, COMMIT, 4, InvalidTransactionState),
            (COMPLETE_COMMIT, ABORT, 3, InvalidTransactionState),
            (COMPLETE_COMMIT, ABORT, 4, DECIDED),
            (COMPLETE_ABORT, ABORT, 3, DONE),
            (COMPLETE_ABORT, ABORT, 4, DECIDED),
            (COMPLETE_ABORT, COMMIT, 3, InvalidTransactionState),
            (COMPLETE_ABORT, COMMIT, 4, InvalidTransactionState),
            (COMPLETE_ABORT, ABORT, 2, ProducerFenced),
            (COMPLETE_ABORT, ABORT, 5, ProducerFenced),
        ],
    )
    def test_end_txn_in_transaction_version_2_by_state_and_epoch(
        self, state: TransactionState, commit: bool, epoch: int, outcome: str | type[BrokerError]
    ) -> None:
        check_end(state, commit, producer(epoch), 2, outcome, epoch=5)

    @pytest.mark.parametrize("epoch", [3, 5])
    @pytest.mark.parametrize("commit", [COMMIT, ABORT])
    def test_end_txn_in_transaction_version_0_fences_another_epoch(self, epoch: int, commit: bool) -> None:
        with pytest.raises(ProducerFenced):
            machine.end(known(ONGOING), producer(epoch), commit=commit, version=0, now_ms=NOW)

    @pytest.mark.parametrize(("commit", "word"), [(COMMIT, "commit"), (ABORT, "abort")])
    def test_end_txn_error_names_commit_or_abort(self, commit: bool, word: str) -> None:
        with pytest.raises(InvalidTransactionState, match=rf"'orders' in state Empty cannot {word}$"):
            machine.end(known(EMPTY), producer(), commit=commit, version=0, now_ms=NOW)

    @pytest.mark.parametrize(("version", "last_epoch"), [(0, -1), (2, 4)])
    def test_end_txn_sets_last_producer_epoch_only_in_transaction_version_2(
        self, version: int, last_epoch: int
    ) -> None:
        decided = machine.end(known(ONGOING), producer(), commit=True, version=version, now_ms=NOW)
        assert decided is not None
        assert decided.last_producer_epoch == last_epoch

    def test_end_txn_in_transaction_version_0_keeps_the_producer_id_at_the_last_epoch(self) -> None:
        last = known(ONGOING, LAST_EPOCH)
        decided = machine.end(
            last, producer(LAST_EPOCH), commit=True, version=0, now_ms=NOW, new_producer_id=SPARE
        )
        assert decided is not None
        assert machine.complete(decided, NOW).producer == (7, LAST_EPOCH)

    @pytest.mark.parametrize(("state", "start_ms"), [(ONGOING, 1000), (EMPTY, NOW)])
    def test_end_txn_keeps_the_start_of_an_open_transaction(
        self, state: TransactionState, start_ms: int
    ) -> None:
        decided = machine.end(known(state), producer(), commit=False, version=2, now_ms=NOW)
        assert decided is not None
        assert decided.start_ms == start_ms

    @pytest.mark.parametrize("version", [0, 2])
    def test_end_txn_raises_invalid_producer_id_mapping_for_another_producer(self, version: int) -> None:
        for transaction, asker in ((None, producer()), (known(ONGOING), producer(4, 8))):
            with pytest.raises(InvalidProducerIdMapping):
                machine.end(transaction, asker, commit=True, version=version, now_ms=NOW)

    def test_end_txn_takes_a_new_producer_id_when_epochs_run_out(self) -> None:
        last = known(ONGOING, LAST_EPOCH)
        assert machine.end_needs_producer_id(last, 2)
        assert not machine.end_needs_producer_id(last, 0)
        decided = machine.end(
            last, producer(LAST_EPOCH), commit=True, version=2, now_ms=NOW, new_producer_id=SPARE
        )
        assert decided is not None
        assert decided.producer == (7, 32767), "what the markers bear"
        completed = machine.complete(decided, NOW)
        assert completed.producer == (SPARE, 0)
        again = machine.end(completed, producer(LAST_EPOCH), commit=True, version=2, now_ms=NOW)
        assert again is None, "the same request again"
        with pytest.raises(InvalidTransactionState):
            machine.end(completed, producer(LAST_EPOCH), commit=False, version=2, now_ms=NOW)

    def test_fence_raises_the_epoch_above_that_of_the_producer(self) -> None:
        fenced = machine.fence(known(ONGOING), NOW)
        assert (fenced.state, fenced.producer, fenced.client_version) == (PREPARE_ABORT, (7, 5), 2)
        assert fenced.partitions == {HERE}

    def test_fence_keeps_the_highest_possible_epoch(self) -> None:
        fenced = machine.fence(known(ONGOING, 32767), NOW, SPARE)
        assert (fenced.producer, fenced.client_version) == ((7, 32767), 0)

    @pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, PREPARE_ABORT])
    def test_fence_refuses_a_transaction_that_is_not_open(self, state: TransactionState) -> None:
        with pytest.raises(InvalidTransactionState):
            machine.fence(known(state), NOW)

    def test_complete_refuses_a_transaction_without_a_decision(self) -> None:
        with pytest.raises(InvalidTransactionState):
            machine.complete(known(ONGOING), NOW)


def check_end(
    state: TransactionState,
    commit: bool,
    asker: ProducerIdentity,
    version: int,
    outcome: str | type[BrokerError],
    *,
    epoch: int,
) -> None:
    """`epoch` is that of a decision."""
    if not isinstance(outcome, str):
        with pytest.raises(outcome):
            machine.end(known(state), asker, commit=commit, version=version, now_ms=NOW)
        return
    decided = machine.end(known(state), asker, commit=commit, version=version, now_ms=NOW)
    if outcome == DONE:
        assert decided is None
        return
    assert decided is not None
    assert decided.state is (PREPARE_COMMIT if commit else PREPARE_ABORT)
    assert decided.producer == (7, epoch)
    completed = machine.complete(decided, NOW + 1)
    assert completed.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    assert (completed.producer, completed.partitions) == ((7, epoch), frozenset())


def test_is_overdue_only_for_open_transactions_after_their_timeout() -> None:
    assert not machine.is_overdue(known(ONGOING), 61_000)
    assert machine.is_overdue(known(ONGOING), 61_001)
    assert not machine.is_overdue(known(PREPARE_COMMIT), 10**9)
    assert not machine.is_overdue(attrs.evolve(known(ONGOING), timeout_ms=2**31 - 1), 10**15)


@pytest.mark.parametrize("state", [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_ABORT])
def test_is_expired_only_for_transactional_ids_at_rest(state: TransactionState) -> None:
    assert not machine.is_expired(known(state), 2999, 1000)
    assert machine.is_expired(known(state), 3000, 1000) is (state in AT_REST)


def test_fence_leaves_the_given_transaction_unchanged() -> None:
    before = known(ONGOING)
    machine.fence(before, NOW)
    assert before == known(ONGOING)
    assert attrs.asdict(before, recurse=False)["producer_epoch"] == 4
