"""The runtime of coordinators: what every kind needs of the log that has its records.

An event takes the same path in every kind. A state machine decides: it returns changes and the answer, and
everything is as it was. `write` appends the records of the changes in one batch and applies them, by the
method that applies what is read back. The answer is given once what `write` returns was awaited.

Source: Apache Kafka's `CoordinatorRuntime` and `CoordinatorShard`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.plugins.coordinator.runtime.durable_change import TYPE_BYTES, UnreadableRecord, describe_key
from tidelog.plugins.coordinator.runtime.hashing import state_hash

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.seams.partition import AppendResult
    from tidelog.plugins.coordinator.runtime.batches import LoadedBatch, StateRecord
    from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
    from tidelog.plugins.coordinator.runtime.durable_change import DurableChange
    from tidelog.plugins.coordinator.runtime.state_log import StateLog

_log = logging.getLogger(__name__)

MAX_LOGGED: Final = 20
"""Most unreadable records of a partition that are logged one by one: a damaged log may have millions."""

StateT = TypeVar("StateT")
Steps: TypeAlias = Generator[None, None, None]
Durable: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until what was written for an answer may be acknowledged; raises the BrokerError that prevents it."""


async def wait_for(durable: Durable | None) -> None:
    """Wait until what was written may be acknowledged, not at all for None."""
    if durable is not None:
        await durable()


