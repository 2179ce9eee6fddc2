"""The whole extension surface of tidelog: every hook a plugin may implement.

A plugin is a module that implements some of these functions, marked with `tidelog.kernel.hookimpl`, and is
named in the entry-point group `tidelog` or in the configuration key `plugins`. Hooks are called once, at
start-up; they return objects, which the broker then calls directly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from types import ModuleType

    import click

    from tidelog.kernel.config import ConfigKey, UnsupportedKey
    from tidelog.kernel.seams.authorizer import AuthorizerBackend
    from tidelog.kernel.seams.broker import BrokerContext, PluginHooks
    from tidelog.kernel.seams.cleanup import CleanupPolicy
    from tidelog.kernel.seams.compression import CompressionCodec
    from tidelog.kernel.seams.controller import ControllerBackend
    from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
    from tidelog.kernel.seams.coordination.backend import CoordinatorBackend
    from tidelog.kernel.seams.events import EventListener
    from tidelog.kernel.seams.indexes import IndexFormat
    from tidelog.kernel.seams.interceptors import InterceptorKind
    from tidelog.kernel.seams.metadata import MetadataBackend
    from tidelog.kernel.seams.meters import MeterSource
    from tidelog.kernel.seams.quotas import QuotaCallbackBackend
    from tidelog.kernel.seams.requests import RequestStage
    from tidelog.kernel.seams.sasl import SaslMechanismBackend
    from tidelog.kernel.seams.sinks import SinkKind
    from tidelog.kernel.seams.storage import StorageBackend
    from tidelog.kernel.seams.tasks import BackgroundTask
    from tidelog.kernel.seams.transport import TransportBackend
    from tidelog.kernel.seams.wire import WireCodec

PROJECT = "tidelog"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def tidelog_hookspecs() -> Iterable[ModuleType]:  # type: ignore[empty-body]
    """Return modules that declare hooks of the plugin's own, which other plugins may implement."""


@hookspec
def tidelog_config_keys() -> Iterable[ConfigKey[object] | UnsupportedKey]:  # type: ignore[empty-body]
    """Return configuration keys that the plugin reads, and keys of other brokers that no plugin reads."""


@hookspec
def tidelog_storage_backends() -> Iterable[StorageBackend]:  # type: ignore[empty-body]
    """Return kinds of storage that the key `storage` can name."""


@hookspec
def tidelog_metadata_stores() -> Iterable[MetadataBackend]:  # type: ignore[empty-body]
    """Return stores of topics, configuration and producer ids that the key `metadata` can name."""


@hookspec
def tidelog_controllers() -> Iterable[ControllerBackend]:  # type: ignore[empty-body]
    """Return deciders of changes of the metadata that the key `controller` can name."""


@hookspec
def tidelog_index_formats() -> Iterable[IndexFormat]:  # type: ignore[empty-body]
    """Return index formats of segments that the keys `log.index.format` and `index.format` can name."""


@hookspec
def tidelog_cleanup_policies() -> Iterable[CleanupPolicy]:  # type: ignore[empty-body]
    """Return ways to remove old records that the keys `log.cleanup.policy` and `cleanup.policy` can name."""


@hookspec
def tidelog_compression_codecs() -> Iterable[CompressionCodec]:  # type: ignore[empty-body]
    """Return ways to compress the records of batches, which `compression.type` can name."""


@hookspec
def tidelog_wire_codecs(plugins: PluginHooks) -> Iterable[WireCodec]:  # type: ignore[empty-body]
    """Return wire protocols that a listener can use."""


@hookspec
def tidelog_transports() -> Iterable[TransportBackend]:  # type: ignore[empty-body]
    """Return transports of connections that `listener.security.protocol.map` can name."""


@hookspec
def tidelog_sasl_mechanisms() -> Iterable[SaslMechanismBackend]:  # type: ignore[empty-body]
    """Return ways for clients to authenticate with SASL that `sasl.enabled.mechanisms` can name."""


@hookspec
def tidelog_group_coordinators() -> Iterable[CoordinatorBackend]:  # type: ignore[empty-body]
    """Return coordinators of groups and transactions that the key `coordinator` can name."""


@hookspec
def tidelog_partition_assignors() -> Iterable[PartitionAssignor]:  # type: ignore[empty-body]
    """Return server-side assignors of consumer groups that `group.consumer.assignors` can name."""


@hookspec
def tidelog_sinks() -> Iterable[SinkKind]:  # type: ignore[empty-body]
    """Return kinds of sinks for what is committed, which tables `[sinks.KIND.NAME]` can name."""


@hookspec
def tidelog_background_tasks(broker: BrokerContext) -> Iterable[BackgroundTask]:  # type: ignore[empty-body]
    """Return periodic tasks, and tasks that run as long as the broker does and end gracefully."""


@hookspec
def tidelog_event_listeners(broker: BrokerContext) -> Iterable[EventListener]:  # type: ignore[empty-body]
    """Return functions to call with the events of topics, partitions and configuration."""


@hookspec
def tidelog_request_stages(broker: BrokerContext) -> Iterable[RequestStage]:  # type: ignore[empty-body]
    """Return what is done before and after the handler of each request."""


@hookspec
def tidelog_meters(broker: BrokerContext) -> Iterable[MeterSource]:  # type: ignore[empty-body]
    """Return what the plugin measures, for the exporters of other plugins."""


@hookspec
def tidelog_interceptors() -> Iterable[InterceptorKind]:  # type: ignore[empty-body]
    """Return kinds of interceptors of batches and changes, which tables `[interceptors.NAME]` can name."""


@hookspec
def tidelog_authorizers() -> Iterable[AuthorizerBackend]:  # type: ignore[empty-body]
    """Return deciders of who may do what that the key `authorizer.class.name` can name."""


@hookspec
def tidelog_quota_callbacks() -> Iterable[QuotaCallbackBackend]:  # type: ignore[empty-body]
    """Return what decides on the quotas of clients that the key `client.quota.callback.class` can name."""


@hookspec
def tidelog_commands() -> Iterable[click.Command]:  # type: ignore[empty-body]
    """Return subcommands of `tidelog`."""


@hookspec
def tidelog_conformance_suites() -> Iterable[type[object]]:  # type: ignore[empty-body]
    """Return classes of tests that prove what the plugin offers, for `tidelog plugins check`."""
