"""The assignment of a large consumer group, computed while other requests are served (KIP-1263)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.coordinator.consumer_groups.assigning import may_assign, target_changes
from tidelog.plugins.coordinator.consumer_groups.group_records import TargetEpochChange
from tidelog.plugins.coordinator.consumer_groups.machine.transitions import set_targets
from tidelog.plugins.coordinator.consumer_groups.member_records import TargetChange

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.consumer_groups.draft import Draft
    from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
    from tidelog.plugins.coordinator.consumer_groups.settings import Shared

_log = logging.getLogger(__name__)

MEMBERS_PER_BATCH: Final = 200
PARTITIONS_PER_BATCH: Final = 5_000
"""Targets that are written at once, which takes some milliseconds; a single member may have more."""


Present: TypeAlias = "Callable[[], ConsumerGroup | None]"
"""Returns the state of the group, None if it is gone."""
Write: TypeAlias = "Callable[[Callable[[ConsumerGroup], Generator[None, None, Draft]]], Awaitable[None]]"
"""Appends and applies a draft of the group's state."""


class BackgroundAssignment:
    """Computes the assignment of one group, at most one at a time."""

    def __init__(self, group_id: str, shared: Shared) -> None:
        self._group_id = group_id
        self._shared = shared
        self._done: trio.Event | None = None

    @property
    def is_running(self) -> bool:
        """Whether an assignment is being computed."""
        return self._done is not None

    def start_if_due(self, present: Present, write: Write) -> trio.Event | None:
        """Compute an assignment if no heartbeat has, since it takes long; return the event of its end.

        There is no other while one is computed, whose event that is then. None if none is due.
        """
        state = present()
        if state is None or not may_assign(state, self._shared.context(self._group_id)):
            return None
        if self._done is None:
            self._done = trio.Event()
            self._shared.tasks.once(
                f"assignment of group {self._group_id}", partial(self._run, present, write)
            )
        return self._done

    async def _run(self, present: Present, write: Write) -> None:
        try:
            await self._assign(present, write)
        except BrokerError as error:
            _log.warning("group %s is not assigned yet: %s", self._group_id, error)
        finally:
            if self._done is not None:
                self._done.set()
            self._done = None

    async def _assign(self, present: Present, write: Write) -> None:
        """Compute the assignment of the group as it is now, and write it even if the group changes meanwhile.

        Members may join and leave all the time. Those that left get nothing, those that came have to wait for
        the next assignment, which is due at once. One that replaced a static member, which makes none due,
        gets what is for its instance.
        """
        state, context = present(), self._shared.context(self._group_id)
        if state is None or not may_assign(state, context):
            return
        # The group may change while its assignment is computed, which is for the epoch of now: written for a
        # later one it would keep what has changed since from ever being assigned.
        epoch = state.epoch
        instances = {member_id: instance_id for instance_id, member_id in state.static_members.items()}
        changes = await target_changes(state, context)
        for some in _batches(changes):
            await write(partial(set_targets, changes=some, instances=instances))
            await trio.lowlevel.checkpoint()
        done = TargetEpochChange(state.group_id, epoch, self._shared.runtime.clock())
        await write(partial(set_targets, changes=[done], instances={}))
        _log.info("group %s: assignment of epoch %d in the background", state.group_id, epoch)


def _batches(changes: Sequence[TargetChange]) -> Iterator[Sequence[TargetChange]]:
    batch: list[TargetChange] = []
    partitions = 0
    for change in changes:
        batch.append(change)
        partitions += sum(map(len, (change.partitions or {}).values()))
        if len(batch) >= MEMBERS_PER_BATCH or partitions >= PARTITIONS_PER_BATCH:
            yield batch
            batch, partitions = [], 0
    if batch:
        yield batch
