"""Metadata store in memory: topics, configuration, quotas, credentials and producer ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tidelog.kernel.ids import new_id
from tidelog.kernel.seams.client_quotas import QuotaChange, QuotaEntity
from tidelog.kernel.seams.features import HIGHEST_LEVELS, SupportedLevels
from tidelog.kernel.seams.metadata import (
    BrokerRegistration,
    MetadataContext,
    MetadataStore,
    MetadataStoreBase,
    TopicRecord,
)
from tidelog.kernel.seams.resource_configs import ResourceScope
from tidelog.kernel.seams.scram import CredentialKey, ScramCredential
from tidelog.kernel.seams.storage.directories import DataDirectories


class MemoryLevels:
    """`FeatureStore` in a dictionary; the epoch counts the changes."""

    supported: Mapping[str, SupportedLevels] = MappingProxyType({})

    def __init__(self) -> None:
        self.levels: dict[str, int] = dict(HIGHEST_LEVELS)
        self.epoch = 0

    def check(self, levels: Mapping[str, int]) -> None:
        """Do nothing: every level can be stored."""

    async def put(self, levels: Mapping[str, int]) -> None:
        """Change the levels of some features."""
        self.levels |= levels
        self.epoch += 1


class MemoryMetadata(MetadataStoreBase):
    """`MetadataStore` in dictionaries; the cluster id is the storage's where that has one."""

    def __init__(self) -> None:
        self.cluster_id = new_id()
        self._topics: dict[str, TopicRecord] = {}
        self._broker_configs: dict[int | None, Mapping[str, str]] = {}
        self._resource_configs: dict[tuple[ResourceScope, str], Mapping[str, str]] = {}
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}
        self._credentials: dict[CredentialKey, ScramCredential] = {}
        self._next_producer_id = 0
        self.features = MemoryLevels()

    def open(self, directories: DataDirectories | None) -> None:
        """Take over the cluster id of the storage's directories."""
        if directories is not None:
            self.cluster_id = directories.cluster_id

    def topics(self) -> Sequence[TopicRecord]:
        """Return all topics."""
        return list(self._topics.values())

    async def put_topics(self, *records: TopicRecord) -> None:
        """Add or replace topics."""
        self._topics |= {record.name: record for record in records}

    async def remove_topics(self, *names: str) -> None:
        """Remove topics, as far as there are any."""
        for name in names:
            self._topics.pop(name, None)

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """Return the dynamic configuration of a broker, or of all."""
        return self._broker_configs.get(node_id, {})

    async def put_broker_config(self, node_id: int | None, config: Mapping[str, str]) -> None:
        """Replace it."""
        self._broker_configs[node_id] = dict(config)

    def configured_resources(self, scope: ResourceScope) -> Sequence[str]:
        """Return the names of the resources that have a configuration."""
        return [name for kind, name in self._resource_configs if kind == scope]

    def resource_config(self, scope: ResourceScope, name: str) -> Mapping[str, str]:
        """Return the configuration of a resource."""
        return self._resource_configs.get((scope, name), {})

    async def put_resource_configs(
        self, scope: ResourceScope, configs: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Replace them."""
        for name, config in configs.items():
            self._resource_configs.pop((scope, name), None)
            if config:
                self._resource_configs[scope, name] = dict(config)

    def client_quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Return the quotas of each entity."""
        return self._quotas

    async def alter_client_quotas(self, changes: Sequence[QuotaChange]) -> None:
        """Set and remove quotas."""
        for entity, key, value in changes:
            quotas = self._quotas.setdefault(entity, {})
            if value is None:
                quotas.pop(key, None)
            else:
                quotas[key] = value
            if not quotas:
                del self._quotas[entity]

    def scram_credentials(self) -> Mapping[CredentialKey, ScramCredential]:
        """Return the credentials of all users."""
        return self._credentials

    async def alter_scram_credentials(self, changes: Mapping[CredentialKey, ScramCredential | None]) -> None:
        """Set and delete credentials."""
        for key, credential in changes.items():
            self._credentials.pop(key, None)
            if credential is not None:
                self._credentials[key] = credential

    async def allocate_producer_ids(self, count: int) -> range:
        """Return producer ids that were never returned before."""
        first = self._next_producer_id
        self._next_producer_id += count
        return range(first, first + count)

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Do nothing: no other broker ever reads this."""


class MemoryMetadataBackend:
    """Metadata in the memory of this process; each store that it creates begins empty."""

    name = "memory"
    durable = False

    def create(self, context: MetadataContext) -> MetadataStore:
        """Return a store without any topic."""
        return MemoryMetadata()
