"""The broker as every plugin may use it; some seams extend this for their kind of plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidelog.kernel.clock import Clock
    from tidelog.kernel.cluster.cluster import Cluster
    from tidelog.kernel.cluster.resource_configs import ResourceConfigs
    from tidelog.kernel.config import Config
    from tidelog.kernel.metadata import MetadataImage
    from tidelog.kernel.replica import ReplicaManager
    from tidelog.kernel.seams.cleanup import CleanupPolicy, LogCleaner
    from tidelog.kernel.seams.events import Events
    from tidelog.kernel.seams.meters import Meters
    from tidelog.kernel.seams.tasks import Tasks
    from tidelog.kernel.topics import Topics


class PluginHooks(Protocol):
    """The hooks of all loaded plugins."""

    def ask(self, hook: str, **arguments: object) -> Iterator[tuple[str, list[object]]]:
        """Call a hook of every plugin that implements it; yield (plugin name, what it returns).

        Raises:
            PluginError: the hook failed or did not return an iterable; names plugin and hook.
        """
        ...


class BrokerContext(Protocol):
    """What every plugin may use of its broker."""

    @property
    def config(self) -> Config:
        """The broker's configuration; dynamic keys change while it runs."""
        ...

    @property
    def clock(self) -> Clock:
        """The wall clock."""
        ...

    @property
    def loop_clock(self) -> Callable[[], float]:
        """Seconds by trio's clock, without the time in which the event loop stood still.

        What a peer has to do in time is timed by it: what it sent meanwhile could not be read.
        """
        ...

    @property
    def cluster(self) -> Cluster:
        """The brokers, leaders and coordinators of the cluster."""
        ...

    @property
    def image(self) -> MetadataImage:
        """All that is true of the cluster, at this moment."""
        ...

    @property
    def topics(self) -> Topics:
        """The topics and their partitions, empty until the broker has loaded them."""
        ...

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions of which this broker has a replica: the way to a log, for every request."""
        ...

    @property
    def tasks(self) -> Tasks:
        """The background work."""
        ...

    @property
    def events(self) -> Events:
        """Events of topics, partitions and configuration."""
        ...

    @property
    def resource_configs(self) -> ResourceConfigs:
        """The configuration of groups and of client metrics."""
        ...

    @property
    def meters(self) -> Meters:
        """What is measured, for exporters."""
        ...

    @property
    def plugins(self) -> PluginHooks:
        """The hooks of all plugins, for hooks that a plugin declares itself."""
        ...

    @property
    def cleanup_policies(self) -> Mapping[str, CleanupPolicy]:
        """The cleanup policies that plugins offer, by name."""
        ...

    def register_log_cleaner(self, cleaner: LogCleaner) -> None:
        """Note that `cleaner` carries out the cleanup policies of this broker.

        It is called in `tidelog_background_tasks`. Without a log cleaner the broker warns that no policy has
        an effect.
        """
        ...

    def request_stop(self) -> None:
        """Stop the broker gracefully."""
        ...
