"""Topics that are created because a client requested them (`auto.create.topics.enable`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.rate_limit import RateLimit

if TYPE_CHECKING:
    from tidelog.kernel.seams.tasks import Tasks
    from tidelog.kernel.topics.topics import Topics

_log = logging.getLogger(__name__)

MAX_WAITING = 1000
"""Topics that wait for their creation. A client whose topic is beyond asks again, as it does anyway."""
WARNING_INTERVAL_SECONDS = 60.0


class AutoCreation:
    """Creates topics in the background, one after the other.

    No client waits for it: as in Apache Kafka it gets UNKNOWN_TOPIC_OR_PARTITION, and asks again.
    """

    def __init__(self, topics: Topics, tasks: Tasks) -> None:
        self._topics = topics
        self._tasks = tasks
        self._waiting: dict[str, None] = {}
        self._warnings = RateLimit(WARNING_INTERVAL_SECONDS)

    def request(self, name: str) -> None:
        """Create the topic soon, unless it is about to be created, too many are, or the broker stops."""
        if name in self._waiting or len(self._waiting) >= MAX_WAITING or self._topics.closing:
            return
        self._waiting[name] = None
        # The entry stays until its topic is created, so the first one means that no job runs.
        if len(self._waiting) == 1:
            self._tasks.once("create topics", self._create_all)

    async def _create_all(self) -> None:
        try:
            while self._waiting:
                name = next(iter(self._waiting))
                try:
                    await self._topics.ensure(name)
                except BrokerError as error:
                    if self._warnings.admit(type(error).__name__) is not None:
                        _log.warning("topic %r, which a client requested, is not created: %s", name, error)
                del self._waiting[name]
        finally:
            # After a cancellation or an unexpected error no job is left that would empty it, and no later
            # request would begin one.
            self._waiting.clear()
