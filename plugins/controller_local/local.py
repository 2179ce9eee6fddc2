"""The controller of a broker that decides for itself, since it is its own cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from tidelog.kernel.config.resource_settings import TITLES
from tidelog.kernel.errors import BrokerError, StorageError, UnknownTopicOrPartition
from tidelog.kernel.metadata import ConfigOwner, MetadataDelta, ResourceScope
from tidelog.kernel.pace import Pace
from tidelog.plugins.controller_local.acls import decide_deleted_acls, decide_new_acls
from tidelog.plugins.controller_local.broker_configs import BrokerConfigRules
from tidelog.plugins.controller_local.client_quotas import QuotaAlterations, decide_client_quotas
from tidelog.plugins.controller_local.delegation_tokens import DelegationTokenRules
from tidelog.plugins.controller_local.features import decide_levels
from tidelog.plugins.controller_local.resource_configs import ResourceConfigRules
from tidelog.plugins.controller_local.scram import decide_credentials
from tidelog.plugins.controller_local.topics import TopicRules, existing_topic

if TYPE_CHECKING:
    from tidelog.kernel.config import Alter
    from tidelog.kernel.metadata import MetadataImage, TopicImage
    from tidelog.kernel.metadata.acls import AclEntry, AclFilter
    from tidelog.kernel.metadata.client_quotas import QuotaEntity
    from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage, NewDelegationToken
    from tidelog.kernel.metadata.scram import CredentialKey, ScramUpsertion
    from tidelog.kernel.seams.controller import ControllerContext, NewPartitions, TopicSpec
    from tidelog.kernel.seams.features import FeatureUpdate

_log = logging.getLogger(__name__)

_NOTHING = MetadataDelta()


class LocalController:
    """`Controller` that commits what it decides at once; the broker has applied it on return."""

    def __init__(self, context: ControllerContext) -> None:
        config, node_id = context.config, context.node_id
        self._metadata = context.metadata
        self._supported_features = context.supported_features
        self._catch_up = context.catch_up
        self._storage = context.storage
        self._topic_rules = TopicRules(config, node_id, context.storage.check_topic)
        self._broker_rules = BrokerConfigRules(config, node_id)
        self._resource_rules = ResourceConfigRules(config)
        self._token_rules = DelegationTokenRules(config, context.clock)
        # What is decided must still be so when it is committed. Quotas may wait for names of hosts meanwhile.
        self._changing_topics = trio.Lock()
        self._configuring = trio.Lock()
        self._altering_quotas = trio.Lock()
        self._altering_credentials = trio.Lock()
        self._altering_acls = trio.Lock()
        self._altering_tokens = trio.Lock()
        self._allocating = trio.Lock()

    def load(self, image: MetadataImage) -> None:
        """Take over the image as a whole, before anything is decided."""
        self._topic_rules.load(image)

    def check_topic(self, new: TopicSpec) -> TopicImage:
        """Return the topic that `create_topics` would create."""
        return self._topic_rules.decide_topic(new).topic

    async def create_topics(self, wanted: Sequence[TopicSpec]) -> Sequence[TopicImage | BrokerError]:
        """Create topics in one change; for each return it, or why it was not created."""
        results: list[TopicImage | BrokerError] = []
        making: dict[int, NewPartitions] = {}
        pace = Pace()
        async with self._changing_topics:
            # Waiting for the lock may be cancelled. From here on names are taken and directories reserved,
            # and both have to be released again where a topic is not created.
            with trio.CancelScope(shield=True):
                for index, new in enumerate(wanted):
                    try:
                        making[index] = made = self._topic_rules.decide_topic(new)
                    except BrokerError as error:
                        results.append(error)
                    else:
                        results.append(made.topic)
                        # From here on no other topic of the request may have the name.
                        self._topic_rules.take_name(new.name)
                    await pace.turn()
                for index, refusal in (await self._create_partitions(making)).items():
                    name = making[index].topic.name
                    self._topic_rules.free_name(name)
                    results[index] = StorageError(f"topic {name!r} cannot be created: {refusal}")
        return results

    def check_partitions(self, name: str, count: int) -> int:
        """Return how many partitions `create_partitions` would add."""
        topic = self._topic_rules.check_growth(self._metadata.image, name, count)
        return count - len(topic.partitions)

    async def create_partitions(self, wanted: Sequence[tuple[str, int]]) -> Sequence[BrokerError | None]:
        """Add partitions to different topics in one change; for each return why it was refused."""
        results: list[BrokerError | None] = []
        making: dict[int, NewPartitions] = {}
        pace = Pace()
        async with self._changing_topics:
            with trio.CancelScope(shield=True):
                for index, (name, count) in enumerate(wanted):
                    try:
                        making[index] = self._topic_rules.decide_partitions(self._metadata.image, name, count)
                    except BrokerError as error:
                        results.append(error)
                    else:
                        results.append(None)
                    await pace.turn()
                for index, refusal in (await self._create_partitions(making)).items():
                    name, _ = wanted[index]
                    results[index] = StorageError(f"topic {name!r} gets no more partitions: {refusal}")
        return results

    async def _create_partitions(
        self, making: Mapping[int, NewPartitions]
    ) -> Mapping[int, OSError | StorageError]:
        """Commit new partitions with one change for all topics, and return those that could not be.

        If that fails, each topic is tried alone, so that only those fail for which the disk refuses.
        """
        if not making:
            return {}
        failed: dict[int, OSError | StorageError] = {}
        try:
            await self._commit_partitions([*making.values()])
        except (OSError, StorageError) as error:
            if len(making) == 1:
                return dict.fromkeys(making, error)
            for index, made in making.items():
                failed |= await self._create_partitions({index: made})
        await self._catch_up()
        return failed

    async def _commit_partitions(self, making: Sequence[NewPartitions]) -> None:
        # Before the commit, so that a disk that refuses fails the request, and no topic that exists already.
        topics = await self._storage.reserve(making)
        try:
            await self._metadata.commit(MetadataDelta.of_topics(*topics))
        except (OSError, StorageError):
            await self._storage.release(making)
            raise

    async def alter_topic_configs(
        self, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        """Change what different topics set for themselves, in one change; for each return why not."""
        results: list[BrokerError | None] = []
        altered: dict[int, TopicImage] = {}
        pace = Pace()
        async with self._changing_topics:
            image = self._metadata.image
            for index, (name, alter) in enumerate(changes):
                try:
                    topic = self._topic_rules.decide_config(image, name, alter)
                except BrokerError as error:
                    results.append(error)
                else:
                    results.append(None)
                    if not validate_only and topic is not image.topics[name]:
                        altered[index] = topic
                await pace.turn()
            if altered:
                refused = await self._try_to_commit(MetadataDelta.of_topics(*altered.values()))
                for index, topic in altered.items() if refused is not None else ():
                    results[index] = StorageError(f"topic {topic.name!r} cannot be changed: {refused}")
        return results

    async def delete_topics(self, names: Sequence[str]) -> Sequence[BrokerError | None]:
        """Delete topics in one change; for each return why it was refused."""
        results: list[BrokerError | None] = []
        deleted: dict[int, str] = {}
        async with self._changing_topics:
            for index, name in enumerate(names):
                try:
                    existing_topic(self._metadata.image, name)
                except UnknownTopicOrPartition as error:
                    results.append(error)
                else:
                    results.append(None)
                    deleted[index] = name
            if deleted:
                delta = MetadataDelta(topics=dict.fromkeys(deleted.values()))
                refused = await self._try_to_commit(delta)
                for index, name in deleted.items():
                    if refused is None:
                        self._topic_rules.free_name(name)
                    else:
                        results[index] = StorageError(f"topic {name!r} cannot be deleted: {refused}")
        return results

    async def _try_to_commit(self, delta: MetadataDelta) -> OSError | StorageError | None:
        """Commit a change of topics, and have the broker follow it; return why the disk refused."""
        with trio.CancelScope(shield=True):
            try:
                await self._metadata.commit(delta)
            except (OSError, StorageError) as error:
                return error
            await self._catch_up()
        return None

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
                    error if ConfigOwner(scope, name) in delta.configs else result
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

    async def create_acls(self, entries: Sequence[AclEntry]) -> Sequence[BrokerError | None]:
        """Add access control entries; for each return why it was refused."""
        async with self._altering_acls:
            delta, results = await decide_new_acls(self._metadata.image, entries)
            if delta.acls:
                await self._commit(delta, "access control entries cannot be added")
                _log.info("added %d access control entries", len(delta.acls))
        return results

    async def delete_acls(self, filters: Sequence[AclFilter]) -> Sequence[Sequence[AclEntry] | BrokerError]:
        """Delete access control entries; for each filter return those that it matched."""
        async with self._altering_acls:
            delta, results = await decide_deleted_acls(self._metadata.image, filters)
            if delta.acls:
                await self._commit(delta, "access control entries cannot be deleted")
                _log.info("deleted %d access control entries", len(delta.acls))
        return results

    async def create_delegation_token(self, new: NewDelegationToken) -> tuple[str, DelegationTokenImage]:
        """Create a delegation token; return its id and the token."""
        async with self._altering_tokens:
            delta, token_id, token = await self._token_rules.decide_creation(self._metadata.image, new)
            await self._commit(delta, "delegation tokens cannot be created")
        _log.info("created the delegation token %s of %s for %s", token_id, token.owner, token.requester)
        return token_id, token

    async def renew_delegation_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Move the expiry of the token with this secret; return when it expires now."""
        async with self._altering_tokens:
            rules, image = self._token_rules, self._metadata.image
            delta, expires_ms = await rules.decide_renewal(image, hmac, principal, period_ms)
            await self._commit(delta, "delegation tokens cannot be renewed")
        _log.info("%s renewed the delegation token %s", principal, *delta.tokens)
        return expires_ms

    async def expire_delegation_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Have the token with this secret expire in `period_ms`, or remove it now if that is negative."""
        async with self._altering_tokens:
            rules, image = self._token_rules, self._metadata.image
            delta, expires_ms = await rules.decide_expiry(image, hmac, principal, period_ms)
            await self._commit(delta, "delegation tokens cannot be changed")
        _log.info("%s changed the expiry of the delegation token %s", principal, *delta.tokens)
        return expires_ms

    async def remove_expired_delegation_tokens(self) -> None:
        """Remove the delegation tokens which have expired, in one change."""
        async with self._altering_tokens:
            delta = await self._token_rules.decide_removal(self._metadata.image)
            if delta.tokens:
                await self._commit(delta, "delegation tokens cannot be removed")
                _log.info("removed %d delegation tokens that have expired", len(delta.tokens))

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        """Change all of these levels or none."""
        async with self._configuring:
            delta = decide_levels(self._metadata.image, self._supported_features, updates)
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
            # Before any is returned: after a crash none may be returned a second time.
            await self._commit(delta, "no producer ids can be allocated")
            return range(first, first + count)

    async def _commit(self, delta: MetadataDelta, refusal: str) -> None:
        """Commit a change, and have the broker follow it, whether or not the caller is cancelled.

        Raises:
            StorageError: the disk refused.
        """
        error = await self._try_to_commit(delta)
        if error is not None:
            raise StorageError(f"{refusal}: {error}") from error
