"""The mirrors of a broker: each copies a source into the broker, as a client of its own listener."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.config.config import DEFAULT_CODEC
from tidelog.kernel.config.listeners import format_address
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.tasks import BackgroundTask, LifespanTask
from tidelog.plugins.mirror.connected import connected
from tidelog.plugins.mirror.errors import MirrorRefused
from tidelog.plugins.mirror.ledger import UnreadableLedger
from tidelog.plugins.mirror.statistics import FAILED, MirrorStatistics
from tidelog.plugins.mirror.status import mirror_status_file, publish_mirror_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.tasks import Lifespan
    from tidelog.plugins.mirror.settings import MirrorSettings

_log: Final = logging.getLogger(__name__)


def mirror_task(broker: BrokerContext, mirrors: Sequence[MirrorSettings]) -> BackgroundTask:
    """Return the task that runs the mirrors of a broker."""

    async def run(lifespan: Lifespan) -> None:
        targets = [own_address(broker, each.target_security.security_protocol) for each in mirrors]
        statistics = [MirrorStatistics(each.name, each.bootstrap) for each in mirrors]
        # The broker serves no client before this, so mirrors connect as soon as it does.
        lifespan.ready()
        async with trio.open_nursery() as nursery:
            for settings, target, figures in zip(mirrors, targets, statistics, strict=True):
                nursery.start_soon(_run_one, settings, target, figures)
            file = mirror_status_file(broker.config)
            if file is not None:
                nursery.start_soon(publish_mirror_status, file, statistics)
            await lifespan.wait_stopping()
            nursery.cancel_scope.cancel()

    return LifespanTask("mirrors", run)


async def _run_one(settings: MirrorSettings, target: str, statistics: MirrorStatistics) -> None:
    async with connected(settings, target, statistics) as mirror:
        try:
            await mirror.run()
        except (MirrorRefused, UnreadableLedger) as error:
            _log.error("mirror %s stops: %s", settings.name, error)
            statistics.state, statistics.last_error = FAILED, str(error)


def own_address(broker: BrokerContext, security_protocol: str) -> str:
    """Return the address of the broker's first listener for Kafka's protocol with a security protocol.

    Raises:
        ConfigError: there is none.
    """
    for each in broker.config.served_listeners():
        if each.security_protocol == security_protocol and each.codec == DEFAULT_CODEC:
            at = broker.cluster.this_broker(each.name)
            return format_address(at.host, at.port)
    raise ConfigError(
        f"A mirror connects to its own broker by a listener {security_protocol}, and `listeners` has none; "
        "to use another one set target.security.protocol and the keys that go with it in the mirror's table."
    )
