"""Groups that nobody joins: their clients only commit, so there is nothing to check and nothing to keep."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.coordination.offsets import NO_GENERATION, OffsetCommit, OffsetFetch
from tidelog.kernel.errors import GroupIdNotFound, IllegalGeneration, UnknownMemberId
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.offsets.guard import ExpiryRule


class SimpleGroups:
    """A `CommitGuard` that knows no members."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def check_commit(self, commit: OffsetCommit) -> None:
        """See `CommitGuard`."""
        if commit.generation > NO_GENERATION:
            missing = f"there is no group {commit.group_id!r}"
            if commit.group_id in self._ids:
                raise UnknownMemberId(f"group {commit.group_id!r} has no members")
            raise GroupIdNotFound(missing) if commit.knows_epochs else IllegalGeneration(missing)
        self._ids.add(commit.group_id)

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """See `CommitGuard`."""
        self.check_delete(fetch.group_id)

    def check_delete(self, group_id: str) -> None:
        """See `CommitGuard`."""
        if group_id not in self._ids:
            raise GroupIdNotFound(f"there is no group {group_id!r}")

    def subscribes(self, group_id: str, topic: str) -> bool:
        """See `CommitGuard`."""
        return False

    def begin_simple(self, group_id: str) -> None:
        """See `CommitGuard`."""
        self._ids.add(group_id)

    def group_ids(self, partition: int) -> Sequence[str]:
        """See `CommitGuard`; the table of offsets knows them all."""
        return ()

    def expiry(self, group_id: str) -> ExpiryRule | None:
        """See `CommitGuard`."""
        return ExpiryRule()

    def tombstones(self, group_id: str) -> Sequence[StateRecord] | None:
        """See `CommitGuard`."""
        return ()

    def forget(self, group_id: str) -> None:
        """See `CommitGuard`."""
        self._ids.discard(group_id)
