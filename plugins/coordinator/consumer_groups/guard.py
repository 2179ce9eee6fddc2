"""What committed offsets ask about consumer groups (a `CommitGuard` for those that are here)."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.seams.coordination.groups import ListedGroup
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
from tidelog.plugins.coordinator.consumer_groups.commits import check_commit, check_fetch
from tidelog.plugins.coordinator.consumer_groups.migration import removal
from tidelog.plugins.coordinator.consumer_groups.recording import to_record
from tidelog.plugins.coordinator.consumer_groups.registry import Registry
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.offsets.guard import ExpiryRule
from tidelog.plugins.coordinator.records.consumer_protocol import CONSUMER_PROTOCOL_TYPE


class ConsumerGroupGuard:
    """Asked only about groups that are consumer groups: `group_id in self`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __contains__(self, group_id: str) -> bool:
        return self._registry.find(group_id) is not None

    def check_commit(self, commit: OffsetCommit) -> None:
        """See `CommitGuard`."""
        check_commit(self._registry.get(commit.group_id), commit, self._registry.around.topics)

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """See `CommitGuard`."""
        check_fetch(self._registry.get(fetch.group_id), fetch)

    def check_delete(self, group_id: str) -> None:
        """See `CommitGuard`: it is always known what members subscribe to."""
        self._registry.get(group_id)

    def subscribes(self, group_id: str, topic: str) -> bool:
        """See `CommitGuard`."""
        group = self._registry.get(group_id)
        return any(topic in group.subscribed_names(member) for member in group.members.values())

    def begin_simple(self, group_id: str) -> None:
        """See `CommitGuard`: there is a group of that id, which is never a simple one."""

    def group_ids(self, partition: int) -> Sequence[str]:
        """See `CommitGuard`."""
        partition_for = self._registry.around.partition_for
        return [group.group_id for group in self._registry if partition_for(group.group_id) == partition]

    def expiry(self, group_id: str) -> ExpiryRule | None:
        """See `CommitGuard`: each offset by its own age, as long as nobody reads its topic."""
        return ExpiryRule()

    def tombstones(self, group_id: str) -> Sequence[StateRecord] | None:
        """See `CommitGuard`."""
        group = self._registry.get(group_id)
        if group.members:
            return None
        return [to_record(group_id, change) for change in removal(group)]

    def forget(self, group_id: str) -> None:
        """See `CommitGuard`."""
        self._registry.forget_group(group_id)

    def listed(self) -> Sequence[ListedGroup]:
        """Lines of the list of groups, one for each."""
        return [
            ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state, "consumer")
            for group in self._registry
        ]
