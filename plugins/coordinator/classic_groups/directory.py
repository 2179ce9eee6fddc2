"""The classic groups of this broker by id."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.plugins.coordinator.classic_groups.entry import ClassicEntry


class GroupDirectory:
    """Groups by id. No group of another protocol has an id that is in here."""

    def __init__(self) -> None:
        self._entries: dict[str, ClassicEntry] = {}

    def get(self, group_id: str) -> ClassicEntry | None:
        """The group of that id."""
        return self._entries.get(group_id)

    def put(self, entry: ClassicEntry) -> None:
        """Keep a group; it takes the place of one that has its id."""
        self._entries[entry.group_id] = entry

    def remove(self, entry: ClassicEntry) -> None:
        """Forget a group, unless another has taken its place."""
        if self._entries.get(entry.group_id) is entry:
            del self._entries[entry.group_id]

    def __iter__(self) -> Iterator[ClassicEntry]:
        """All groups as they are now."""
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def of_partition(self, partition: int) -> list[ClassicEntry]:
        """The groups whose state is in that partition of the log."""
        return [entry for entry in self._entries.values() if entry.partition == partition]
