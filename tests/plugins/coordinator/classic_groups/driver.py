"""A driver of one classic group's state machine, with a clock of its own and replies that tests read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Generic, TypeVar

from tidelog.kernel.errors import BrokerError, NotCoordinator
from tidelog.kernel.seams.coordination.groups import (
    Assignment,
    GroupProtocol,
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    Synced,
    SyncRequest,
)
from tidelog.plugins.coordinator.classic_groups.group import ClassicDecision, ClassicGroup
from tidelog.plugins.coordinator.classic_groups.machine import decide_join, decide_leave, decide_sync
from tidelog.plugins.coordinator.classic_groups.records import (
    NO_TIMESTAMP,
    GenerationChange,
    GroupMetadataValue,
)
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.runtime.runtime import Durable

T = TypeVar("T")

GROUP = "g"
CONSUMER = "consumer"
SESSION_MS = 10_000
REBALANCE_MS = 30_000
INITIAL_DELAY_MS = 3_000


class Answer(Generic[T]):
    """A reply as a test sees it; it may be set once."""

    def __init__(self) -> None:
        self.outcome: T | BrokerError | None = None

    def set(self, outcome: T | BrokerError, durable: Durable | None = None) -> None:
        """See `Reply`."""
        assert self.outcome is None, "answered twice"
        self.outcome = outcome

    @property
    def waits(self) -> bool:
        """Whether there is no answer yet."""
        return self.outcome is None

    @property
    def value(self) -> T:
        """The answer, which is no error."""
        assert self.outcome is not None, "not answered"
        assert not isinstance(self.outcome, BrokerError), self.outcome
        return self.outcome

    @property
    def error(self) -> BrokerError:
        """The answer, which is an error."""
        assert isinstance(self.outcome, BrokerError), self.outcome
        return self.outcome


def settings(
    *, initial_delay_ms: int = INITIAL_DELAY_MS, max_size: int = 1000, ids: str = ""
) -> GroupSettings:
    """Settings with member ids that count up."""
    numbers = itertools.count(1)
    return GroupSettings(
        lambda prefix: f"{prefix}-{ids}{next(numbers)}",
        initial_rebalance_delay_ms=initial_delay_ms,
        max_size=max_size,
    )


class ClassicGroupDriver:
    """Sends requests to one group. What it writes goes to `written`, unless `refuse_writes` is set."""

    def __init__(self, group_settings: GroupSettings | None = None) -> None:
        self.group = ClassicGroup(GROUP, group_settings or settings())
        self.now_ms = 1_000_000
        self.written: list[GroupMetadataValue] = []
        self.refuse_writes = False

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", b"r"),),
        protocol_type: str = CONSUMER,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        id_required: bool = False,
        skips: bool = False,
        client_id: str = "c",
    ) -> Answer[Joined]:
        """A member joins; the answer may be there already. Errors are answers too."""
        answer = Answer[Joined]()
        request = JoinRequest(
            GROUP,
            member_id,
            protocol_type,
            [GroupProtocol(name, metadata) for name, metadata in protocols],
            session_ms,
            rebalance_ms,
            client_id,
            "/127.0.0.1",
            instance,
            knows_member_id_required=id_required,
            knows_skip_assignment=skips,
        )
        self.carry_out(decide_join(self.group, request, answer, self.now_ms))
        return answer

    def sync(
        self,
        joined: Joined,
        shares: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Answer[Synced]:
        """A member asks for its share, as it was told by `joined`."""
        answer = Answer[Synced]()
        request = SyncRequest(
            GROUP,
            joined.member_id,
            joined.generation if generation is None else generation,
            instance,
            protocol_type,
            protocol_name,
            [Assignment(member_id, share) for member_id, share in (shares or {}).items()],
        )
        self.carry_out(decide_sync(self.group, request, answer, self.now_ms))
        return answer

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> BrokerError | None:
        """A member is alive; why not, if it is not."""
        try:
            self.group.heartbeat_received(member_id, generation, instance, self.now_ms)
        except BrokerError as error:
            return error
        return None

    def leave(self, *members: LeavingMember) -> list[LeaveOutcome]:
        """Members go."""
        outcomes, decision = decide_leave(self.group, members, self.now_ms)
        self.carry_out(decision)
        return outcomes

    def pass_time(self, by_ms: int) -> None:
        """Time passes, and the group wakes whenever it wants to."""
        until_ms = self.now_ms + by_ms
        while self.group.timer_ms <= until_ms:
            self.now_ms = max(self.now_ms, int(self.group.timer_ms))
            self.carry_out(self.group.handle_deadlines(self.now_ms))
        self.now_ms = until_ms

    def carry_out(self, decision: ClassicDecision) -> None:
        """Write what was decided, and give the answers."""
        write = decision.write
        if write is not None and self.refuse_writes:
            write.refused(self.group, NotCoordinator("the log refuses"), self.now_ms)
        elif write is not None:
            change = GenerationChange.of(self.group, NO_TIMESTAMP, write.assignments, write.replaced)
            assert change.metadata is not None
            self.written.append(change.metadata)
            write.appended(self.group, self.now_ms)
        for reply, outcome in (*decision.answers, *self.group.decided().answers):
            reply.set(outcome)


def stable(
    driver: ClassicGroupDriver, count: int = 1, *, instances: Sequence[str | None] | None = None
) -> list[Joined]:
    """A stable group of so many members, the first of which leads; each has the share `share-N`."""
    names = instances or [None] * count
    answers = [driver.join(instance=name) for name in names]
    driver.pass_time(2 * INITIAL_DELAY_MS)
    joined = [answer.value for answer in answers]
    shares = {each.member_id: b"share-%d" % number for number, each in enumerate(joined)}
    synced = [driver.sync(each, shares if each is joined[0] else None) for each in reversed(joined)]
    assert [answer.value.assignment for answer in reversed(synced)] == list(shares.values())
    return joined
