"""Dynamic configuration of brokers, stored in the metadata.

As in Kafka, a value for this broker counts more than one for all brokers, and both count more than what the
broker was started with.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from tidelog.kernel.config import Alter, Config, comma_list
from tidelog.kernel.errors import ConfigError, InvalidConfig, InvalidRequest
from tidelog.kernel.events import BrokerEvents
from tidelog.kernel.metadata import ALL_BROKERS, ConfigResource, ImageChange, MetadataDelta, MetadataImage
from tidelog.kernel.seams.events import BrokerConfigChanged
from tidelog.kernel.seams.features import DISABLED, ELR_VERSION

_log = logging.getLogger(__name__)

MIN_INSYNC_REPLICAS = "min.insync.replicas"


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
            for resource in (ConfigResource.of_broker(self._node_id), ALL_BROKERS)
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


class BrokerConfigRules:
    """Decides changes of what is set for this broker, or for all brokers."""

    def __init__(self, config: Config, node_id: int) -> None:
        self._config = config
        self._node_id = node_id

    def decide(self, image: MetadataImage, node_id: int | None, alter: Alter) -> MetadataDelta:
        """Return the change; `alter` gives the new settings from the present ones.

        Raises:
            InvalidRequest: a key cannot be changed while the broker runs.
            InvalidConfig: an unknown key or a bad value.
            BrokerError: what `alter` raises.
        """
        resource = ConfigResource.of_broker(node_id)
        before = dict(image.config(resource))
        after = alter(before)
        self._check(before, after)
        if resource == ALL_BROKERS:
            self._check_scope(before, after)
        self._check_eligible_replicas(image, resource, before, after)
        if after == before:
            return MetadataDelta()
        self._check_together(image, resource, after)
        return MetadataDelta(configs={resource: after})

    def _check(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for name in sorted(before.keys() | after.keys()):
            text = after.get(name)
            if text != before.get(name):
                check_broker_key(self._config, name, text)
                if text is not None:
                    self._check_change(name, text)

    def _check_together(
        self, image: MetadataImage, changed: ConfigResource, after: Mapping[str, str]
    ) -> None:
        """Check what contradicts other keys; a setting that could not be used before is left out."""
        of_broker, of_cluster = (
            usable_settings(self._config, after if resource == changed else image.config(resource))
            for resource in (ConfigResource.of_broker(self._node_id), ALL_BROKERS)
        )
        try:
            self._config.check_dynamic(of_broker, of_cluster)
        except ConfigError as error:
            raise InvalidRequest(str(error)) from None

    def _check_scope(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for name, text in after.items():
            key = self._config.keys.find(name, "broker")
            if key is not None and key.one_broker and text != before.get(name):
                raise InvalidRequest(f"{name} cannot be set for all brokers; set it for one, by its id")

    def _check_eligible_replicas(
        self,
        image: MetadataImage,
        resource: ConfigResource,
        before: Mapping[str, str],
        after: Mapping[str, str],
    ) -> None:
        """With eligible leader replicas all brokers have one `min.insync.replicas` (KIP-966)."""
        value = after.get(MIN_INSYNC_REPLICAS)
        if value == before.get(MIN_INSYNC_REPLICAS):
            return
        if image.features.get(ELR_VERSION, DISABLED) == DISABLED:
            return
        if resource != ALL_BROKERS:
            raise InvalidConfig(
                f"{MIN_INSYNC_REPLICAS} cannot be set for one broker while {ELR_VERSION} is enabled; set it "
                "for all brokers"
            )
        if value is None:
            raise InvalidConfig(
                f"{MIN_INSYNC_REPLICAS} of all brokers cannot be removed while {ELR_VERSION} is enabled"
            )

    def _check_change(self, name: str, text: str) -> None:
        """Check what is no fault of a value that is stored already; the value itself is valid."""
        key = self._config.keys.find(name, "broker")
        try:
            if key is not None and key.type.name == "list":
                comma_list().parse(text)
            if key is not None and key.check_change is not None:
                key.check_change(cast("int", self._config.in_use(key)), cast("int", key.type.parse(text)))
        except ValueError as error:
            raise InvalidRequest(f"{name} = {text!r}: {error}") from None


def check_broker_key(config: Config, name: str, text: str | None) -> None:
    """Check that a key of the broker can have a value while it runs.

    Raises:
        InvalidRequest, InvalidConfig: it cannot.
    """
    key = config.keys.find(name, "broker")
    if key is not None and key.dynamic:
        try:
            if text is not None:
                key.type.parse(text)
        except ValueError as error:
            # As in Kafka, where the broker checks its own keys; those of topics are INVALID_CONFIG.
            raise InvalidRequest(f"{name} = {text!r}: {error}") from None
    elif text is not None:
        raise _refusal(config, name, text, known=key is not None)


def _refusal(config: Config, name: str, text: str, *, known: bool) -> InvalidRequest | InvalidConfig:
    if known:
        return InvalidRequest(f"{name} cannot be changed while the broker runs; set it at the start")
    judgement = config.keys.judge(name, text, "broker")
    if judgement is not None:
        return InvalidRequest(f"{name} {judgement.reason}")
    nearest = config.keys.nearest(name, "broker")
    return InvalidConfig(f"{name} is no key" + (f"; did you mean {nearest}?" if nearest else ""))


def usable_settings(
    config: Config,
    settings: Mapping[str, str],
    warn: Callable[[str, str, Exception], None] = lambda name, text, error: None,
) -> dict[str, str]:
    """Return the settings that can be used; of others `warn(name, text, error)` is called."""
    usable: dict[str, str] = {}
    for name, text in settings.items():
        try:
            check_broker_key(config, name, text)
        except (InvalidRequest, InvalidConfig) as error:
            warn(name, text, error)
        else:
            usable[name] = text
    return usable
