"""All groups of this broker by id."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError, GroupIdNotFound, NotCoordinator

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.groups.group import Group


class GroupRegistry:
    """Groups of every protocol; an id has one group.

    Attributes:
        find: returns the group of an id, or None (a method of the dictionary: heartbeats call it)
        closed: whether the broker stops; no group is created or changed from then on
    """

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._by_partition: dict[int, dict[str, Group]] = {}
        self.find: Callable[[str], Group | None] = self._groups.get
        self.closed = False

    def get(self, group_id: str) -> Group:
        """Return the group of that id.

        Raises:
            GroupIdNotFound: there is none.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def put(self, group: Group) -> None:
        """Add a group; it replaces the one of its id, whose state is in the same partition."""
        self._groups[group.group_id] = group
        self._by_partition.setdefault(group.partition, {})[group.group_id] = group

    def remove(self, group: Group, reason: BrokerError) -> None:
        """Close a group and remove it, unless another has replaced it; waiting members get `reason`."""
        group.close(reason)
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
            del self._by_partition[group.partition][group.group_id]

    def __iter__(self) -> Iterator[Group]:
        """Iterate over the groups that there are now; they may be removed meanwhile."""
        return iter(tuple(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def of_partition(self, partition: int) -> list[Group]:
        """Return the groups whose state is in that partition of the log."""
        return [*self._by_partition.get(partition, {}).values()]

    def check_open(self) -> None:
        """Check that the broker does not stop.

        Raises:
            NotCoordinator: it does.
        """
        if self.closed:
            raise NotCoordinator("the broker stops")

    def settle(self, partition: int) -> Generator[None, None, None]:
        """Resume the groups of a partition that was read back, one a step; see `LogReader`."""
        for group in self.of_partition(partition):
            if self.closed:
                return
            if self._groups.get(group.group_id) is group:
                group.resume()
            yield

    def forget_partition(self, partition: int) -> None:
        """Remove the groups of a partition of the log that is gone, or that another broker leads now."""
        for group in self.of_partition(partition):
            self.remove(group, NotCoordinator("this broker no longer has the log of this group"))

    def close(self) -> None:
        """Answer every request that waits, and refuse further ones: the broker stops."""
        self.closed = True
        for group in self._groups.values():
            group.close(NotCoordinator("the broker stops"))
