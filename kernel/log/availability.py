"""Whether a partition can be used: the parts of it ask this, and not the partition, which holds them.

So no part refers back to its partition, and one that was deleted is freed at once. It would be a cycle
otherwise, and the garbage collector does not visit what has been there for long
(`tidelog.kernel.garbage_collection`).
"""

from __future__ import annotations

import attrs

from tidelog.kernel.errors import BrokerError, UnknownTopicOrPartition
from tidelog.kernel.log.side_writes import SideWrites
from tidelog.kernel.log.watermarks import Watermarks
from tidelog.kernel.topic_partition import TopicPartition


@attrs.define
class Availability:
    """Why a partition is offline, None while it is not."""

    _topic_partition: TopicPartition
    _side_writes: SideWrites
    _watermarks: Watermarks
    reason: BrokerError | None = None

    def check(self) -> None:
        """Raise why the partition was taken offline, if it was."""
        if self.reason is not None:
            raise self.reason.with_traceback(None)

    def take_offline(self, reason: BrokerError | None = None) -> None:
        """Refuse every append and read from now on (by default: it was deleted), and wake the waiters."""
        # A topic that is deleted may be created again under the same name.
        self._side_writes.wanted = False
        self.reason = reason or UnknownTopicOrPartition(f"{self._topic_partition} is gone")
        self._watermarks.abandon_waiters()
