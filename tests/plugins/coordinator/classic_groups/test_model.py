"""Members that do whatever they like, in any order: what holds for a classic group all the same."""

from __future__ import annotations

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.plugins.coordinator.classic_groups.driver import (
    INITIAL_DELAY_MS,
    Answer,
    ClassicGroupDriver,
    settings,
)
from tidelog.kernel.errors import BrokerError, MemberIdRequired
from tidelog.kernel.seams.coordination.groups import Joined, LeavingMember, Synced
from tidelog.plugins.coordinator.classic_groups.records import NO_TIMESTAMP, GenerationChange
from tidelog.plugins.coordinator.classic_groups.states import GroupState

PARTITIONS = range(6)
LONG_MS = 2 * 3_600_000
CHOICES = ((("range", b"1"),), (("range", b"2"), ("sticky", b"")), (("sticky", b"x"), ("range", b"y")))


class Client:
    """A member as it sees itself."""

    def __init__(self, instance: str | None, session_ms: int, rebalance_ms: int) -> None:
        self.instance = instance
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.member_id = ""
        self.joined: Joined | None = None
        self.joining: Answer[Joined] | None = None
        self.syncing: Answer[Synced] | None = None

    def hear(self) -> None:
        """Take notice of answers."""
        if self.joining is not None and not self.joining.waits:
            outcome, self.joining = self.joining.outcome, None
            self.joined = outcome if isinstance(outcome, Joined) else None
            if isinstance(outcome, Joined | MemberIdRequired):
                self.member_id = outcome.member_id
            else:
                self.member_id = ""
        if self.syncing is not None and not self.syncing.waits:
            if isinstance(self.syncing.outcome, BrokerError):
                self.joined = None
            self.syncing = None


def shares_of(joined: Joined) -> dict[str, bytes]:
    """What a leader assigns: every partition to one member."""
    members = [member.member_id for member in joined.members]
    return {
        member_id: bytes(partition for partition in PARTITIONS if partition % len(members) == place)
        for place, member_id in enumerate(members)
    }


