"""What drives the state machines: it writes what they want written, and wakes them in time."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from functools import partial

from tidelog.kernel.clock import Clock
from tidelog.kernel.errors import (
    BatchTooLarge,
    BrokerError,
    CoordinatorLoadInProgress,
    MessageTooLarge,
    NotCoordinator,
    StorageError,
)
from tidelog.plugins.coordinator.classic_groups.directory import GroupDirectory
from tidelog.plugins.coordinator.classic_groups.entry import ClassicEntry
from tidelog.plugins.coordinator.classic_groups.group import GroupSettings
from tidelog.plugins.coordinator.classic_groups.images import Write
from tidelog.plugins.coordinator.classic_groups.neighbours import GroupOffsets
from tidelog.plugins.coordinator.classic_groups.recording import record_of, restored
from tidelog.plugins.coordinator.classic_groups.replies import Durable
from tidelog.plugins.coordinator.classic_groups.sessions import begin_sessions, retire, time_passed
from tidelog.plugins.coordinator.deadlines import Deadlines
from tidelog.plugins.coordinator.log import StateLog
from tidelog.plugins.coordinator.records.group_metadata import (
    read_group_metadata_key,
    read_group_metadata_value,
)
from tidelog.plugins.coordinator.records.unreadable import UnreadableRecord
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError

_log = logging.getLogger(__name__)

LOADING_RETRY_MS = 1_000
"""How soon a group whose alarm rings before its partition is active is looked at again."""


class GroupDriver:
    """All classic groups, alive. Everything is decided and written without a pause; only answers wait."""

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
        self.log = log
        self.partition_for = partition_for
        self.offsets = offsets
        self.settings = settings
        self.now_ms = deadlines.now_ms
        self._deadlines = deadlines
        self.clock = clock
        self._closed = False

    def check_active(self, partition: int) -> None:
        """Ask before using what is in memory; raises as `StateLog.check_active`."""
        if self._closed:
            raise NotCoordinator("the broker stops")
        self.log.check_active(partition)

    def carry_out(self, entry: ClassicEntry, write: Write | None) -> Durable | None:
        """Write what the machine wants written; a result is to be awaited before anybody is told."""
        if write is None:
            return None
        now_ms = self.clock()
        try:
            result = self.log.append(entry.partition, [record_of(write.image, now_ms)])
        except BrokerError as error:
            _log.warning("group %.100r could not be written: %s", entry.group_id, error)
            write.failed(_told(error))
            return None
        _log.debug("group %r: generation %d", entry.group_id, write.image.generation)
        entry.state_timestamp_ms = now_ms
        durable = partial(self.log.committed, entry.partition, result) if result.flush_due else None
        write.written(durable)
        return durable

    def look_after(self, entry: ClassicEntry) -> None:
        """See to it that the group is woken in time, and that one that came to nothing is forgotten."""
        group = entry.group
        self._schedule(entry)
        if (
            group.alarm_ms == math.inf
            and not group.generation
            and entry.is_idle()
            and not self.offsets.holds(group.group_id)
        ):
            self.directory.remove(entry)

    def _schedule(self, entry: ClassicEntry) -> None:
        alarm_ms = entry.group.alarm_ms
        if alarm_ms != math.inf:
            self._deadlines.schedule_by(_key(entry), int(alarm_ms), partial(self._wake, entry))

    def _wake(self, entry: ClassicEntry) -> None:
        if self._closed or self.directory.get(entry.group_id) is not entry:
            return
        try:
            self.log.check_active(entry.partition)
        except CoordinatorLoadInProgress:
            # Nobody can be heard yet, and nothing be written.
            again = partial(self._wake, entry)
            self._deadlines.schedule(_key(entry), self.now_ms() + LOADING_RETRY_MS, again)
            return
        self.carry_out(entry, time_passed(entry.group, self.now_ms()))
        self.look_after(entry)

    def adopt(self, entry: ClassicEntry, *, rebalance: bool = False) -> None:
        """Take over a group whose members have a whole session to show that they are alive.

        A group that is in the log stays even without members and offsets, until it expires: only then is
        its tombstone written.
        """
        self.directory.put(entry)
        self.carry_out(entry, begin_sessions(entry.group, self.now_ms(), rebalance=rebalance))
        self._schedule(entry)

    def give_up(self, entry: ClassicEntry, reason: BrokerError) -> None:
        """A group is not looked after here any more; whoever waits for it is told why."""
        retire(entry.group, reason)
        self._deadlines.cancel(_key(entry))
        self.directory.remove(entry)

    def replay(self, partition: int, key: bytes, value: bytes | None) -> None:
        """A record of a classic group was read back.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker.
        """
        try:
            group_id = read_group_metadata_key(key)
            told = None if value is None else read_group_metadata_value(value)
        except CodecError as error:
            raise UnreadableRecord(str(error)) from None
        entry = self.directory.get(group_id)
        if told is not None:
            group = restored(group_id, told, self.settings)
            since_ms = told.current_state_timestamp
            self.directory.put(ClassicEntry(group, partition, since_ms if since_ms >= 0 else None))
        elif entry is not None:
            self.directory.remove(entry)

    def settle(self, partition: int) -> Iterator[None]:
        """See `LogReader`: the groups of the partition are taken over, one a step."""
        for entry in self.directory.of_partition(partition):
            if self._closed:
                return
            if self.directory.get(entry.group_id) is entry:
                self.adopt(entry)
            yield

    def forget_partition(self, partition: int) -> None:
        """A partition of the log is gone, and its groups with it."""
        for entry in self.directory.of_partition(partition):
            self.give_up(entry, NotCoordinator("the log of this group is gone"))

    def close(self) -> None:
        """Answer everybody who waits, and refuse whatever still comes: the broker stops."""
        self._closed = True
        for entry in self.directory:
            retire(entry.group, NotCoordinator("the broker stops"))


def _key(entry: ClassicEntry) -> tuple[str, str]:
    return "classic group", entry.group_id


def _told(error: BrokerError) -> BrokerError:
    """What members are told of a failed write, as in Kafka: to look for the coordinator again, or that there
    is no use in trying again."""
    if isinstance(error, StorageError):
        return NotCoordinator(str(error))
    if isinstance(error, MessageTooLarge | BatchTooLarge):
        return BrokerError(f"the group does not fit into a record: {error}")
    return error
