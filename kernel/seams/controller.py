"""The controller seam: who decides what becomes true of the cluster, chosen by the key `controller`.

A controller validates a request against the metadata image, and commits what it decides; it opens no file.
The image follows, and the parts of the broker follow the image: when a method returns, they have the change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.config import Alter, Config, TopicConfig
    from tidelog.kernel.errors import BrokerError
    from tidelog.kernel.metadata import MetadataImage, ResourceScope, TopicImage
    from tidelog.kernel.metadata.acls import AclEntry, AclFilter
    from tidelog.kernel.metadata.client_quotas import QuotaEntity
    from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage, NewDelegationToken
    from tidelog.kernel.metadata.scram import CredentialKey, ScramUpsertion
    from tidelog.kernel.seams.features import FeatureUpdate, SupportedLevels
    from tidelog.kernel.seams.metadata import MetadataStore


@attrs.frozen
class TopicSpec:
    """A topic to create; counts of -1 mean the broker's defaults.

    `is_registered`: a part of the broker declared it; settings that no part of it reads have no effect.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = attrs.field(factory=dict[str, str])
    is_registered: bool = False


class NewPartitions(NamedTuple):
    """The partitions of a topic from number `first` on, which are new; `config` is in force for it."""

    topic: TopicImage
    config: TopicConfig
    first: int = 0


class PartitionReservations(Protocol):
    """What a controller asks of the storage of its broker before it commits new partitions."""

    def check_topic(self, config: TopicConfig) -> None:
        """Check that the storage supports the configuration of a topic, see `Storage.check_topic`."""
        ...

    async def reserve(self, wanted: Sequence[NewPartitions]) -> Sequence[TopicImage]:
        """Reserve storage for new partitions; return the topics with the leader epochs of these.

        Raises:
            OSError, StorageError: the disk refused; nothing is left.
        """
        ...

    async def release(self, wanted: Sequence[NewPartitions]) -> None:
        """Drop what was reserved and not committed."""
        ...


