"""An ensemble of ZooKeeper, as clients name it instead of brokers: `zookeeper://host:port,host:port/path`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import attrs

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.broker_finder import BrokerFinder
    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.keystores.tls_stores import TlsStores
    from tidelog.plugins.zookeeper.connect_string import ConnectString
    from tidelog.plugins.zookeeper.kazoo_blocking import BlockingZooKeeper
    from tidelog.plugins.zookeeper.security import ZooKeeperSecurity

_SCHEME: Final = "zookeeper://"
_PEM_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_key_password")


def _without_scheme(text: str) -> str:
    return text.removeprefix(_SCHEME)


def _check_timeout(_settings: Any, attribute: attrs.Attribute[Any], value: int) -> None:
    if value < 1:
        raise ValueError(f"{attribute.name} is {value}, and has to be at least 1")


@attrs.frozen
class ZooKeeperEnsemble:
    """Servers of ZooKeeper, and how to use them; needs the extra `zookeeper`.

    Attributes:
        connect: `host:port` between commas, then a path if not everything is at the root
        session_timeout_ms: without a sign of life for so long a client's nodes are removed; ZooKeeper has
            limits for it. An answer that takes longer has failed.
        use_tls: connect with TLS, to the `secureClientPort` of the servers
        ssl_cafile: PEM file of the certificates that those of servers are checked with, None: the system's
        ssl_certfile, ssl_keyfile: PEM files of the client's own, None without one; a key may be in the first
        ssl_key_password: of the key
        ssl_stores: stores of PEM, PKCS12 or JKS as Kafka's keys name them, instead of the files
        ssl_check_hostname: whether a server's certificate has to name its host
        digest: `user:password` for access control lists of that scheme

    Raises:
        ValueError: the servers have another form, or an option has no effect.
        ModuleNotFoundError: kazoo is not installed.
    """

    connect: str = attrs.field(converter=_without_scheme)
    session_timeout_ms: int = attrs.field(default=6000, kw_only=True, validator=_check_timeout)
    use_tls: bool = attrs.field(default=False, kw_only=True)
    ssl_cafile: str | None = attrs.field(default=None, kw_only=True)
    ssl_certfile: str | None = attrs.field(default=None, kw_only=True)
    ssl_keyfile: str | None = attrs.field(default=None, kw_only=True)
    ssl_key_password: str | None = attrs.field(default=None, kw_only=True, repr=False)
    ssl_stores: TlsStores | None = attrs.field(default=None, kw_only=True)
    ssl_check_hostname: bool = attrs.field(default=True, kw_only=True)
    digest: str | None = attrs.field(default=None, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        # Here, and not where it is needed later, in a thread of the client.
        if find_spec("kazoo") is None:
            raise ModuleNotFoundError("ZooKeeper needs kazoo: pip install 'tidelog[zookeeper]'", name="kazoo")
        _ = self.place
        files = [name for name in _PEM_FILES if getattr(self, name) is not None]
        if self.ssl_stores is not None and files:
            raise ValueError(f"{files[0]} has no effect with ssl_stores")
        without = [*files, *(["ssl_stores"] if self.ssl_stores is not None else ())]
        if without and not self.use_tls:
            raise ValueError(f"{without[0]} has no effect without use_tls=True")

    @property
    def place(self) -> ConnectString:
        """Return the servers and the path."""
        # Late, as everything here: clients that name brokers load nothing of ZooKeeper.
        from tidelog.plugins.zookeeper.connect_string import parse_connect_string

        try:
            return parse_connect_string(self.connect)
        except ValueError as error:
            raise ValueError(f"the ensemble {self.connect!r} {error}") from None

    def client(self, engine: Engine) -> BlockingZooKeeper:
        """Return a client that calls back with the lock of the engine's driver; its requests block."""
        from tidelog.plugins.client.engine_loop import EngineLoop
        from tidelog.plugins.zookeeper.kazoo_blocking import BlockingZooKeeper

        loop = EngineLoop(engine)
        return BlockingZooKeeper(self.place, self.session_timeout_ms, loop, self._security())

    def _security(self) -> ZooKeeperSecurity:
        from tidelog.plugins.zookeeper.security import ZooKeeperSecurity

        new_context = self._new_context if self.use_tls else None
        return ZooKeeperSecurity(new_context=new_context, digest=self.digest)

    def _new_context(self) -> ssl.SSLContext:
        from tidelog.plugins.client.pem_files import context_of_files
        from tidelog.plugins.zookeeper.tls_contexts import context_of_stores

        if self.ssl_stores is not None:
            return context_of_stores(self.ssl_stores, checks_hostname=self.ssl_check_hostname)
        return context_of_files(self, checks_hostname=self.ssl_check_hostname)


BootstrapServers: TypeAlias = str | Iterable[str] | ZooKeeperEnsemble
"""Where a client finds its brokers: `host:port` of some, separated by commas or as a sequence, or a ZooKeeper
in which they are registered, as an ensemble or as `zookeeper://host:port,host:port/path`."""


def names_ensemble(bootstrap: BootstrapServers) -> TypeGuard[str]:
    """Return whether a text has the form of an ensemble."""
    return isinstance(bootstrap, str) and bootstrap.startswith(_SCHEME)


def ensemble_of(bootstrap: BootstrapServers) -> ZooKeeperEnsemble | None:
    """Return the ensemble that is named instead of brokers, None for brokers.

    Raises:
        ValueError, ModuleNotFoundError: see `ZooKeeperEnsemble`.
    """
    if isinstance(bootstrap, ZooKeeperEnsemble):
        return bootstrap
    if names_ensemble(bootstrap):
        return ZooKeeperEnsemble(bootstrap)
    return None


def new_finder(
    engine: Engine, ensemble: ZooKeeperEnsemble, found: Callable[[Sequence[Address]], None]
) -> BrokerFinder:
    """Return what finds the brokers of an engine in an ensemble, and imports kazoo."""
    from tidelog.plugins.client.broker_finder import BrokerFinder

    return BrokerFinder(engine, ensemble, found)
