"""Events of one broker: each goes to every listener, in the order in which things happened."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.kernel.seams.events import Event, EventListener

_log = logging.getLogger(__name__)


class BrokerEvents:
    """The listeners, and the events that are not delivered yet.

    Listeners are called before `publish` returns, unless a listener publishes the event: then the present
    event is delivered to all listeners first.
    """

    def __init__(self) -> None:
        self._listeners: list[EventListener] = []
        self._waiting: deque[Event] = deque()
        self._delivering = False

    def subscribe(self, listener: EventListener) -> None:
        """Call `listener` with every event from now on, after the listeners that subscribed before."""
        self._listeners.append(listener)

    def publish(self, event: Event) -> None:
        """Call the listeners, on the event loop; an error of one is logged, and the others are called."""
        if not self._listeners:
            return
        self._waiting.append(event)
        # A listener has published it: delivered now, the listeners behind would see both in the wrong order.
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._waiting:
                self._deliver(self._waiting.popleft())
        finally:
            self._delivering = False

    def _deliver(self, event: Event) -> None:
        # A copy: a listener may subscribe another one.
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                _log.exception("an event listener failed: %s of %s", listener, type(event).__name__)