class Controller(Protocol):
    """Decides changes of the metadata. With `validate_only` a change is only decided.

    Each method raises `StorageError` if what it decided cannot be made durable; all is as before then.
    """

    def load(self, image: MetadataImage) -> None:
        """Take over the image as a whole, before anything is decided."""
        ...

    def check_topic(self, new: TopicSpec) -> TopicImage:
        """Return the topic that `create_topics` would create.

        Raises:
            InvalidTopic, TopicAlreadyExists, InvalidPartitions, InvalidReplicationFactor, InvalidTopicConfig
            InvalidRequest: the name is the broker's own.
        """
        ...

    async def create_topics(self, wanted: Sequence[TopicSpec]) -> Sequence[TopicImage | BrokerError]:
        """Create topics in one change; for each return it, or what `check_topic` raises or StorageError.

        Cancelling the caller does not interrupt a creation that has begun.
        """
        ...

    def check_partitions(self, name: str, count: int) -> int:
        """Return how many partitions `create_partitions` would add to a topic, so that it has `count`.

        Raises:
            UnknownTopicOrPartition, InvalidRequest, InvalidPartitions: it cannot have that many.
        """
        ...

    async def create_partitions(self, wanted: Sequence[tuple[str, int]]) -> Sequence[BrokerError | None]:
        """Give different topics more partitions in one change.

        For each return None, or what `check_partitions` raises or StorageError.
        """
        ...

    async def alter_topic_configs(
        self, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        """Change what different topics set for themselves, in one change; `alter` gives it from what is set.

        For each return None, or UnknownTopicOrPartition, InvalidTopicConfig (an unknown key or a bad value
        is new), what `alter` raises, or StorageError.
        """
        ...

    async def delete_topics(self, names: Sequence[str]) -> Sequence[BrokerError | None]:
        """Delete topics in one change; for each return None, or UnknownTopicOrPartition or StorageError."""
        ...

    async def alter_broker_config(
        self, node_id: int | None, alter: Alter, *, validate_only: bool = False
    ) -> None:
        """Change what is set for a broker, or with None for all; `alter` gives it from what is set.

        Raises:
            InvalidRequest: a key cannot be changed while the broker runs.
            InvalidConfig: an unknown key or a bad value.
            BrokerError: what `alter` raises.
        """
        ...

    async def alter_resource_configs(
        self, scope: ResourceScope, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        """Change what is set for different groups or client metrics subscriptions, in one change.

        For each return None, or InvalidRequest (the name is empty), InvalidConfig (an unknown key or a bad
        value is new), or what `alter` raises.
        """
        ...

    async def alter_client_quotas(
        self, alterations: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> Mapping[QuotaEntity, BrokerError]:
        """Set the quotas of entities, and remove those whose value is None.

        Returns:
            InvalidRequest of each entity that is refused, of which nothing is changed.
        """
        ...

    async def alter_scram_credentials(
        self, deletions: Sequence[CredentialKey], upsertions: Sequence[ScramUpsertion]
    ) -> Mapping[str, BrokerError | None]:
        """Delete and set credentials; return the result of each user, None for a success.

        A user can be changed once only: DuplicateResource otherwise. Other errors of a user are
        UnacceptableCredential, UnsupportedSaslMechanism and, of a deletion, ResourceNotFound.
        """
        ...

    async def create_acls(self, entries: Sequence[AclEntry]) -> Sequence[BrokerError | None]:
        """Add access control entries in one change; one that is there already is a success.

        For each return None, or InvalidRequest: a field has a value that no entry can have.
        """
        ...

    async def delete_acls(self, filters: Sequence[AclFilter]) -> Sequence[Sequence[AclEntry] | BrokerError]:
        """Delete the entries that filters match, in one change.

        For each return the entries that it matched, or InvalidRequest: a field has a value of no filter.
        """
        ...

    async def create_delegation_token(self, new: NewDelegationToken) -> tuple[str, DelegationTokenImage]:
        """Create a delegation token; return its id and the token.

        Raises:
            DelegationTokenAuthDisabled: `delegation.token.secret.key` is not set.
            InvalidPrincipalType: a renewer is no user.
            InvalidRequest, PolicyViolation: it has too many renewers, or its requester too many tokens.
        """
        ...

    async def renew_delegation_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Move the expiry of the token with this secret; return when it expires now.

        That is in `period_ms`, or with 0 or less in `delegation.token.expiry.time.ms`, which is the longest,
        too; and never after the end of its lifetime.

        Raises:
            DelegationTokenAuthDisabled: `delegation.token.secret.key` is not set.
            DelegationTokenNotFound, DelegationTokenExpired: there is no such token (any more).
            DelegationTokenOwnerMismatch: the principal is neither its owner nor one of its renewers.
        """
        ...

    async def expire_delegation_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Have the token with this secret expire in `period_ms`, or remove it now if that is negative.

        Return when it expires.

        Raises:
            BrokerError: as `renew_delegation_token`; one that has expired can be removed.
        """
        ...

    async def remove_expired_delegation_tokens(self) -> None:
        """Remove the delegation tokens which have expired, in one change."""
        ...

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        """Change all of these levels or none.

        Raises:
            InvalidUpdateVersion: a level is not supported, or its upgrade type does not permit the change.
        """
        ...

    async def allocate_producer_ids(self, count: int) -> range:
        """Return producer ids that were never returned before."""
        ...


@attrs.frozen
class ControllerContext:
    """What a controller may use of its broker.

    `supported_features` are those of the broker, `storage` reserves room for new partitions, and `catch_up()`
    returns when the broker has applied what was committed to `metadata`. `backend(name)` is another kind of
    controller, for one that wraps it. `clock` returns milliseconds since the epoch.
    """

    config: Config
    node_id: int
    metadata: MetadataStore
    supported_features: Mapping[str, SupportedLevels]
    storage: PartitionReservations
    catch_up: Callable[[], Awaitable[None]]
    backend: Callable[[str], ControllerBackend]
    clock: Clock


class ControllerBackend(Protocol):
    """A kind of controller, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that the key `controller` chooses it by."""
        ...

    def create(self, context: ControllerContext) -> Controller:
        """Return a controller that has loaded no image yet."""
        ...
