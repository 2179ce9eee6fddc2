"""What committed offsets ask of groups, whatever their kind: the `CommitGuard`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.kernel.errors import GroupIdNotFound, IllegalGeneration
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
from tidelog.plugins.coordinator.classic_groups.directory import GroupDirectory
from tidelog.plugins.coordinator.classic_groups.entry import ClassicEntry
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup, GroupSettings
from tidelog.plugins.coordinator.classic_groups.neighbours import ConsumerGuard
from tidelog.plugins.coordinator.classic_groups.recording import tombstone_of
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.offsets.guard import ExpiryRule


class GroupGuard:
    """Asks the group; a client that commits for none begins a classic one that never has members.

    `consumer_groups` are asked about theirs; without them all groups are classic.
    """

    def __init__(
        self,
        directory: GroupDirectory,
        settings: GroupSettings,
        partition_for: Callable[[str], int],
        now_ms: Callable[[], int],
    ) -> None:
        """`now_ms` is the clock of `Deadlines`."""
        self.consumer_groups: ConsumerGuard | None = None
        self._directory = directory
        self._settings = settings
        self._partition_for = partition_for
        self._now_ms = now_ms

    def check_commit(self, commit: OffsetCommit) -> None:
        """See `CommitGuard`."""
        entry = self._directory.get(commit.group_id)
        others = self._others(commit.group_id)
        if entry is not None:
            entry.check_commit(commit, self._now_ms())
        elif others is not None:
            others.check_commit(commit)
        elif commit.generation < 0:
            self.begin_simple(commit.group_id)
        elif commit.knows_epochs:
            raise GroupIdNotFound(f"Group {commit.group_id} not found.")
        else:
            raise IllegalGeneration(f"there is no group {commit.group_id!r}, so it has no generation")

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """See `CommitGuard`; everybody may see a classic group's offsets."""
        others = self._others(fetch.group_id)
        if others is not None:
            others.check_fetch(fetch)
        else:
            self._classic(fetch.group_id)

    def check_delete(self, group_id: str) -> None:
        """See `CommitGuard`."""
        others = self._others(group_id)
        if others is not None:
            others.check_delete(group_id)
        else:
            self._classic(group_id).check_delete_offsets()

    def subscribes(self, group_id: str, topic: str) -> bool:
        """See `CommitGuard`."""
        others = self._others(group_id)
        if others is not None:
            return others.subscribes(group_id, topic)
        entry = self._directory.get(group_id)
        return entry is not None and entry.subscribes(topic)

    def begin_simple(self, group_id: str) -> None:
        """See `CommitGuard`."""
        if self._directory.get(group_id) is None and self._others(group_id) is None:
            group = ClassicGroup(group_id, self._settings)
            self._directory.put(ClassicEntry(group, self._partition_for(group_id)))

    def group_ids(self, partition: int) -> Sequence[str]:
        """See `CommitGuard`."""
        classic = [entry.group_id for entry in self._directory.of_partition(partition)]
        others = () if self.consumer_groups is None else self.consumer_groups.group_ids(partition)
        return [*classic, *others]

    def expiry(self, group_id: str) -> ExpiryRule | None:
        """See `CommitGuard`; offsets whose group is not there expire by their commits."""
        others = self._others(group_id)
        if others is not None:
            return others.expiry(group_id)
        entry = self._directory.get(group_id)
        return ExpiryRule() if entry is None else entry.expiry()

    def tombstones(self, group_id: str) -> Sequence[StateRecord] | None:
        """See `CommitGuard`."""
        others = self._others(group_id)
        if others is not None:
            return others.tombstones(group_id)
        entry = self._directory.get(group_id)
        if entry is None:
            return [tombstone_of(group_id)]
        return entry.tombstones() if entry.is_idle() else None

    def forget(self, group_id: str) -> None:
        """See `CommitGuard`."""
        others = self._others(group_id)
        if others is not None:
            others.forget(group_id)
        entry = self._directory.get(group_id)
        if entry is not None:
            self._directory.remove(entry)

    def _others(self, group_id: str) -> ConsumerGuard | None:
        others = self.consumer_groups
        return others if others is not None and group_id in others else None

    def _classic(self, group_id: str) -> ClassicEntry:
        entry = self._directory.get(group_id)
        if entry is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return entry
