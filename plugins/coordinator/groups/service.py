"""Classic groups as a service: requests and deadlines go into the state machine, what it wants into the log.

Everything is decided and written without a pause in between; only answers wait.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Protocol

from tidelog.kernel.clock import Clock
from tidelog.kernel.coordination.groups import (
    NO_MEMBER_ID,
    DescribedGroup,
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    ListedGroup,
    Synced,
    SyncRequest,
)
from tidelog.kernel.errors import (
    BatchTooLarge,
    BrokerError,
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MessageTooLarge,
    NonEmptyGroup,
    NotCoordinator,
    StorageError,
    UnknownMemberId,
)
from tidelog.plugins.coordinator.deadlines import Deadlines
from tidelog.plugins.coordinator.groups.directory import GroupDirectory, GroupEntry
from tidelog.plugins.coordinator.groups.entry import ClassicEntry
from tidelog.plugins.coordinator.groups.group import ClassicGroup, GroupSettings
from tidelog.plugins.coordinator.groups.images import Write
from tidelog.plugins.coordinator.groups.joining import join
from tidelog.plugins.coordinator.groups.leaving import leave
from tidelog.plugins.coordinator.groups.recording import record_of, restored
from tidelog.plugins.coordinator.groups.replies import Durable
from tidelog.plugins.coordinator.groups.sessions import begin_sessions, heartbeat, retire, time_passed
from tidelog.plugins.coordinator.groups.syncing import sync
from tidelog.plugins.coordinator.groups.waiting import WaitingReply
from tidelog.plugins.coordinator.log import StateLog, StateRecord
from tidelog.plugins.coordinator.records.group_metadata import (
    read_group_metadata_key,
    read_group_metadata_value,
)
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError

_log = logging.getLogger(__name__)


class GroupOffsets(Protocol):
    """What deleting a group needs of its offsets."""

    def tombstones(self, group_id: str) -> Sequence[StateRecord]:
        """What takes all of them away."""
        ...

    def forget(self, group_id: str) -> None:
        """That is in the log."""
        ...


class ConsumerSide(Protocol):
    """Members of the classic protocol in groups of the consumer protocol (KIP-848, online migration).

    Asked for a group with members that is not classic; see `GroupService` for what is returned and raised.
    """

    def join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """See `GroupService`."""
        ...

    def sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """See `GroupService`."""
        ...

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, group_instance_id: str | None
    ) -> None:
        """See `GroupService`."""
        ...

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """See `GroupService`."""
        ...


class ClassicGroups:
    """The `GroupService`."""

    def __init__(
        self,
        directory: GroupDirectory,
        log: StateLog,
        partition_for: Callable[[str], int],
        offsets: GroupOffsets,
        deadlines: Deadlines,
        settings: GroupSettings,
        clock: Clock,
    ) -> None:
        self.directory = directory
        self.consumer_side: ConsumerSide | None = None
        self._log = log
        self._partition_for = partition_for
        self._offsets = offsets
        self._deadlines = deadlines
        self._settings = settings
        self._clock = clock
        self._closed = False

    def join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """See `GroupService`."""
        partition = self._active_partition(request.group_id)
        settings = self._settings
        if (
            not settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= settings.max_session_timeout_ms
        ):
            raise InvalidSessionTimeout(
                f"a session timeout of {request.session_timeout_ms} ms is not within "
                f"{settings.min_session_timeout_ms} to {settings.max_session_timeout_ms} ms"
            )
        entry = self.directory.get(request.group_id)
        if entry is not None and not isinstance(entry, ClassicEntry):
            if not entry.is_empty():
                return self._consumer_side_or(InconsistentGroupProtocol).join(request)
            self._end_foreign(entry)
            entry = None
        if entry is None:
            if request.member_id != NO_MEMBER_ID:
                raise UnknownMemberId(f"there is no group {request.group_id!r}")
            entry = ClassicEntry(ClassicGroup(request.group_id, settings), partition)
            self.directory.put(entry)
        reply = WaitingReply[Joined]()
        try:
            self._carry_out(entry, join(entry.group, request, reply, self._deadlines.now_ms()))
        finally:
            self._look_after(entry)
        return reply.nowait() or reply.wait()

    def sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """See `GroupService`."""
        self._active_partition(request.group_id)
        entry = self._member_entry(request.group_id)
        if not isinstance(entry, ClassicEntry):
            return self._consumer_side_or(UnknownMemberId).sync(request)
        reply = WaitingReply[Synced]()
        self._carry_out(entry, sync(entry.group, request, reply, self._deadlines.now_ms()))
        self._look_after(entry)
        return reply.nowait() or reply.wait()

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, group_instance_id: str | None = None
    ) -> None:
        """See `GroupService`. While groups are being read back every member is taken to be alive."""
        try:
            self._active_partition(group_id)
        except CoordinatorLoadInProgress:
            return
        entry = self._member_entry(group_id)
        if not isinstance(entry, ClassicEntry):
            self._consumer_side_or(UnknownMemberId).heartbeat(
                group_id, member_id, generation, group_instance_id
            )
            return
        group = entry.group
        alarm_ms = group.alarm_ms
        try:
            heartbeat(group, member_id, generation, group_instance_id, self._deadlines.now_ms())
        finally:
            if group.alarm_ms < alarm_ms:
                self._look_after(entry)

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """See `GroupService`."""
        self._active_partition(group_id)
        entry = self.directory.get(group_id)
        if entry is None:
            gone = UnknownMemberId(f"there is no group {group_id!r}")
            return [LeaveOutcome(member, gone) for member in members]
        if not isinstance(entry, ClassicEntry):
            return await self._consumer_side_or(UnknownMemberId).leave(group_id, members)
        outcomes, write = leave(entry.group, members, self._deadlines.now_ms())
        durable = self._carry_out(entry, write)
        self._look_after(entry)
        if durable is not None:
            await durable()
        return outcomes

    def describe(self, group_id: str) -> DescribedGroup:
        """See `GroupService`."""
        self._check_active(self._partition_for(group_id))
        entry = self.directory.get(group_id)
        if entry is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        if not isinstance(entry, ClassicEntry):
            raise GroupIdNotFound(f"group {group_id!r} is not a classic group")
        return entry.described()

    def list(self, states: Collection[str] = (), types: Collection[str] = ()) -> Sequence[ListedGroup]:
        """See `GroupService`."""
        for partition in range(self._log.partition_count):
            try:
                self._check_active(partition)
            except NotCoordinator:
                continue
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        return [
            listed
            for listed in (entry.listed() for entry in self.directory)
            if (not wanted_states or listed.state.lower() in wanted_states)
            and (not wanted_types or listed.group_type in wanted_types)
        ]

    async def delete(self, group_ids: Sequence[str]) -> Sequence[BrokerError | None]:
        """See `GroupService`."""
        outcomes: dict[int, BrokerError | None] = {}
        waits: dict[int, Durable] = {}
        for index, group_id in enumerate(group_ids):
            try:
                durable = self._delete(group_id)
            except BrokerError as error:
                outcomes[index] = error
            else:
                outcomes[index] = None
                if durable is not None:
                    waits[index] = durable
        for index, durable in waits.items():
            try:
                await durable()
            except BrokerError as error:
                outcomes[index] = error
        return list(outcomes.values())

    def replay(self, partition: int, key: bytes, value: bytes | None) -> None:
        """A record of a classic group was read back."""
        try:
            group_id = read_group_metadata_key(key)
            told = None if value is None else read_group_metadata_value(value)
        except CodecError as error:
            _log.error("a group in partition %d of the log cannot be read: %s", partition, error)
            return
        entry = self.directory.classic(group_id)
        if told is not None:
            group = restored(group_id, told, self._settings)
            since_ms = told.current_state_timestamp
            self.directory.put(ClassicEntry(group, partition, True, since_ms if since_ms >= 0 else None))
        elif entry is not None:
            self.directory.remove(entry)

    def loaded(self, partition: int) -> None:
        """A partition was read back: its groups' members have a whole session to show that they are alive."""
        for entry in self.directory.of_partition(partition):
            if isinstance(entry, ClassicEntry):
                self.adopt(entry)

    def adopt(self, entry: ClassicEntry) -> None:
        """Take over a group with its members, from the log or from another protocol."""
        self.directory.put(entry)
        self._carry_out(entry, begin_sessions(entry.group, self._deadlines.now_ms()))
        self._look_after(entry)

    def give_up(self, entry: ClassicEntry, reason: BrokerError) -> None:
        """A group is not looked after here any more; whoever waits for it is told why."""
        retire(entry.group, reason)
        self._deadlines.cancel(self._key(entry))
        self.directory.remove(entry)

    def forget_partition(self, partition: int) -> None:
        """A partition of the log is gone, and its groups with it."""
        gone = NotCoordinator("the log of this group is gone")
        for entry in self.directory.of_partition(partition):
            if isinstance(entry, ClassicEntry):
                self.give_up(entry, gone)
            else:
                self.directory.remove(entry)

    def close(self) -> None:
        """Answer everybody who waits, and refuse whatever still comes: the broker stops."""
        self._closed = True
        stopping = NotCoordinator("the broker stops")
        for entry in self.directory:
            if isinstance(entry, ClassicEntry):
                retire(entry.group, stopping)

    def _active_partition(self, group_id: str) -> int:
        if not group_id:
            raise InvalidGroupId("the group id is empty")
        partition = self._partition_for(group_id)
        self._check_active(partition)
        return partition

    def _check_active(self, partition: int) -> None:
        if self._closed:
            raise NotCoordinator("the broker stops")
        self._log.check_active(partition)

    def _member_entry(self, group_id: str) -> GroupEntry:
        entry = self.directory.get(group_id)
        if entry is None:
            raise UnknownMemberId(f"there is no group {group_id!r}")
        return entry

    def _consumer_side_or(self, error: type[BrokerError]) -> ConsumerSide:
        if self.consumer_side is None:
            raise error("the group is not a classic one")
        return self.consumer_side

    def _end_foreign(self, entry: GroupEntry) -> None:
        """An empty group of the consumer protocol makes room for a classic one."""
        self._log.append(entry.partition, entry.tombstones())
        self.directory.remove(entry)

    def _carry_out(self, entry: ClassicEntry, write: Write | None) -> Durable | None:
        """Write what the machine wants written; a result is to be awaited before anybody is told."""
        if write is None:
            return None
        now_ms = self._clock()
        try:
            result = self._log.append(entry.partition, [record_of(write.image, now_ms)])
        except BrokerError as error:
            _log.warning("group %r could not be written: %s", entry.group_id, error)
            write.failed(_told(error))
            return None
        entry.recorded = True
        entry.state_timestamp_ms = now_ms
        durable = partial(self._log.committed, entry.partition, result) if result.flush_due else None
        write.written(durable)
        return durable

    def _look_after(self, entry: ClassicEntry) -> None:
        """See to it that the group is woken in time, and that one that came to nothing is forgotten."""
        group = entry.group
        if group.alarm_ms != math.inf:
            self._deadlines.schedule_by(self._key(entry), int(group.alarm_ms), partial(self._wake, entry))
        elif not group.generation and entry.is_idle() and not self._offsets.tombstones(group.group_id):
            self.directory.remove(entry)

    def _wake(self, entry: ClassicEntry) -> None:
        if self._closed or self.directory.get(entry.group_id) is not entry:
            return
        self._carry_out(entry, time_passed(entry.group, self._deadlines.now_ms()))
        self._look_after(entry)

    @staticmethod
    def _key(entry: ClassicEntry) -> tuple[str, str]:
        return "classic group", entry.group_id

    def _delete(self, group_id: str) -> Durable | None:
        partition = self._partition_for(group_id)
        self._check_active(partition)
        entry = self._existing(group_id)
        if not entry.is_empty():
            raise NonEmptyGroup(f"group {group_id!r} has members")
        records = [*self._offsets.tombstones(group_id), *entry.tombstones()]
        durable: Durable | None = None
        if records:
            result = self._log.append(partition, records)
            durable = partial(self._log.committed, partition, result) if result.flush_due else None
        self._offsets.forget(group_id)
        if isinstance(entry, ClassicEntry):
            self.give_up(entry, UnknownMemberId(f"group {group_id!r} was deleted"))
        else:
            self.directory.remove(entry)
        return durable

    def _existing(self, group_id: str) -> GroupEntry:
        entry = self.directory.get(group_id)
        if entry is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        return entry


def _told(error: BrokerError) -> BrokerError:
    """What members are told of a failed write, as in Kafka: to look for the coordinator again, or that there
    is no use in trying again."""
    if isinstance(error, StorageError):
        return NotCoordinator(str(error))
    if isinstance(error, MessageTooLarge | BatchTooLarge):
        return BrokerError(f"the group does not fit into a record: {error}")
    return error
