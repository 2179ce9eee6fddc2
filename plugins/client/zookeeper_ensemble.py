"""An ensemble of ZooKeeper, as clients name it instead of brokers: `zookeeper://host:port,host:port/path`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.broker_finder import BrokerFinder
    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.zookeeper.connect_string import ConnectString
    from tidelog.plugins.zookeeper.kazoo_blocking import BlockingZooKeeper

_SCHEME: Final = "zookeeper://"


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

    Raises:
        ValueError: the servers have another form.
        ModuleNotFoundError: kazoo is not installed.
    """

    connect: str = attrs.field(converter=_without_scheme)
    session_timeout_ms: int = attrs.field(default=6000, kw_only=True, validator=_check_timeout)

    def __attrs_post_init__(self) -> None:
        # Here, and not where it is needed later, in a thread of the client.
        if find_spec("kazoo") is None:
            raise ModuleNotFoundError("ZooKeeper needs kazoo: pip install 'tidelog[zookeeper]'", name="kazoo")
        _ = self.place

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

        return BlockingZooKeeper(self.place, self.session_timeout_ms, EngineLoop(engine))


BootstrapServers: TypeAlias = str | Iterable[str] | ZooKeeperEnsemble
"""Where a client finds its brokers: `host:port` of some, separated by commas or as a sequence, or a ZooKeeper
in which they are registered, as an ensemble or as `zookeeper://host:port,host:port/path`."""


def ensemble_of(bootstrap: BootstrapServers) -> ZooKeeperEnsemble | None:
    """Return the ensemble that is named instead of brokers, None for brokers.

    Raises:
        ValueError, ModuleNotFoundError: see `ZooKeeperEnsemble`.
    """
    if isinstance(bootstrap, ZooKeeperEnsemble):
        return bootstrap
    if isinstance(bootstrap, str) and bootstrap.startswith(_SCHEME):
        return ZooKeeperEnsemble(bootstrap)
    return None


def new_finder(
    engine: Engine, ensemble: ZooKeeperEnsemble, found: Callable[[Sequence[Address]], None]
) -> BrokerFinder:
    """Return what finds the brokers of an engine in an ensemble, and imports kazoo."""
    from tidelog.plugins.client.broker_finder import BrokerFinder

    return BrokerFinder(engine, ensemble, found)
