"""The registration of a broker, put together from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.tasks import BackgroundTask, LifespanTask
from tidelog.plugins.zookeeper import keys
from tidelog.plugins.zookeeper.layouts import KafkaLayout, Layout07
from tidelog.plugins.zookeeper.nodes import AdvertisedEndpoint, BrokerInfo
from tidelog.plugins.zookeeper.registration import Registration, RegistrationTimes
from tidelog.plugins.zookeeper.registry import Registry, RegistryContext
from tidelog.plugins.zookeeper.security import ZooKeeperSecurity
from tidelog.plugins.zookeeper.status import status_file

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.tasks import Lifespan
    from tidelog.plugins.zookeeper.connect_string import ConnectString
    from tidelog.plugins.zookeeper.session import ZooKeeper


def registration_task(broker: BrokerContext, connect: ConnectString) -> BackgroundTask:
    """Return the task that registers the broker."""

    async def run(lifespan: Lifespan) -> None:
        # Not before: an error in a hook is one of the plugin, and a package that is missing is the user's.
        zookeeper = _client(broker.config, connect)
        await registration_of(broker, zookeeper, connect).run(lifespan, status_file(broker.config))

    return LifespanTask("registration in ZooKeeper", run)


def registration_of(broker: BrokerContext, zookeeper: ZooKeeper, connect: ConnectString) -> Registration:
    """Return the registration of a broker by a client; it listens to the broker's events from now on."""
    config, node_id = broker.config, broker.cluster.node_id
    session_ms = config[keys.ZOOKEEPER_SESSION_TIMEOUT_MS]
    is_old = config[keys.ZOOKEEPER_LAYOUT] == keys.LAYOUT_07
    context = RegistryContext(
        connect,
        Layout07(node_id) if is_old else KafkaLayout(node_id),
        broker_info(broker),
        lambda: broker.image,
        broker.clock,
        config[keys.ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS],
    )
    connection_ms = config[keys.ZOOKEEPER_CONNECTION_TIMEOUT_MS]
    times = RegistrationTimes((connection_ms or session_ms) / 1000, session_ms / 1000)
    registration = Registration(zookeeper, Registry(zookeeper, context), connect, times, broker.clock)
    broker.events.subscribe(registration.on_event)
    return registration


def broker_info(broker: BrokerContext) -> BrokerInfo:
    """Return what the broker registers of itself, with the addresses that it advertises."""
    cluster = broker.cluster
    endpoints = [
        AdvertisedEndpoint(each.name, at.host, at.port, each.security_protocol)
        for each in broker.config.served_listeners()
        for at in [cluster.this_broker(each.name)]
    ]
    return BrokerInfo(cluster.node_id, endpoints, broker.clock(), cluster.rack)


def _client(config: Config, connect: ConnectString) -> ZooKeeper:
    """Return a client; raises ConfigError without kazoo."""
    try:
        from tidelog.plugins.zookeeper.kazoo_client import KazooZooKeeper
    except ModuleNotFoundError as error:
        if error.name != "kazoo":
            raise
        raise ConfigError(
            "zookeeper.connect is set, and the package kazoo is not installed: pip install "
            "'tidelog[zookeeper]', or unset it"
        ) from None
    return KazooZooKeeper(
        connect,
        config[keys.ZOOKEEPER_SESSION_TIMEOUT_MS],
        config[keys.ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS],
        _security(config),
    )


def _security(config: Config) -> ZooKeeperSecurity:
    """Return what the keys say.

    Raises:
        ConfigError: there are access control lists without a certificate, or a store cannot be used.
    """
    own = config[keys.ZOOKEEPER_SSL_KEYSTORE_LOCATION]
    uses_tls, restricts_nodes = config[keys.ZOOKEEPER_SSL_CLIENT_ENABLE], config[keys.ZOOKEEPER_SET_ACL]
    if restricts_nodes and not (uses_tls and own):
        raise ConfigError(
            "zookeeper.set.acl = true needs a certificate by which ZooKeeper knows the broker: set "
            "zookeeper.ssl.client.enable = true and zookeeper.ssl.keystore.location"
        )
    if not uses_tls:
        return ZooKeeperSecurity()
    # Not at the top: it needs what reads keys and certificates.
    from tidelog.plugins.zookeeper.tls_contexts import checked_context_factory

    return ZooKeeperSecurity(new_context=checked_context_factory(config), restricts_nodes=restricts_nodes)
