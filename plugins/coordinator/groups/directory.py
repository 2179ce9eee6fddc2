"""All groups of this broker by id. A group is of one kind at a time: classic, or of the consumer protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tidelog.kernel.coordination.groups import GroupType, ListedGroup
from tidelog.kernel.coordination.offsets import OffsetCommit, OffsetFetch
from tidelog.plugins.coordinator.groups.entry import ClassicEntry
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.offsets.guard import ExpiryRule


class GroupEntry(Protocol):
    """What every kind of group can be asked; errors are those of `CommitGuard`.

    `partition` is where in the log its state is.
    """

    @property
    def group_id(self) -> str:
        """Its id."""
        ...

    @property
    def group_type(self) -> GroupType:
        """Its kind."""
        ...

    @property
    def partition(self) -> int:
        """The number of its partition."""
        ...

    def listed(self) -> ListedGroup:
        """Its line in the list of groups."""
        ...

    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    def is_idle(self) -> bool:
        """Whether it has no members, and none is about to join."""
        ...

    def check_commit(self, commit: OffsetCommit, now_ms: int) -> None:
        """Whether this client may commit; its session begins anew. The time is that of `Deadlines`."""
        ...

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """Whether this client may see the group's offsets."""
        ...

    def check_delete_offsets(self) -> None:
        """Whether single offsets of the group may be deleted."""
        ...

    def subscribes(self, topic: str) -> bool:
        """Whether a member reads the topic, or may read it for all that is known."""
        ...

    def expiry(self) -> ExpiryRule | None:
        """How its offsets expire now."""
        ...

    def tombstones(self) -> Sequence[StateRecord]:
        """What takes its own records away; it has no members."""
        ...


class GroupDirectory:
    """Groups by id."""

    def __init__(self) -> None:
        self._entries: dict[str, GroupEntry] = {}

    def get(self, group_id: str) -> GroupEntry | None:
        """The group of that id."""
        return self._entries.get(group_id)

    def classic(self, group_id: str) -> ClassicEntry | None:
        """The group of that id, if it is a classic one."""
        entry = self._entries.get(group_id)
        return entry if isinstance(entry, ClassicEntry) else None

    def put(self, entry: GroupEntry) -> None:
        """Keep a group; it takes the place of one that has its id."""
        self._entries[entry.group_id] = entry

    def remove(self, entry: GroupEntry) -> None:
        """Forget a group, unless another has taken its place."""
        if self._entries.get(entry.group_id) is entry:
            del self._entries[entry.group_id]

    def __iter__(self) -> Iterator[GroupEntry]:
        """All groups as they are now."""
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def of_partition(self, partition: int) -> list[GroupEntry]:
        """The groups whose state is in that partition of the log."""
        return [entry for entry in self._entries.values() if entry.partition == partition]
