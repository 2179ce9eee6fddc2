"""Dynamic configuration of brokers, stored in the metadata.

As in Kafka, a value for this broker counts more than one for all brokers, and both count more than what the
broker was started with.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from tidelog.kernel.config import Config
from tidelog.kernel.config.dynamic import usable_settings
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.events import BrokerEvents
from tidelog.kernel.metadata import ALL_BROKERS, ConfigOwner, ImageChange, MetadataImage
from tidelog.kernel.seams.events import BrokerConfigChanged

_log = logging.getLogger(__name__)


class DynamicConfig:
    """Applies what is set in the image to `Config` while the broker runs; topics use new defaults at once."""

    def __init__(
        self,
        config: Config,
        node_id: int,
        events: BrokerEvents,
        refresh_topics: Callable[[], Awaitable[None]],
    ) -> None:
        self._events = events
        self._config = config
        self._node_id = node_id
        self._refresh_topics = refresh_topics
        self._warned_of = set[tuple[str, str]]()

    def load(self, image: MetadataImage) -> None:
        """Apply the stored configuration; settings that cannot be used are logged and ignored."""
        of_broker, of_cluster = (
            usable_settings(self._config, image.config(resource), self._warn)
            for resource in (ConfigOwner.of_broker(self._node_id), ALL_BROKERS)
        )
        try:
            self._config.set_dynamic(of_broker, of_cluster)
        except ConfigError as error:
            _log.warning("what was set while the broker ran is not used: %s", error)
        self._events.publish(BrokerConfigChanged())

    async def follow(self, change: ImageChange) -> None:
        """Apply what a delta sets for this broker, or for all."""
        if change.delta.configures_broker(self._node_id):
            self.load(change.image)
            await self._refresh_topics()

    def _warn(self, name: str, text: str, error: Exception) -> None:
        # Such as keys of TLS in a directory of Apache Kafka, once and not after each change.
        if (name, text) not in self._warned_of:
            self._warned_of.add((name, text))
            _log.warning("set while the broker ran, not used: %s", error)
