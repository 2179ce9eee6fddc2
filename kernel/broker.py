"""The broker: the composition root and its life from opening the storage to the last flush.

    storage open ⊃ topics loaded ⊃ background tasks ⊃ connections ⊃ accepting

Stopping walks the same way back: no new connection, requests under way get until the deadline, then
partitions are closed, the storage flushed, checkpointed and marked as cleanly stopped.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from tidelog.kernel.advertising import advertised_addresses
from tidelog.kernel.clock import Clock, wall_clock_ms
from tidelog.kernel.cluster import Cluster
from tidelog.kernel.config import Config, keys
from tidelog.kernel.config.listeners import format_address
from tidelog.kernel.dynamic_config import DynamicConfig
from tidelog.kernel.errors import CoordinatorNotAvailable, StorageError
from tidelog.kernel.flushing import timed_flush_task
from tidelog.kernel.load_progress import LoadProgress
from tidelog.kernel.peer_warnings import PeerWarnings
from tidelog.kernel.plugins import Plugins
from tidelog.kernel.producer_ids import ProducerIds
from tidelog.kernel.seams.coordination.backend import Coordinator
from tidelog.kernel.seams.storage import BrokerRegistration, Storage, StorageContext, TopicPartition
from tidelog.kernel.server import Server
from tidelog.kernel.tasks import BackgroundTasks, PeriodicTask
from tidelog.kernel.topics import Topics

_log = logging.getLogger(__name__)


HALT_PATIENCE_SECONDS = 10
"""So long a halted broker may take to close what can still be closed."""


class Broker:
    """A running broker: what wire codecs, background tasks and embedders call.

    `topics` has the partitions, `cluster` knows who leads what, `producer_ids` gives out ids, `listeners`
    maps each listener's name to the `host:port` it is bound to. `load_progress` tells how much of the logs is
    still to be opened.
    """

    def __init__(self, config: Config, plugins: Plugins, *, clock: Clock = wall_clock_ms) -> None:
        """Put the parts together; nothing is opened yet.

        Raises:
            PluginError: the configuration names a storage or codec that is not installed.
        """
        self.config = config
        self.plugins = plugins
        self.clock = clock
        self.tasks = BackgroundTasks()
        self.peer_warnings = PeerWarnings()
        self.listeners: dict[str, str] = {}
        self.load_progress = LoadProgress()
        self.storage: Storage = plugins.storage_backend(config[keys.STORAGE]).create(
            StorageContext(
                config,
                config[keys.NODE_ID],
                self.tasks,
                clock,
                plugins.index_formats(),
                self.load_progress,
                partitions_failed=self._partitions_failed,
                halt=self.halt,
                high_watermarks=self._high_watermarks,
            )
        )
        self.topics = Topics(config, self.storage, clock, self.tasks)
        coordinators = plugins.group_coordinator(config[keys.COORDINATOR])
        self._coordinator = coordinators.create(self) if coordinators else None
        self.server = Server(self)
        self.cluster: Cluster
        self.dynamic_config: DynamicConfig
        self.producer_ids: ProducerIds
        self._stop_requested = trio.Event()
        self._halted: str | None = None
        self._patience = trio.CancelScope(shield=True)

    @property
    def coordinator(self) -> Coordinator:
        """Who coordinates groups and transactions.

        Raises:
            CoordinatorNotAvailable: no plugin that could is installed.
        """
        if self._coordinator is None:
            raise CoordinatorNotAvailable("no coordinator plugin is installed on this broker")
        return self._coordinator

    def request_stop(self) -> None:
        """Begin a graceful stop; `running` ends when it is done."""
        self._stop_requested.set()

    def stop_at_once(self) -> None:
        """Stop without waiting for requests under way; what is in the log is still closed properly."""
        self._stop_requested.set()
        self._patience.cancel()

    def halt(self, reason: str) -> None:
        """Stop at once, since nothing can be served any more; `running` then raises `StorageError`."""
        if self._halted is None:
            self._halted = reason
            _log.critical("halting: %s", reason)
            self.stop_at_once()

    @property
    def halted(self) -> bool:
        """Whether it stops because it has to."""
        return self._halted is not None

    def _high_watermarks(self) -> Mapping[TopicPartition, int]:
        return self.topics.high_watermarks()

    def _partitions_failed(self, partitions: Sequence[TopicPartition], reason: str) -> None:
        self.topics.take_offline(partitions, reason)

    async def wait_stop_requested(self) -> None:
        """Wait until somebody asks for a stop."""
        await self._stop_requested.wait()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Broker]:
        """Open, serve, and stop gracefully when the block ends.

        Raises:
            ConfigError: a directory or an address cannot be used.
            StorageError: there was nothing left to serve from, see `halt`.
        """
        async with self.tasks.running():
            await self.storage.open()
            try:
                await self._open()
                async with trio.open_nursery() as serving:
                    await serving.start(self.server.run)
                    try:
                        yield self
                    finally:
                        await self._finish_serving()
                        serving.cancel_scope.cancel()
            finally:
                self.server.close_listeners()
                with trio.CancelScope(shield=True):
                    if self._coordinator is not None:
                        await self._coordinator.close()
                    await self.tasks.wait_for_jobs()
                    await self.topics.close()
                    await self._close_storage()
        if self._halted is not None:
            raise StorageError(f"the broker was halted: {self._halted}")

    async def _close_storage(self) -> None:
        try:
            await self.storage.close()
        except StorageError as error:
            if self._halted is None:
                raise
            _log.error("%s", error)

    async def _open(self) -> None:
        metadata = self.storage.metadata
        self.cluster = Cluster(self.config[keys.NODE_ID], metadata.cluster_id, self.config[keys.BROKER_RACK])
        self.producer_ids = ProducerIds(metadata)
        self.dynamic_config = DynamicConfig(
            self.config, metadata, self.topics, self.config[keys.NODE_ID], self.server.take_limits
        )
        self.dynamic_config.load()
        await self.topics.load()
        if self._coordinator is not None:
            await self._coordinator.open()
        bound = self.server.bind()
        self.listeners = {name: format_address(host, port) for name, (host, port) in bound.items()}
        advertised = advertised_addresses(self.config, bound)
        self.cluster.advertise(advertised)
        await metadata.register_broker(BrokerRegistration(advertised, self.config[keys.BROKER_RACK]))
        self.tasks.start(self._producer_expiry())
        self.tasks.start(timed_flush_task(self.config, self.topics, self.clock))
        for task in self.plugins.background_tasks(self):
            self.tasks.start(task)

    async def _finish_serving(self) -> None:
        self._patience.deadline = trio.current_time() + self.config[keys.SHUTDOWN_TIMEOUT_MS] / 1000
        with self._patience:
            self.topics.wake_all_waiters()
            if self._coordinator is not None:
                self._coordinator.release_waiters()
            await self.server.finish()
        if self._patience.cancelled_caught:
            _log.warning("%d connections were still busy when they were ended", self.server.connection_count)

    def _producer_expiry(self) -> PeriodicTask:
        interval = self.config[keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS]
        return PeriodicTask("producer-id-expiration", self._expire_producers, interval, interval)

    async def _expire_producers(self) -> None:
        horizon = self.clock() - self.config[keys.PRODUCER_ID_EXPIRATION_MS]
        for partition in self.topics.partitions():
            partition.producers.expire(horizon)
            await trio.lowlevel.checkpoint()


async def serve(
    config: Config,
    plugins: Plugins,
    *,
    on_ready: Callable[[Broker], None],
    while_loading: Callable[[LoadProgress], Awaitable[None]] | None = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT; `while_loading` runs until its logs are open, and is cancelled.

    A second signal stops without waiting for requests under way; a third one ends the process where it is.

    Raises:
        ConfigError, PluginError: it cannot start; the message says why.
    """
    broker = Broker(config, plugins)
    async with trio.open_nursery() as nursery:
        await nursery.start(_obey_signals, broker)
        loading = await nursery.start(_watch, while_loading, broker.load_progress)
        nursery.start_soon(_end_when_halted, broker)
        async with broker.running():
            loading.cancel()
            # What start-up made lives as long as the process: going through it at every full collection
            # would hold up all requests for tens of milliseconds.
            gc.freeze()
            on_ready(broker)
            await broker.wait_stop_requested()
        nursery.cancel_scope.cancel()


async def _watch(
    show: Callable[[LoadProgress], Awaitable[None]] | None,
    progress: LoadProgress,
    task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        if show is not None:
            await show(progress)


async def _end_when_halted(broker: Broker) -> None:
    """End the process when a halted broker does not: a disk that hangs may hold its threads up for good."""
    await broker.wait_stop_requested()
    if broker.halted:
        await trio.sleep(HALT_PATIENCE_SECONDS)
        os._exit(1)


async def _obey_signals(
    broker: Broker, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        count = 0
        async for number in signals:
            count += 1
            name = signal.Signals(number).name
            if count == 1:
                _log.info("%s: stopping; a second signal stops at once", name)
                broker.request_stop()
            elif count == 2:
                _log.warning("%s again: stopping at once", name)
                broker.stop_at_once()
            else:
                os._exit(128 + number)
