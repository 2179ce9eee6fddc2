"""The registration of a broker: it follows the connection and the topics for as long as the broker runs.

    connecting ──connected──▶ register ──▶ all topics ──▶ changed topics, as they come
        ▲                        │ refused, stale            │
        └────connection lost─────┴───────────────────────────┘

The broker serves in any state. Only a start that finds its id or its path taken ends with an error.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.seams.events import (
    Event,
    LeadershipChanged,
    PartitionsOpened,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from tidelog.plugins.zookeeper.errors import Conflict, StaleRegistration, Unavailable, ZooKeeperError
from tidelog.plugins.zookeeper.session import session_name
from tidelog.plugins.zookeeper.status import RegistrationStatus, publish_status

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.kernel.clock import Clock
    from tidelog.kernel.seams.tasks import Lifespan
    from tidelog.plugins.zookeeper.connect_string import ConnectString
    from tidelog.plugins.zookeeper.registry import Registry
    from tidelog.plugins.zookeeper.session import ZooKeeper

_log = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 0.5
LONGEST_RETRY_S: Final = 30.0
"""Pauses after a failure: the first one doubles up to the other."""
STALE_RETRY_S: Final = 1.0
"""How often the registration of an earlier run is looked at, which goes when its session expires."""
LOG_INTERVAL_S: Final = 60.0
"""The least time between two log lines of the same kind."""


@attrs.frozen
class RegistrationTimes:
    """Limits in seconds: how long a start waits for a connection, and the timeout of a session."""

    connection_s: float
    session_s: float


class Registration:
    """Keeps a registry up to date; `on_event` is a listener of the broker's events."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        registry: Registry,
        connect: ConnectString,
        times: RegistrationTimes,
        clock: Clock,
    ) -> None:
        self._zookeeper = zookeeper
        self._registry = registry
        self._connect = connect
        self._times = times
        self._clock = clock
        self._changed_topics: set[str] = set()
        self._woken = trio.Event()
        self._registered_in = 0
        self._own_changes = 0
        self._next_registration = 0.0
        self._has_synced = False
        self._stale_since: float | None = None
        self._log_limit = RateLimit(LOG_INTERVAL_S, now=trio.current_time)
        self.status = RegistrationStatus(str(connect), since_ms=clock())

    def on_event(self, event: Event) -> None:
        """Note which topics have changed."""
        match event:
            case TopicCreated(topic) | TopicDeleted(topic) | TopicConfigChanged(topic):
                self._changed_topics.add(topic.name)
            case PartitionsOpened(topic, _):
                self._changed_topics.add(topic.name)
            case LeadershipChanged(partitions):
                self._changed_topics.update(each.topic_partition.topic for each in partitions)
            case _:
                return
        self._woken.set()

    async def run(self, lifespan: Lifespan, status_file: Path | None = None) -> None:
        """Register, and follow until the broker stops; meanwhile the status is in a file.

        Raises:
            ConfigError: at the start another broker has the id, or another cluster the path.
        """
        async with self._zookeeper.running():
            await self._register_at_start()
            lifespan.ready()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_connection)
                nursery.start_soon(self._follow)
                if status_file is not None:
                    nursery.start_soon(publish_status, status_file, self.status)
                await lifespan.wait_stopping()
                nursery.cancel_scope.cancel()

    async def _register_at_start(self) -> None:
        zookeeper = self._zookeeper
        with trio.move_on_after(self._times.connection_s):
            while not (zookeeper.session_id or zookeeper.problem):
                await zookeeper.wait_changed()
        try:
            await self._register()
        except Conflict as error:
            raise ConfigError(f"zookeeper.connect = {self._connect}: {error}") from None
        except ZooKeeperError as error:
            self._failed(error)

    async def _watch_connection(self) -> None:
        while True:
            await self._zookeeper.wait_changed()
            self._woken.set()

    async def _follow(self) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            try:
                await self._catch_up()
            except ZooKeeperError as error:
                self._failed(error)
                # At least the first one also where connections come and go: each of them costs a comparison.
                await trio.sleep(STALE_RETRY_S if isinstance(error, StaleRegistration) else retry_s)
                retry_s = min(2 * retry_s, LONGEST_RETRY_S)
                while not self._zookeeper.session_id:
                    retry_s = FIRST_RETRY_S
                    await self._zookeeper.wait_changed()
                continue
            retry_s = FIRST_RETRY_S
            with trio.move_on_after(LONGEST_RETRY_S if self._registry.refused else float("inf")) as waiting:
                await self._woken.wait()
            self._woken = trio.Event()
            if waiting.cancelled_caught:
                self._changed_topics.update(self._registry.refused)

    async def _catch_up(self) -> None:
        """Have ZooKeeper as the broker is, from whatever is missing on."""
        while True:
            await self._register()
            try:
                if not self._has_synced:
                    self._changed_topics.clear()
                    await self._registry.sync_all()
                    self._has_synced = True
                elif self._changed_topics:
                    names, self._changed_topics = self._changed_topics, set()
                    await self._registry.sync(names)
                else:
                    self._caught_up()
                    return
            except BaseException:
                # Which of them were written is unknown.
                self._has_synced = False
                raise

    async def _register(self) -> None:
        """Register in the present session, unless that is done."""
        if self._zookeeper.session_id not in (0, self._registered_in):
            # Sessions that come and go again and again must not keep broker and ZooKeeper busy.
            await trio.sleep_until(self._next_registration)
            self._next_registration = trio.current_time() + FIRST_RETRY_S
        session_id = self._zookeeper.session_id
        if not session_id:
            raise Unavailable(f"not connected: {self._zookeeper.problem or 'no server has answered yet'}")
        if session_id == self._registered_in:
            self._set_state("registered", session_id)
            return
        self._has_synced = False
        changes = self._own_changes
        await self._registry.register(self._own_nodes_changed)
        # What was removed while the rest was written is missed otherwise.
        self._registered_in = session_id if changes == self._own_changes else 0
        self._stale_since = None
        self._set_state("registered", session_id)
        if self._log_limit.admit("registered") is not None:
            _log.info("registered in ZooKeeper at %s, session %s", self._connect, session_name(session_id))

    def _own_nodes_changed(self) -> None:
        """Register again: a node was removed or replaced by another client, or went with the session."""
        self._own_changes += 1
        self._registered_in = 0
        self._woken.set()

    def _caught_up(self) -> None:
        self.status.topics = self._registry.topics
        self.status.refused_topics = len(self._registry.refused)
        for name, reason in self._registry.refused.items():
            self._warn(f"refused {name}", "ZooKeeper does not take the topic %s: %s", name, reason)

    def _failed(self, error: ZooKeeperError) -> None:
        if isinstance(error, StaleRegistration):
            error = self._overdue(error)
        if not self._zookeeper.session_id:
            self._set_state("disconnected")
        elif self._zookeeper.session_id != self._registered_in:
            self._set_state("not registered")
        self.status.failures += 1
        self.status.last_error = str(error)
        self._warn(
            type(error).__name__,
            "ZooKeeper at %s: %s; the broker serves, but clients that look for it there do not find it, or "
            "find what is not up to date",
            self._connect,
            error,
        )

    def _overdue(self, error: StaleRegistration) -> ZooKeeperError:
        """Return the error for a stale registration that should have expired by now: someone renews it."""
        now = trio.current_time()
        if self._stale_since is None:
            self._stale_since = now
        if now - self._stale_since < 2 * self._times.session_s:
            return error
        return Conflict(f"{error}, which does not happen: another broker has the same id and address")

    def _warn(self, kind: str, text: str, *arguments: object) -> None:
        suppressed = self._log_limit.admit(kind)
        if suppressed is not None:
            more = f" ({suppressed} more of these were not logged)" if suppressed else ""
            _log.warning(text + "%s", *arguments, more)

    def _set_state(self, state: str, session_id: int = 0) -> None:
        session = session_name(session_id) if session_id else ""
        if (state, session) != (self.status.state, self.status.session):
            self.status.state, self.status.session = state, session
            self.status.since_ms = self._clock()
