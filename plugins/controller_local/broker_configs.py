"""Configuration of brokers: which changes of it are valid while they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tidelog.kernel.config import Alter, Config, comma_list
from tidelog.kernel.config.dynamic import check_broker_key, usable_settings
from tidelog.kernel.errors import ConfigError, InvalidConfig, InvalidRequest
from tidelog.kernel.metadata import ALL_BROKERS, ConfigOwner, MetadataDelta, MetadataImage
from tidelog.kernel.seams.features import DISABLED, ELR_VERSION

MIN_INSYNC_REPLICAS = "min.insync.replicas"


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
        resource = ConfigOwner.of_broker(node_id)
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

    def _check_together(self, image: MetadataImage, changed: ConfigOwner, after: Mapping[str, str]) -> None:
        """Check what contradicts other keys; a setting that could not be used before is left out."""
        of_broker, of_cluster = (
            usable_settings(self._config, after if resource == changed else image.config(resource))
            for resource in (ConfigOwner.of_broker(self._node_id), ALL_BROKERS)
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
        resource: ConfigOwner,
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
        if key is None:
            return
        try:
            if key.type.name == "list":
                comma_list().parse(text)
            if key.check_change is not None:
                key.check_change(cast("int", self._config.in_use(key)), cast("int", key.type.parse(text)))
        except ValueError as error:
            raise InvalidRequest(f"{name} = {key.shown(text)}: {error}") from None
