"""What is written to and read of the partitions of a topic, counted where it happens."""

from __future__ import annotations

from typing import Final


class TopicTraffic:
    """Counts of one topic since the broker has opened it, all its partitions together; sizes are in bytes.

    All logs of the topic have the same one, and add to it: a count costs an addition, and nothing more
    (`tools/meter_cost.py` measures it).
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        """Offsets that appended batches have taken."""
        self.bytes_in = 0
        self.bytes_out = 0
        """Records in responses to clients."""
        self.produces = 0
        """Batches that clients sent, for one partition each."""
        self.failed_produces = 0
        self.fetches = 0
        """Reads of one partition for a client."""
        self.failed_fetches = 0

    def add(self, other: TopicTraffic) -> None:
        """Add the counts of another one."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COUNTS: Final = tuple(TopicTraffic.__slots__)


class Traffic:
    """The counts of each topic, and of all together, with those that were deleted."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._deleted = TopicTraffic()

    def of(self, topic: str) -> TopicTraffic:
        """Return the counts of a topic."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """Note that a topic was deleted: its counts stay in the total only."""
        deleted = self._topics.pop(topic, None)
        if deleted is not None:
            self._deleted.add(deleted)

    def by_topic(self) -> dict[str, TopicTraffic]:
        """Return a copy of the table; it may be called in a thread."""
        return self._topics.copy()

    def total(self) -> TopicTraffic:
        """Return the counts of all topics together; it may be called in a thread."""
        total = TopicTraffic()
        total.add(self._deleted)
        for each in self.by_topic().values():
            total.add(each)
        return total
