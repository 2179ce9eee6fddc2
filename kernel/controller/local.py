"""The controller of a broker that decides for itself, since it is its own cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from tidelog.kernel.controller.client_quotas import QuotaAlterations, decide_client_quotas
from tidelog.kernel.controller.dynamic_config import BrokerConfigRules
from tidelog.kernel.controller.features import decide_levels
from tidelog.kernel.controller.resource_configs import TITLES, ResourceConfigRules
from tidelog.kernel.controller.scram import decide_credentials
from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.metadata import ConfigResource, MetadataDelta, ResourceScope
from tidelog.kernel.metadata.publisher import MetadataPublisher

if TYPE_CHECKING:
    from tidelog.kernel.config import Alter, Config
    from tidelog.kernel.metadata.client_quotas import QuotaEntity
    from tidelog.kernel.metadata.scram import CredentialKey, ScramUpsertion
    from tidelog.kernel.seams.features import Features, FeatureUpdate
    from tidelog.kernel.seams.metadata import MetadataStore

_log = logging.getLogger(__name__)

_NOTHING = MetadataDelta()


class LocalController:
    """`Controller` that commits what it decides at once; the broker has applied it on return."""

    def __init__(
        self,
        config: Config,
        node_id: int,
        metadata: MetadataStore,
        publisher: MetadataPublisher,
        features: Features,
    ) -> None:
        self._metadata = metadata
        self._publisher = publisher
        self._features = features
        self._broker_rules = BrokerConfigRules(config, node_id)
        self._resource_rules = ResourceConfigRules(config)
        # What is decided must still be so when it is committed. Quotas may wait for names of hosts meanwhile.
        self._configuring = trio.Lock()
        self._altering_quotas = trio.Lock()
        self._altering_credentials = trio.Lock()
        self._allocating = trio.Lock()

    async def alter_broker_config(
        self, node_id: int | None, alter: Alter, *, validate_only: bool = False
    ) -> None:
        """Change what is set for this broker, or with None for all brokers."""
        async with self._configuring:
            delta = self._broker_rules.decide(self._metadata.image, node_id, alter)
            if validate_only or delta == _NOTHING:
                return
            await self._commit(delta, "the broker's configuration cannot be changed")
            _log.info("changed the configuration of %s", "all brokers" if node_id is None else "this broker")

    async def alter_resource_configs(
        self, scope: ResourceScope, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        """Change what is set for resources, in one change; for each return why it was refused."""
        async with self._configuring:
            delta, results = await self._resource_rules.decide(self._metadata.image, scope, changes)
            if validate_only or delta == _NOTHING:
                return results
            try:
                await self._commit(delta, f"a {TITLES[scope]} cannot be configured")
            except StorageError as error:
                return [
                    error if ConfigResource(scope, name) in delta.configs else result
                    for (name, _), result in zip(changes, results, strict=True)
                ]
            for _, name in delta.configs:
                _log.info("changed the configuration of the %s %r", TITLES[scope], name)
        return results

    async def alter_client_quotas(
        self, alterations: QuotaAlterations, *, validate_only: bool = False
    ) -> Mapping[QuotaEntity, BrokerError]:
        """Set and remove quotas; return the errors of entities that are refused."""
        async with self._altering_quotas:
            delta, refused = await decide_client_quotas(self._metadata.image, alterations)
            if delta.quotas and not validate_only:
                await self._commit(delta, "client quotas cannot be changed")
                _log.info("changed client quotas of %d entities", len(delta.quotas))
        return refused

    async def alter_scram_credentials(
        self, deletions: Sequence[CredentialKey], upsertions: Sequence[ScramUpsertion]
    ) -> Mapping[str, BrokerError | None]:
        """Delete and set credentials; return the result of each user."""
        async with self._altering_credentials:
            delta, results = await decide_credentials(self._metadata.image, deletions, upsertions)
            if delta.credentials:
                await self._commit(delta, "SCRAM credentials cannot be changed")
                _log.info("changed the SCRAM credentials of %d users", len(delta.credentials))
        return results

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        """Change all of these levels or none."""
        async with self._configuring:
            delta = decide_levels(self._metadata.image, self._features.supported, updates)
            self._metadata.check_levels(delta.features)
            if delta == _NOTHING or validate_only:
                return
            await self._commit(delta, "the levels of features cannot be changed")
            for name, level in delta.features.items():
                _log.info("feature %s is at level %d now", name, level)

    async def allocate_producer_ids(self, count: int) -> range:
        """Return producer ids that were never returned before."""
        async with self._allocating:
            first = self._metadata.image.next_producer_id
            delta = MetadataDelta(next_producer_id=first + count)
            await self._commit(delta, "no producer ids can be allocated")
            return range(first, first + count)

    async def _commit(self, delta: MetadataDelta, refusal: str) -> None:
        """Commit a change, and have the broker follow it, whether or not the caller is cancelled.

        Raises:
            StorageError: the disk refused.
        """
        with trio.CancelScope(shield=True):
            try:
                await self._metadata.commit(delta)
            except (OSError, StorageError) as error:
                raise StorageError(f"{refusal}: {error}") from error
            await self._publisher.catch_up()
