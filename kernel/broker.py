"""The broker: the composition root, and its lifecycle from opening the storage to the last flush.

    storage open ⊃ topics loaded ⊃ background tasks ⊃ connections ⊃ accepting

Stopping takes the same steps in reverse: no new connections, requests in progress and then background tasks
have until the deadline, then partitions are closed, and the storage is flushed, checkpointed and marked as
cleanly stopped.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NoReturn, cast

import trio

from tidelog.kernel.clock import Clock, wall_clock_ms
from tidelog.kernel.cluster.broker_loggers import BrokerLoggers
from tidelog.kernel.cluster.cluster import Cluster, advertised_addresses
from tidelog.kernel.cluster.dynamic_config import DynamicConfig
from tidelog.kernel.cluster.features import Features
from tidelog.kernel.cluster.producer_ids import ProducerIds
from tidelog.kernel.cluster.resource_configs import ResourceConfigs
from tidelog.kernel.code_places import plugins_by_module
from tidelog.kernel.config import Config, interceptor_keys, keys
from tidelog.kernel.config.listeners import format_address
from tidelog.kernel.errors import CoordinatorNotAvailable, StorageError
from tidelog.kernel.events import BrokerEvents
from tidelog.kernel.garbage_collection import frozen_survivors, thaw_task
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.loop_monitor import LoopMonitor
from tidelog.kernel.metadata import ImageFollower, MetadataDelta, MetadataImage
from tidelog.kernel.metadata.publisher import MetadataPublisher
from tidelog.kernel.metering import BrokerMeters
from tidelog.kernel.network import Server
from tidelog.kernel.network.server import SASL, PeerWarnings
from tidelog.kernel.network.transport import PLAINTEXT, PlainListeners
from tidelog.kernel.plugins import Plugins
from tidelog.kernel.rates import SampleWindows
from tidelog.kernel.replica import ReplicaManager
from tidelog.kernel.request.client_quotas import ClientQuotas
from tidelog.kernel.seams.authorizer import AuthorizerContext
from tidelog.kernel.seams.controller import ControllerContext
from tidelog.kernel.seams.coordination.backend import Coordinator, CoordinatorBackend
from tidelog.kernel.seams.events import PartitionMoved, PartitionsOffline
from tidelog.kernel.seams.metadata import BrokerRegistration, MetadataContext
from tidelog.kernel.seams.quotas import QuotaCallbackContext
from tidelog.kernel.seams.storage import Storage, StorageContext, TopicPartition
from tidelog.kernel.seams.storage.load_progress import LogLoadProgress
from tidelog.kernel.sinks.sinks import Sinks
from tidelog.kernel.stores import close_stores, open_stores
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.topics import Topics
from tidelog.kernel.topics.policy_warnings import PolicyWarnings
from tidelog.kernel.topics.reservations import Reservations

if TYPE_CHECKING:
    from tidelog.kernel.request import Authorization, ListenerAuthentication
    from tidelog.kernel.request.interception import Interception
    from tidelog.kernel.request.policies import Policies
    from tidelog.kernel.seams.cleanup import CleanupPolicy, LogCleaner
    from tidelog.kernel.seams.controller import Controller
    from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
    from tidelog.kernel.seams.meters import MeterSource
    from tidelog.kernel.seams.requests import RequestStage
    from tidelog.kernel.seams.tasks import BackgroundTask
    from tidelog.kernel.seams.transport import TransportBackend

_log = logging.getLogger(__name__)


HALT_PATIENCE_SECONDS = 10
"""How long a halted broker may take to close what can still be closed."""


class _NoCoordinator:
    """A coordinator where no plugin has one: all that is asked of it raises `CoordinatorNotAvailable`."""

    def __getattr__(self, name: str) -> NoReturn:
        if not hasattr(Coordinator, name) and name not in Coordinator.__annotations__:
            # A mistake of the caller, which must not look like a broker without groups.
            raise AttributeError(f"a coordinator has no {name!r}")
        raise CoordinatorNotAvailable("no coordinator plugin is installed on this broker")


class Broker:
    """A running broker; plugins see the parts of it that the seams declare.

    `topics` has the topics, `replicas` the partitions and the way to their logs, `metadata` the image of
    the cluster, which the parts of the broker follow by `publisher`, `controller` decides changes of it,
    `cluster` knows the brokers, `producer_ids` hands out ids, `listeners` maps each listener's name to the
    `host:port` it is bound to. `request_stages` are around the handlers of requests, in order;
    `authorization` is None where everyone may do everything, `client_quotas` where no client is throttled,
    `interception` where nothing intercepts batches.
    `log_cleaner` carries out the cleanup policies, if a plugin has registered one, `sinks` runs the sinks,
    `load_progress` counts the logs that are still to be opened, `loop_monitor` what held the event loop,
    `meters` has all that is measured.
    """

    def __init__(
        self, config: Config, plugins: Plugins, *, clock: Clock = wall_clock_ms, must_exist: bool = False
    ) -> None:
        """Create the parts; nothing is opened yet. With `must_exist` only a storage with data can be opened.

        Raises:
            PluginError: the configuration names a storage, metadata store, controller, coordinator or codec
                that is not installed.
            ConfigError: the metadata store would not outlive the process, but the storage does.
        """
        self.config = config
        self.plugins = plugins
        self.clock = clock
        self.tasks = BackgroundTasks()
        modules = plugins_by_module({each.module: each.name for each in plugins.candidates})
        self.loop_monitor = LoopMonitor(config[keys.EVENT_LOOP_STALL_MS], modules)
        self.events = BrokerEvents()
        self.meters = BrokerMeters()
        self.peer_warnings = PeerWarnings(modules)
        self.request_stages: Sequence[RequestStage] = ()
        self.authorization = self._create_authorization()
        self.interception, self._policies = self._create_interceptors()
        self.client_quotas = self._create_client_quotas()
        self.listeners: dict[str, str] = {}
        self.load_progress = LogLoadProgress()
        self.log_cleaner: LogCleaner | None = None
        self.loggers = BrokerLoggers()
        self._stop_requested = trio.Event()
        self._halted: str | None = None
        self._patience = trio.CancelScope(shield=True)
        self._create_stores(must_exist=must_exist)
        self._create_partitions()
        self._create_services()
        self._create_publisher()

    def _create_authorization(self) -> Authorization | None:
        name = self.config[keys.AUTHORIZER_CLASS_NAME]
        if not name:
            return None
        # Not at the top: most brokers need it not.
        from tidelog.kernel.request import Authorization

        backend = self.plugins.authorizer_backend
        return Authorization(backend(name).create(AuthorizerContext(self.config, backend)), name)

    def _create_interceptors(self) -> tuple[Interception | None, Policies | None]:
        config = self.config
        policies = (
            interceptor_keys.CREATE_TOPIC_POLICY_CLASS_NAME,
            interceptor_keys.ALTER_CONFIG_POLICY_CLASS_NAME,
        )
        if not config.tables(interceptor_keys.SECTION) and not any(config[key] for key in policies):
            return None, None
        # Not at the top: most brokers need it not.
        from tidelog.kernel.request.configured_interceptors import configured_interceptors

        return configured_interceptors(config, self.plugins.interceptor_kind, self.clock)

    def _create_client_quotas(self) -> ClientQuotas | None:
        config = self.config
        name = config[keys.CLIENT_QUOTA_CALLBACK_CLASS]
        if not name:
            return None
        callback = self.plugins.quota_callback_backend(name).create(QuotaCallbackContext(config))
        return ClientQuotas(
            name,
            callback,
            SampleWindows(config[keys.QUOTA_WINDOW_NUM], config[keys.QUOTA_WINDOW_SIZE_SECONDS]),
            SampleWindows(
                config[keys.CONTROLLER_QUOTA_WINDOW_NUM], config[keys.CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS]
            ),
        )

    def _create_stores(self, *, must_exist: bool) -> None:
        config, plugins = self.config, self.plugins
        storage = plugins.storage_backend(config[keys.STORAGE])
        context = MetadataContext(config, config[keys.NODE_ID], self.clock, self._deliver)
        self.metadata = plugins.metadata_backend(config[keys.METADATA], storage).create(context)
        self.storage: Storage = storage.create(self._storage_context(must_exist=must_exist))

    def _create_partitions(self) -> None:
        """Create topics and partitions, and what decides which there are."""
        config, plugins, node_id = self.config, self.plugins, self.config[keys.NODE_ID]
        unpacking = Unpacking(config[keys.DECOMPRESSION_MEMORY_BYTES])
        self.replicas = ReplicaManager(
            node_id, self.storage, self.clock, self.tasks, unpacking, self.events.publish
        )
        reservations = Reservations(self.replicas, self.storage)
        self.features = Features(self.metadata, has_coordinator=plugins.has_group_coordinators)
        context = ControllerContext(
            config,
            node_id,
            self.metadata,
            self.features.supported,
            reservations,
            self._catch_up,
            plugins.controller_backend,
            self.clock,
        )
        self.controller = self._with_policies(
            plugins.controller_backend(config[keys.CONTROLLER]).create(context)
        )
        self.topics = Topics(
            config,
            self.storage,
            self.replicas,
            reservations,
            self.metadata,
            self.controller,
            self.tasks,
            self.events,
        )

    def _with_policies(self, controller: Controller) -> Controller:
        if self._policies is None:
            return controller
        from tidelog.kernel.request.policies import ControllerWithPolicies

        return cast("Controller", ControllerWithPolicies(controller, self._policies))

    def _create_services(self) -> None:
        """Create what serves partitions to sinks and clients."""
        config, plugins = self.config, self.plugins
        self.cluster = Cluster(config[keys.NODE_ID], self.metadata, config[keys.BROKER_RACK])
        self.producer_ids = ProducerIds(self.controller)
        self.sinks = Sinks(config.sinks, plugins.sink_kinds(), self)
        self.resource_configs = ResourceConfigs(config, lambda: self.metadata.image)
        self.coordinator: Coordinator = cast("Coordinator", _NoCoordinator())
        self._coordinator: Coordinator | None = None
        if plugins.has_group_coordinators:
            backend = plugins.group_coordinator(config[keys.COORDINATOR])
            self.coordinator = self._coordinator = backend.create(self)
        codecs = {each.name: plugins.wire_codec(each.codec) for each in config.served_listeners()}
        transports = {
            each.name: self._transport(each.security_protocol) for each in config.served_listeners()
        }
        self.server = Server(self, codecs, transports, plugins.sasl_mechanism)
        config.dynamic_checks.append(self.server.check)

    def authentication_of(self, listener: str) -> ListenerAuthentication | None:
        """Return how clients of a listener authenticate, None where they do not."""
        return self.server.authentication_of(listener)

    def _transport(self, security_protocol: str) -> TransportBackend:
        protocol = security_protocol.removeprefix(SASL)
        return PlainListeners() if protocol == PLAINTEXT else self.plugins.transport(protocol)

    def _create_publisher(self) -> None:
        """Create what follows the image beside the parts that are there, and what has all of them follow."""
        self.dynamic_config = DynamicConfig(
            self.config, self.config[keys.NODE_ID], self.events, self.topics.refresh_configs
        )
        self._policy_warnings = PolicyWarnings(
            self.topics, self.cleanup_policies, lambda: self.log_cleaner is not None
        )
        self.publisher = MetadataPublisher(lambda: self.metadata.image, self._image_followers())

    def _image_followers(self) -> Sequence[ImageFollower]:
        """Return the parts of the broker that follow the image, in the order in which they follow a change.

        The authorizer and quotas come before what they guard. Partitions come next, and then coordinators,
        which serve what these have. What is configured, counted by listeners or delivered by sinks is there
        by then.
        """
        coordinator = () if self._coordinator is None else (self._coordinator,)
        authorizer = () if self.authorization is None else (self.authorization.authorizer,)
        quotas = () if self.client_quotas is None else (self.client_quotas,)
        return (
            *authorizer,
            *quotas,
            self.topics,
            *coordinator,
            self.dynamic_config,
            self.resource_configs,
            self.server,
            self.sinks,
            self._policy_warnings,
        )

    def _storage_context(self, *, must_exist: bool) -> StorageContext:
        return StorageContext(
            self.config,
            self.config[keys.NODE_ID],
            self.tasks,
            self.clock,
            self.plugins.index_formats(),
            self.load_progress,
            partitions_failed=self._partitions_failed,
            partition_moved=self._partition_moved,
            partition_assigned=self.metadata.assign_directory,
            directory_failed=self.metadata.fail_directory,
            halt=self.halt,
            high_watermarks=self._high_watermarks,
            backend=self.plugins.storage_backend,
            must_exist=must_exist,
        )

    def coordinator_backend(self, name: str) -> CoordinatorBackend:
        """Return the kind of coordinator that has this name."""
        return self.plugins.group_coordinator(name)

    @property
    def partition_assignors(self) -> Mapping[str, PartitionAssignor]:
        """The assignors that plugins offer, by name."""
        return self.plugins.partition_assignors()

    @property
    def cleanup_policies(self) -> Mapping[str, CleanupPolicy]:
        """The cleanup policies that plugins offer, by name."""
        return self.plugins.cleanup_policies()

    @property
    def loop_clock(self) -> Callable[[], float]:
        """Return seconds by trio's clock, without the time in which the event loop stood still."""
        return self.loop_monitor.clock

    def register_log_cleaner(self, cleaner: LogCleaner) -> None:
        """Note that `cleaner` carries out the cleanup policies."""
        self.log_cleaner = cleaner

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return the tasks of the storage, metadata store, coordinator and sinks."""
        of_coordinator = () if self._coordinator is None else self._coordinator.background_tasks()
        return (
            *self.storage.background_tasks(),
            *self.metadata.background_tasks(),
            *of_coordinator,
            *self.sinks.background_tasks(),
        )

    @property
    def image(self) -> MetadataImage:
        """All that is true of the cluster, at this moment."""
        return self.metadata.image

    def _deliver(self, delta: MetadataDelta) -> None:
        self.publisher.deliver(delta)

    async def _catch_up(self) -> None:
        await self.publisher.catch_up()

    async def allocate_producer_id(self) -> int:
        """Return a producer id that was never returned before."""
        return await self.producer_ids.allocate()

    def request_stop(self) -> None:
        """Start a graceful stop; `running` ends when it is done."""
        self._stop_requested.set()

    def stop_at_once(self) -> None:
        """Stop without waiting for requests in progress; partitions are still closed cleanly."""
        self._stop_requested.set()
        self._patience.cancel()

    def halt(self, reason: str) -> None:
        """Stop at once, since nothing can be served any more; `running` raises `StorageError`."""
        if self._halted is None:
            self._halted = reason
            _log.critical("halting: %s", reason)
            self.stop_at_once()

    @property
    def halted(self) -> bool:
        """Whether it stops because nothing can be served any more."""
        return self._halted is not None

    def _high_watermarks(self) -> Mapping[TopicPartition, int]:
        return self.replicas.high_watermarks()

    def _partitions_failed(self, partitions: Sequence[TopicPartition], reason: str) -> None:
        gone = self.replicas.take_offline(partitions, reason)
        self.events.publish(PartitionsOffline(gone, reason))

    def _partition_moved(self, partition: TopicPartition, path: str) -> None:
        moved = self.replicas.find(*partition)
        if moved is not None:
            moved.log.revise()
            self.events.publish(PartitionMoved(moved, path))

    async def wait_stop_requested(self) -> None:
        """Wait until a stop is requested."""
        await self._stop_requested.wait()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Broker]:
        """Open, serve, and stop gracefully when the block ends.

        Raises:
            ConfigError: a directory, an address or a sink cannot be used.
            StorageError: there was nothing left to serve from, see `halt`.
        """
        # Before anything is opened: a sink that cannot be used as it is configured is an error of the
        # configuration.
        self.sinks.create()
        async with self._stores_open():
            await self._open()
            async with trio.open_nursery() as serving:
                serving.start_soon(self.loop_monitor.run)
                serving.start_soon(self.publisher.run)
                await serving.start(self.server.run)
                try:
                    yield self
                finally:
                    await self._finish_serving()
                    serving.cancel_scope.cancel()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Broker]:
        """Open the logs for offline work: without listeners and background tasks.

        Raises:
            ConfigError: a directory cannot be used.
            StorageError: there was nothing left to work on, see `halt`.
        """
        async with self._stores_open():
            self._follow_image()
            await self.topics.load()
            yield self

    @asynccontextmanager
    async def _stores_open(self) -> AsyncGenerator[None]:
        async with self.tasks.running():
            await open_stores(self.storage, self.metadata)
            try:
                yield
            finally:
                # Where the start failed after they were bound; otherwise they are closed already.
                self.server.close_listeners()
                # A cancellation, as of a program that embeds the broker, must not leave partitions open.
                with trio.CancelScope(shield=True):
                    if self._coordinator is not None:
                        await self._coordinator.close()
                    # Before the partitions are closed, in whose files these jobs write.
                    await self.tasks.wait_for_jobs()
                    await self.topics.close()
                    await self._close_stores()
        if self._halted is not None:
            raise StorageError(f"the broker was halted: {self._halted}")

    async def _close_stores(self) -> None:
        try:
            await close_stores(self.storage, self.metadata)
        except StorageError as error:
            if self._halted is None:
                raise
            _log.error("%s", error)

    def _follow_image(self) -> None:
        """Take over the image as a whole, and deltas from now on."""
        image = self.publisher.begin()
        self.controller.load(image)
        if self.authorization is not None:
            self.authorization.authorizer.load(image)
        if self.client_quotas is not None:
            self.client_quotas.load(image)
        self.dynamic_config.load(image)
        self.server.use_limits()

    async def _open(self) -> None:
        # Before the topics are loaded, so that no event is missed.
        self.events.subscribe(self.sinks.on_event)
        self._follow_image()
        for listener in self.plugins.event_listeners(self):
            self.events.subscribe(listener)
        self.request_stages = self.plugins.request_stages(self)
        for plugin, sources in self.plugins.ask("tidelog_meters", broker=self):
            self.meters.add(plugin, cast("list[MeterSource]", sources))
        await self.topics.load()
        if self._coordinator is not None:
            await self._coordinator.open()
        # After the topics are loaded, before anything is accepted: the addresses that are advertised have the
        # bound ports.
        bound = self.server.bind()
        self.listeners = {name: format_address(host, port) for name, (host, port) in bound.items()}
        _warn_of_open_listeners(self.config, bound)
        advertised = advertised_addresses(self.config, bound)
        self.cluster.advertise(advertised)
        await self.metadata.register_broker(BrokerRegistration(advertised, self.config[keys.BROKER_RACK]))
        tasks = self.plugins.background_tasks(self)
        # A log cleaner registers when it is asked for its tasks.
        self._policy_warnings.check_default(self.config)
        for task in tasks:
            await self.tasks.start_ready(task)

    async def _finish_serving(self) -> None:
        self._patience.deadline = trio.current_time() + self.config[keys.SHUTDOWN_TIMEOUT_MS] / 1000
        with self._patience:
            # Before connections finish, which wait for the responses of all requests: a long poll would use
            # up the deadline.
            self.topics.wake_all_waiters()
            if self._coordinator is not None:
                self._coordinator.release_waiters()
            await self.server.finish()
            await self.tasks.finish()
        if self._patience.cancelled_caught:
            _log.warning("%d connections were still busy when they were ended", self.server.connection_count)


def _warn_of_open_listeners(config: Config, bound: Mapping[str, tuple[str, int]]) -> None:
    """Log one warning if anyone who reaches this machine can use the broker, one if it can read passwords."""
    protocols = {listener.name: listener.security_protocol for listener in config.served_listeners()}
    open_to_others = {
        name: f"{name}://{format_address(host, port)}"
        for name, (host, port) in bound.items()
        if not ipaddress.ip_address(host.partition("%")[0]).is_loopback
    }
    if plain := [at for name, at in open_to_others.items() if protocols[name] == PLAINTEXT]:
        allowed = (
            "do what the authorizer allows User:ANONYMOUS, and others on the way read and change it"
            if config[keys.AUTHORIZER_CLASS_NAME]
            else "read and change everything"
        )
        _log.warning(
            "%s: every client that reaches this address can %s, since there is neither TLS nor "
            "authentication; let only a trusted network reach it, or listen on 127.0.0.1",
            ", ".join(plain),
            allowed,
        )
    readable = [
        at
        for name, at in open_to_others.items()
        if protocols[name] == SASL + PLAINTEXT
        and "PLAIN" in config.of_listener(keys.SASL_ENABLED_MECHANISMS, name)
    ]
    if readable:
        _log.warning(
            "%s: passwords of the SASL mechanism PLAIN can be read on their way, since there is no TLS; use "
            "SASL_SSL, or only SCRAM-SHA-256 and SCRAM-SHA-512",
            ", ".join(readable),
        )


async def serve(
    config: Config,
    plugins: Plugins,
    *,
    on_ready: Callable[[Broker], None],
    while_loading: Callable[[LogLoadProgress], Awaitable[None]] | None = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT; `while_loading` runs until its logs are open, and is cancelled.

    A second signal stops without waiting for requests in progress; a third one ends the process at once.

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
            with frozen_survivors():
                broker.tasks.start(thaw_task(lambda: not broker.server.connection_count))
                on_ready(broker)
                await broker.wait_stop_requested()
        nursery.cancel_scope.cancel()


async def _watch(
    show: Callable[[LogLoadProgress], Awaitable[None]] | None,
    progress: LogLoadProgress,
    task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        if show is not None:
            await show(progress)


async def _end_when_halted(broker: Broker) -> None:
    """End the process if a halted broker does not: its threads may wait forever for a disk."""
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
