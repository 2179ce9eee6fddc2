"""Producers with transactional ids beside the simplest model of them: what each was told of each transaction.

Instances take over from each other, go on though they were shut out, run out of time, and the process crashes
at any write. Whatever happens, a transaction has one outcome in all partitions: that which its producer was
told, and nothing that nobody committed is ever seen.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable

import attrs
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.plugins.coordinator.transactions.coordinator import PLACES, TIMEOUT_MS, Crash, CrashingCoordinator
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity
from tidelog.plugins.coordinator.transactions.states import ONGOING, PREPARED

NAMES = ("orders", "payments")
CLIENTS = st.integers(0, 30)
CRASHES = st.none() | st.none() | st.integers(0, 12)


class Outcome(enum.Enum):
    """What a producer knows of a transaction."""

    OPEN = enum.auto()
    COMMITTED = enum.auto()
    IN_DOUBT = enum.auto()


@attrs.define(eq=False)
class Work:
    """One transaction as its producer sees it."""

    values: list[bytes] = attrs.field(factory=list[bytes])
    outcome: Outcome = Outcome.OPEN


@attrs.define
class Client:
    """An instance of a producer; `version` is the transaction version that it works by."""

    name: str
    version: int
    identity: ProducerIdentity
    work: Work = attrs.field(factory=Work)
    sequences: dict[int, int] = attrs.field(factory=dict[int, int])


class Producers(RuleBasedStateMachine):
    """The rules are what clients and time do."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = CrashingCoordinator()
        self.clients: list[Client] = []
        self.all_work: list[Work] = []
        self.count = 0

    def try_to(self, act: Callable[[], Awaitable[object]], crash_after: int | None = None) -> str:
        """`done`, `refused` or `crashed`; after a crash the coordinator has started again."""
        writes = self.coordinator.writes
        if crash_after is not None:
            writes.crash_at = writes.steps + crash_after

        async def run() -> str:
            try:
                await act()
            except BrokerError:
                return "refused"
            except Crash:
                await self.coordinator.recover()
                return "crashed"
            except BaseExceptionGroup as group:
                if group.subgroup(Crash) is None:
                    raise
                await self.coordinator.recover()
                return "crashed"
            return "done"

        outcome = trio.run(run)
        writes.crash_at = None
        return outcome

    @rule(name=st.sampled_from(NAMES), version=st.sampled_from([0, 2]), crash=CRASHES)
    def start(self, name: str, version: int, crash: int | None) -> None:
        """A new instance takes the transactional id over."""

        async def act() -> None:
            identity = await self.coordinator.transactions.init_producer_id(name, TIMEOUT_MS)
            self.clients.append(self.begun(Client(name, version, identity)))

        self.try_to(act, crash)

    def begun(self, client: Client) -> Client:
        self.all_work.append(client.work)
        return client

    @rule(at=CLIENTS)
    def go_on_with_the_next_epoch(self, at: int) -> None:
        """A producer whose batches were refused asks for a new epoch of its own (KIP-360)."""
        if not self.clients:
            return
        client = self.clients[at % len(self.clients)]

        async def act() -> None:
            identity = await self.coordinator.transactions.init_producer_id(
                client.name, TIMEOUT_MS, client.identity
            )
            client.identity, client.work = identity, Work()
            client.sequences.clear()
            self.begun(client)

        self.try_to(act)

    @rule(at=CLIENTS, index=st.sampled_from(range(len(PLACES))), crash=CRASHES, adds=st.booleans())
    def write(self, at: int, index: int, crash: int | None, adds: bool) -> None:
        """Add the partition, usually, and append a batch to it."""
        if not self.clients:
            return
        client = self.clients[at % len(self.clients)]
        self.count += 1
        place, value = PLACES[index], b"%d" % self.count

        async def act() -> None:
            if adds:
                await self.coordinator.transactions.add_partitions(
                    client.name, client.identity, (place,), version=client.version
                )
            sequence = client.sequences.get(place.partition, 0)
            self.coordinator.append(place, client.identity, sequence, value)
            client.sequences[place.partition] = sequence + 1
            client.work.values.append(value)

        self.try_to(act, crash)

    @rule(at=CLIENTS, commit=st.booleans(), crash=CRASHES)
    def end(self, at: int, commit: bool, crash: int | None) -> None:
        """Commit or abort; after a crash the producer does not know what became of it."""
        if not self.clients:
            return
        client = self.clients[at % len(self.clients)]

        async def act() -> None:
            identity = await self.coordinator.transactions.end(
                client.name, client.identity, commit=commit, version=client.version
            )
            if commit:
                client.work.outcome = Outcome.COMMITTED
            if client.version == 2:
                client.identity = identity
                client.sequences.clear()
            client.work = Work()
            self.begun(client)

        if self.try_to(act, crash) == "crashed":
            client.work.outcome = Outcome.IN_DOUBT
            if client.version == 0:
                # With the same epoch what follows may be another transaction, or this one.
                client.work = Work()
                self.begun(client)

    @rule(ms=st.sampled_from([1000, TIMEOUT_MS, 2 * TIMEOUT_MS]), crash=CRASHES)
    def time_passes(self, ms: int, crash: int | None) -> None:
        """Transactions that are open for too long are aborted."""
        self.coordinator.clock.advance(ms)
        self.try_to(self.coordinator.transactions.timeouts.abort_overdue, crash)

    @rule()
    def crash_and_start(self) -> None:
        """The process ends between two requests."""
        trio.run(self.coordinator.recover)

    @invariant()
    def every_transaction_has_one_outcome_everywhere(self) -> None:
        partitions = self.coordinator.committed()
        seen = {value for values in partitions for value in values}
        assert len(seen) == sum(map(len, partitions)), "a record is seen twice"
        expected: set[bytes] = set()
        for work in self.all_work:
            values = set(work.values)
            expected |= values
            if work.outcome is Outcome.COMMITTED:
                assert values <= seen
            elif work.outcome is Outcome.OPEN:
                assert not values & seen
            else:
                assert not values & seen or values <= seen
        assert seen <= expected

    @invariant()
    def nothing_holds_readers_back_but_what_is_open(self) -> None:
        transactions = [held.transaction for held in self.coordinator.transactions.table]
        assert not any(transaction.state in PREPARED for transaction in transactions)
        open_in = {
            place
            for transaction in transactions
            if transaction.state is ONGOING
            for place in transaction.partitions
        }
        for place, partition in zip(PLACES, self.coordinator.partitions, strict=True):
            if place not in open_in:
                assert partition.last_stable_offset == partition.log_end_offset

    @invariant()
    def the_log_tells_what_memory_knows(self) -> None:
        again = CrashingCoordinator()
        again.log.batches = self.coordinator.log.batches
        again.start()
        known = {held.transaction.transactional_id: held for held in self.coordinator.transactions.table}
        for _, loaded in again.transactions.table:
            held = known[loaded.transactional_id]
            assert loaded == attrs.evolve(held.transaction, last_producer_epoch=-1)


Producers.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestProducers = Producers.TestCase
