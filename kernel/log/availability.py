"""Whether a log can be used: the parts of it ask this, and not the log, which holds them.

So no part refers back to its log, and one that was deleted is freed at once. It would be a cycle
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
    """Why a log cannot be used, and why clients may not append to it; None while it can and they may.

    `append_refusal` is `reason` of a log that is offline, or that another broker leads the partition.
    """

    _topic_partition: TopicPartition
    _side_writes: SideWrites
    _watermarks: Watermarks
    reason: BrokerError | None = None
    append_refusal: BrokerError | None = None

    def check(self) -> None:
        """Raise why the log was taken offline, if it was."""
        if self.reason is not None:
            # One object is raised again and again: a traceback would grow with each, and keep the frames
            # alive.
            raise self.reason.with_traceback(None)

    def check_leads(self) -> None:
        """Raise why clients may not append, if they may not."""
        if self.append_refusal is not None:
            raise self.append_refusal.with_traceback(None)

    def refuse_appends(self, refusal: BrokerError | None) -> None:
        """Let clients not append, or with None append again; a log that is offline stays so."""
        # A change of leader must not open a log whose disk has failed.
        if self.reason is None:
            self.append_refusal = refusal

    def take_offline(self, reason: BrokerError | None = None) -> None:
        """Refuse every append and read from now on (by default: it was deleted), and wake the waiters."""
        # A topic that is deleted may be created again under the same name.
        self._side_writes.wanted = False
        self.reason = reason or UnknownTopicOrPartition(f"{self._topic_partition} is gone")
        self.append_refusal = self.reason
        # Last: what is woken reads again, and gets the reason.
        self._watermarks.abandon_waiters()
