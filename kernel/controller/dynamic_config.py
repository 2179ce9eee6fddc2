"""Dynamic configuration of brokers, stored in the metadata.

As in Kafka, a value for this broker counts more than one for all brokers, and both count more than what the
broker was started with.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

import trio

from tidelog.kernel.config import Alter, Config, comma_list
from tidelog.kernel.errors import ConfigError, InvalidConfig, InvalidRequest, StorageError
from tidelog.kernel.events import BrokerEvents
from tidelog.kernel.seams.events import BrokerConfigChanged
from tidelog.kernel.seams.features import DISABLED, ELR_VERSION
from tidelog.kernel.seams.metadata import MetadataStore
from tidelog.kernel.topics import Topics

_log = logging.getLogger(__name__)

ALL_BROKERS = None
MIN_INSYNC_REPLICAS = "min.insync.replicas"


class DynamicConfig:
    """Changes `Config` while the broker runs; topics use the new defaults at once."""

    def __init__(
        self,
        config: Config,
        metadata: MetadataStore,
        topics: Topics,
        node_id: int,
        events: BrokerEvents,
    ) -> None:
        self._events = events
        self._config = config
        self._metadata = metadata
        self._topics = topics
        self._node_id = node_id
        self._changing = trio.Lock()
        self._warned_of = set[tuple[str, str]]()

    def load(self) -> None:
        """Apply the stored configuration; settings that cannot be used are logged and ignored."""
        of_broker, of_cluster = (
            self._usable(self._metadata.broker_config(node), warn=True)
            for node in (self._node_id, ALL_BROKERS)
        )
        try:
            self._config.set_dynamic(of_broker, of_cluster)
        except ConfigError as error:
            _log.warning("what was set while the broker ran is not used: %s", error)
        self._events.publish(BrokerConfigChanged())

    def settings(self, node_id: int | None) -> Mapping[str, str]:
        """Return what is set for this broker, or with None for all brokers."""
        return self._metadata.broker_config(node_id)

    async def alter(self, node_id: int | None, alter: Alter, *, validate_only: bool = False) -> None:
        """Change what is set for this broker, or with None for all brokers, durably."""
        async with self._changing:
            before = dict(self._metadata.broker_config(node_id))
            after = alter(before)
            self._check(before, after)
            if node_id is ALL_BROKERS:
                self._check_scope(before, after)
            self._check_eligible_replicas(node_id, before, after)
            if after != before:
                self._check_together(node_id, after)
            if validate_only or after == before:
                return
            with trio.CancelScope(shield=True):
                try:
                    await self._metadata.put_broker_config(node_id, after)
                except (OSError, StorageError) as error:
                    raise StorageError(f"the broker's configuration cannot be changed: {error}") from error
            self.load()
            await self._topics.refresh_configs()
            _log.info("changed the configuration of %s", "all brokers" if node_id is None else "this broker")

    def _check(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for name in sorted(before.keys() | after.keys()):
            text = after.get(name)
            if text != before.get(name):
                self._check_key(name, text)
                if text is not None:
                    self._check_change(name, text)

    def _check_together(self, node_id: int | None, after: Mapping[str, str]) -> None:
        """Check what contradicts other keys; a setting that could not be used before is left out."""
        of_broker, of_cluster = (
            self._usable(after if node == node_id else self._metadata.broker_config(node), warn=False)
            for node in (self._node_id, ALL_BROKERS)
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
        self, node_id: int | None, before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        """With eligible leader replicas all brokers have one `min.insync.replicas` (KIP-966)."""
        value = after.get(MIN_INSYNC_REPLICAS)
        if value == before.get(MIN_INSYNC_REPLICAS):
            return
        if self._metadata.features.levels.get(ELR_VERSION, DISABLED) == DISABLED:
            return
        if node_id is not ALL_BROKERS:
            raise InvalidConfig(
                f"{MIN_INSYNC_REPLICAS} cannot be set for one broker while {ELR_VERSION} is enabled; set it "
                "for all brokers"
            )
        if value is None:
            raise InvalidConfig(
                f"{MIN_INSYNC_REPLICAS} of all brokers cannot be removed while {ELR_VERSION} is enabled"
            )

    def _check_key(self, name: str, text: str | None) -> None:
        key = self._config.keys.find(name, "broker")
        if key is not None and key.dynamic:
            try:
                if text is not None:
                    key.type.parse(text)
            except ValueError as error:
                # As in Kafka, where the broker checks its own keys; those of topics are INVALID_CONFIG.
                raise InvalidRequest(f"{name} = {text!r}: {error}") from None
        elif text is not None:
            raise self._refusal(name, text, known=key is not None)

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

    def _refusal(self, name: str, text: str, *, known: bool) -> InvalidRequest | InvalidConfig:
        if known:
            return InvalidRequest(f"{name} cannot be changed while the broker runs; set it at the start")
        judgement = self._config.keys.judge(name, text, "broker")
        if judgement is not None:
            return InvalidRequest(f"{name} {judgement.reason}")
        nearest = self._config.keys.nearest(name, "broker")
        return InvalidConfig(f"{name} is no key" + (f"; did you mean {nearest}?" if nearest else ""))

    def _usable(self, settings: Mapping[str, str], *, warn: bool) -> dict[str, str]:
        usable: dict[str, str] = {}
        for name, text in settings.items():
            try:
                self._check_key(name, text)
            except (InvalidRequest, InvalidConfig) as error:
                # Such as keys of TLS in a directory of Apache Kafka, once and not after each change.
                if warn and (name, text) not in self._warned_of:
                    self._warned_of.add((name, text))
                    _log.warning("set while the broker ran, not used: %s", error)
            else:
                usable[name] = text
        return usable