class CoordinatorState:
    """The state of one kind of coordinator in memory, by partitions of the log.

    A kind overrides what it needs; the other methods do nothing.

    Attributes:
        record_types: the types that the keys of its records begin with
    """

    record_types: Collection[int] = ()

    def replay(self, partition: int, batch: LoadedBatch, index: int) -> Steps | None:
        """Apply the record at that index of a batch that is read back; what takes long is returned as steps.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker.
        """

    def complete_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Commit or drop what is pending of a producer, whose marker is in that partition of the log."""

    def settle(self, partition: int) -> Steps:
        """Do what a partition needs between its last record and being active, in steps."""
        yield from ()

    def loaded(self, partition: int) -> None:
        """Note that a partition has settled, or is empty: from now on it is active."""

    def forget(self, partition: int) -> None:
        """Drop the state of a partition that is gone, or that another broker leads from now on."""


class CoordinatorRuntime:
    """Appends the changes of all state machines over one log and applies them; reads them back (`LogReader`).

    Between a decision about a state and its `write` there must be no checkpoint: then requests need no lock.

    Attributes:
        clock: the wall clock, for times in records
        deadlines: the timers of all members, by a clock that stops while the event loop stands still
    """

    def __init__(
        self,
        topic: str,
        log: StateLog,
        clock: Clock,
        deadlines: Deadlines,
        hash_of: Callable[[str], int] = state_hash,
    ) -> None:
        """`topic` is the name of the log in messages; `hash_of` returns the `state_hash` of a name."""
        self.log = log
        self.clock = clock
        self.deadlines = deadlines
        self._topic = topic
        self._hash_of = hash_of
        self._states: Sequence[CoordinatorState] = ()
        self._owners: dict[bytes, CoordinatorState] = {}
        self._unknown: set[bytes] = set()
        self._left_out: Counter[int] = Counter()

    def open(self, *states: CoordinatorState) -> None:
        """Start loading the log into the states of all kinds that have records in it."""
        self._states = states
        self._owners = {
            key_type.to_bytes(TYPE_BYTES): state for state in states for key_type in state.record_types
        }
        self.log.open(self)

    def partition_for(self, name: str) -> int:
        """Return the partition of the state of a group or of a transactional id, as Kafka computes it."""
        return self._hash_of(name) % self.log.partition_count

    def active_partition_for(self, name: str) -> int:
        """Return the same partition, which is active; raises as `StateLog.check_active`."""
        partition = self.partition_for(name)
        self.log.check_active(partition)
        return partition

    def write(
        self,
        partition: int,
        state: StateT,
        changes: Sequence[DurableChange[StateT]],
        *,
        producer: tuple[int, int] | None = None,
        more: Sequence[StateRecord] = (),
    ) -> Durable | None:
        """Append changes in one batch and apply them to `state`, all or none.

        With a `producer` (id, epoch) they are part of its transaction. `more` are records of other state,
        which the caller changes itself.

        Returns:
            What has to be awaited before the answer, None for nothing.

        Raises:
            BrokerError: as `StateLog.append`; everything is as it was.
        """
        records = [change.to_record() for change in changes]
        records += more
        result = self.log.append(partition, records, producer=producer)
        if producer is None:
            for change in changes:
                change.apply(state)
        else:
            for record_offset, change in enumerate(changes, result.base_offset):
                change.apply_pending(state, producer[0], record_offset)
        return self._durable(partition, result)

    async def commit(self, partition: int, state: StateT, changes: Sequence[DurableChange[StateT]]) -> None:
        """Append and apply changes at once, then wait until that may be acknowledged.

        Raises:
            BrokerError: as `write`; or the changes could not be flushed, and must not be acknowledged.
        """
        await wait_for(self.write(partition, state, changes))

    def append(
        self, partition: int, records: Sequence[StateRecord], apply: Callable[[], None]
    ) -> Durable | None:
        """Append records that took steps to make, and apply all their changes at once.

        Returns and raises as `write`.
        """
        result = self.log.append(partition, records)
        apply()
        return self._durable(partition, result)

    def _durable(self, partition: int, result: AppendResult) -> Durable | None:
        return partial(self.log.committed, partition, result) if result.flush_due else None

    def complete_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Commit or drop what is pending of a producer, whose marker is in that partition of the log."""
        for state in self._states:
            state.complete_transaction(partition, producer_id, commit)

    def replay(self, partition: int, batch: LoadedBatch) -> Steps:
        """Apply a batch that is read back; a record that cannot be read is logged and left out."""
        if batch.marker is not None:
            self.complete_transaction(partition, batch.producer_id, batch.marker.commit)
        for index, (key, _) in enumerate(batch.records):
            try:
                owner = self._owners.get(key[:TYPE_BYTES])
                if owner is None:
                    self._log_unknown(partition, key[:TYPE_BYTES])
                elif (steps := owner.replay(partition, batch, index)) is not None:
                    yield from steps
            except UnreadableRecord as error:
                self._leave_out(partition, batch.offset_of(index), key, error)
            if not index % ITEMS_PER_STEP:
                yield

    def settle(self, partition: int) -> Steps:
        """Let each kind do what it needs before the partition is active."""
        for state in self._states:
            yield from state.settle(partition)

    def loaded(self, partition: int) -> None:
        """Finish a partition that is active from now on."""
        more = self._left_out.pop(partition, 0) - MAX_LOGGED
        if more > 0:
            _log.error("%s-%d has %d more records that cannot be read", self._topic, partition, more)
        for state in self._states:
            state.loaded(partition)

    def forget(self, partition: int) -> None:
        """Drop everything of a partition that is gone, or that another broker leads from now on."""
        for state in self._states:
            state.forget(partition)

    def _leave_out(self, partition: int, offset: int, key: bytes, error: UnreadableRecord) -> None:
        self._left_out[partition] += 1
        if self._left_out[partition] <= MAX_LOGGED:
            _log.error(
                "the record at offset %d of %s-%d cannot be read and is left out (%s): %s",
                offset,
                self._topic,
                partition,
                describe_key(key),
                error,
            )

    def _log_unknown(self, partition: int, key_type: bytes) -> None:
        """Log a type of key the first time it is seen; later brokers have others.

        Raises:
            UnreadableRecord: the key is too short to have a type.
        """
        if len(key_type) < TYPE_BYTES:
            raise UnreadableRecord(f"a key of {len(key_type)} byte(s) has no type")
        if key_type not in self._unknown:
            self._unknown.add(key_type)
            _log.warning(
                "%s-%d has records of type %d, which are left as they are",
                self._topic,
                partition,
                int.from_bytes(key_type, signed=True),
            )