class GroupModel(RuleBasedStateMachine):
    """One group and its clients."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ClassicGroupDriver(settings(max_size=5))
        self.group = self.driver.group
        self.clients: list[Client] = []
        self.answers: list[Answer[Joined] | Answer[Synced]] = []
        self.generation = 0
        self.owned: dict[int, dict[int, str]] = {}

    def pick(self, number: int) -> Client:
        """One of the clients that are alive."""
        client = self.clients[number % len(self.clients)]
        client.hear()
        return client

    @initialize()
    def some_are_there(self) -> None:
        self.clients = [Client(instance, 10_000, 60_000) for instance in (None, "i1", None)]

    @rule(
        instance=st.sampled_from([None, None, None, "i1", "i2"]),
        session_ms=st.sampled_from([6_000, 10_000, 45_000]),
        rebalance_ms=st.sampled_from([0, 5_000, 60_000]),
    )
    def appears(self, instance: str | None, session_ms: int, rebalance_ms: int) -> None:
        if len(self.clients) < 7:
            self.clients.append(Client(instance, session_ms, rebalance_ms))

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 6), choice=st.sampled_from(CHOICES), new=st.booleans(), skips=st.booleans())
    def joins(self, number: int, choice: tuple[tuple[str, bytes], ...], new: bool, skips: bool) -> None:
        client = self.pick(number)
        client.syncing = None
        client.joining = self.driver.join(
            client.member_id,
            instance=client.instance,
            protocols=choice,
            session_ms=client.session_ms,
            rebalance_ms=client.rebalance_ms,
            id_required=new,
            skips=skips,
        )
        self.answers.append(client.joining)

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 6))
    def syncs(self, number: int) -> None:
        client = self.pick(number)
        joined = client.joined
        if joined is None or client.joining is not None:
            return
        leads = joined.leader == joined.member_id and not joined.skip_assignment and joined.members
        shares = shares_of(joined) if leads else None
        generation = self.group.generation
        client.syncing = self.driver.sync(joined, shares, instance=client.instance)
        self.answers.append(client.syncing)
        if not isinstance(client.syncing.outcome, BrokerError):
            assert joined.generation == generation
        self.watch(client, joined)

    def watch(self, client: Client, joined: Joined) -> None:
        """Note what everybody is told to own."""
        for member in self.group.members.values():
            if self.group.state is not GroupState.STABLE:
                return
            owner = member.group_instance_id or member.member_id
            owners = self.owned.setdefault(self.group.generation, {})
            for partition in member.assignment:
                assert owners.setdefault(partition, owner) == owner

    @rule(waits_ms=st.sampled_from([0, INITIAL_DELAY_MS, 10_000]))
    def everybody_does_what_is_expected(self, waits_ms: int) -> None:
        """As clients do that are neither slow nor broken, up to where they have to wait for others."""
        for number in range(len(self.clients)):
            client = self.pick(number)
            if client.joining is None and self.has_to_join(client):
                self.joins(number, CHOICES[0], new=False, skips=True)
        self.driver.pass_time(waits_ms)
        for number in range(len(self.clients)):
            self.syncs(number)
        for client in self.clients:
            client.hear()

    def has_to_join(self, client: Client) -> bool:
        """Whether a heartbeat would tell the client so."""
        joined = client.joined
        return (
            joined is None
            or self.group.state is GroupState.PREPARING_REBALANCE
            or self.driver.heartbeat(client.member_id, joined.generation, client.instance) is not None
        )

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 6))
    def beats(self, number: int) -> None:
        client = self.pick(number)
        if client.joined is not None:
            error = self.driver.heartbeat(client.member_id, client.joined.generation, client.instance)
            if error is None:
                assert client.joined.generation == self.group.generation

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 6))
    def leaves(self, number: int) -> None:
        client = self.pick(number)
        if client.joining is None:
            self.driver.leave(LeavingMember(client.member_id, client.instance))
            self.clients.remove(client)

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 6))
    def dies(self, number: int) -> None:
        self.clients.remove(self.pick(number))

    @rule(by_ms=st.sampled_from([1, 500, INITIAL_DELAY_MS, 6_000, 30_000, 400_000]))
    def time_passes(self, by_ms: int) -> None:
        self.driver.pass_time(by_ms)

    @rule(refuse=st.booleans())
    def the_log_fails_or_recovers(self, refuse: bool) -> None:
        self.driver.refuse_writes = refuse

    @invariant()
    def a_generation_never_goes_back(self) -> None:
        assert self.group.generation >= self.generation
        self.generation = self.group.generation

    @invariant()
    def what_is_counted_agrees_with_what_is_there(self) -> None:
        group = self.group
        members = group.members.values()
        assert group.members.awaiting_joins == sum(member.awaiting_join is not None for member in members)
        assert group.members.by_instance == {
            member.group_instance_id: member.member_id for member in members if member.group_instance_id
        }
        assert group.members.leader in group.members if group.members else group.members.leader is None
        assert not set(group.members.pending) & set(group.members)
        assert group.pending_sync <= set(group.members)
        assert len(group.members) <= group.settings.max_size or group.state is GroupState.PREPARING_REBALANCE

    @invariant()
    def a_stable_group_is_what_the_log_describes(self) -> None:
        if self.group.state is GroupState.STABLE:
            assert GenerationChange.of(self.group, NO_TIMESTAMP).metadata == self.driver.written[-1]

    @invariant()
    def somebody_wakes_the_group(self) -> None:
        assert self.group.timer_ms <= min(self.group.deadlines(), default=float("inf"))

    @invariant()
    def members_wait_only_where_they_can_be_answered(self) -> None:
        group = self.group
        for member in group.members.values():
            if member.awaiting_join is not None:
                assert group.state is GroupState.PREPARING_REBALANCE
            if member.awaiting_sync is not None:
                assert group.state is GroupState.COMPLETING_REBALANCE
            assert member.deadline_ms is not None or member.is_excused()

    def teardown(self) -> None:
        """Nobody does anything any more: everybody is answered, and nobody stays."""
        self.driver.refuse_writes = False
        self.driver.pass_time(LONG_MS)
        assert not any(answer.waits for answer in self.answers)
        assert self.group.state is GroupState.EMPTY
        assert not self.group.members
        assert not self.group.members.pending


GroupModel.TestCase.settings = hypothesis_settings(max_examples=100, stateful_step_count=40, deadline=None)
TestGroupModel = GroupModel.TestCase
