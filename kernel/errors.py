"""The broker's own errors: one small tree that codecs translate to their wire's codes.

`BrokerError` and its subclasses describe why a request fails; they know no wire code. A codec has one table
from class to code. Errors of the start (`ConfigError`, `PluginError`, `StorageError`) are for the user at the
console: they name the cause and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TidelogError(Exception):
    """Root of every error that tidelog raises on purpose."""


class ConfigError(TidelogError):
    """A configuration key or value is wrong; the message names it and the nearest valid one."""


class PluginError(TidelogError):
    """A plugin is missing, doubled or broken; the message lists what is installed.

    `plugin` is the name of the plugin without which the rest can be used, None if there is no such one.
    """

    def __init__(self, message: str, plugin: str | None = None) -> None:
        super().__init__(message)
        self.plugin = plugin


class BrokerError(TidelogError):
    """A request cannot be served; codecs answer it with the code of the class."""


class StorageError(BrokerError):
    """The disk below a partition failed; the partition is offline until a restart."""


class LogBusy(StorageError):
    """Segments cannot be rewritten because of another operation on the log; the message names it."""


class LogDirNotFound(BrokerError):
    """The path is none of the broker's log directories."""


class InvalidRequest(BrokerError):
    """The request contradicts itself or breaks a limit."""


class UnknownTopicOrPartition(BrokerError):
    """No such topic, or no such partition of it."""


class UnknownTopicId(BrokerError):
    """No topic has this id."""


class TopicAlreadyExists(BrokerError):
    """A topic of that name exists."""


class InvalidTopic(BrokerError):
    """The name is not a legal topic name."""


class InvalidPartitions(BrokerError):
    """The number of partitions is not acceptable."""


class InvalidReplicationFactor(BrokerError):
    """More replicas are requested than there are brokers, or fewer than one."""


class InvalidReplicaAssignment(BrokerError):
    """A manual assignment names brokers or partitions that cannot be."""


class InvalidConfig(BrokerError):
    """A configuration names an unknown key or a value that it cannot have."""


class InvalidTopicConfig(InvalidConfig):
    """A topic's configuration names an unknown key or a value out of range."""


class PolicyViolation(BrokerError):
    """The request exceeds a limit of this broker."""


class ThrottlingQuotaExceeded(BrokerError):
    """The client has created and deleted more partitions than its quota has (KIP-599)."""


class TopicDeletionDisabled(BrokerError):
    """`delete.topic.enable` is false."""


class OffsetOutOfRange(BrokerError):
    """The offset is below the log start offset or above the log end offset."""


class OffsetBelowLogStart(OffsetOutOfRange):
    """Records from the offset on were deleted: the log starts at `log_start_offset`."""

    def __init__(self, message: str, log_start_offset: int) -> None:
        super().__init__(message)
        self.log_start_offset = log_start_offset


class CorruptBatch(BrokerError):
    """A batch's bytes do not agree with its lengths or its CRC."""


class RecordError(NamedTuple):
    """What is wrong with one record of a batch, whose records are counted from 0 (KIP-467)."""

    batch_index: int
    message: str


class RecordsRefused(BrokerError):
    """A batch is refused because of the records in `record_errors`."""

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class InvalidRecord(RecordsRefused):
    """A batch is intact but breaks a rule of the log."""


class UnsupportedMessageFormat(BrokerError):
    """The batch's magic is not one that this log can take."""


class UnsupportedCompression(BrokerError):
    """The compression codec is unknown, or the client's protocol is too old for it."""


class MessageTooLarge(BrokerError):
    """The batch is larger than `max.message.bytes`."""


class InterceptorFailed(BrokerError):
    """An interceptor raised an error that is no refusal, or did not answer as it has to."""


class InterceptorTimedOut(BrokerError):
    """An interceptor took longer than `timeout.ms` for one batch; a retry may succeed."""


class BatchTooLarge(BrokerError):
    """The batch is larger than a whole segment may be."""


class InvalidTimestamp(RecordsRefused):
    """The batch's timestamps are further from now than the topic allows."""


class InvalidRequiredAcks(BrokerError):
    """`acks` is none of -1, 0 and 1."""


class OutOfOrderSequence(BrokerError):
    """An idempotent producer's batch does not follow its last one."""


class InvalidProducerEpoch(BrokerError):
    """A newer instance of this producer has taken over."""


class InvalidTransactionState(BrokerError):
    """A transactional batch outside a transaction that this broker coordinates."""


class TransactionCoordinatorFenced(BrokerError):
    """A newer coordinator has already decided about a transaction of this producer."""


class NotLeaderOrFollower(BrokerError):
    """Another broker leads the partition; its clients have to ask who does."""


class FencedLeaderEpoch(BrokerError):
    """The client's leader epoch is older than the partition's."""


class UnknownLeaderEpoch(BrokerError):
    """The client's leader epoch is newer than the partition's."""


class CoordinatorNotAvailable(BrokerError):
    """No plugin coordinates this kind of group or transaction."""


class NotCoordinator(BrokerError):
    """The broker is not (yet) the coordinator of that group or transactional id."""


class CoordinatorLoadInProgress(BrokerError):
    """The state of that group or transactional id is still being read."""


class InvalidGroupId(BrokerError):
    """The group's id is empty, or null where it must not be."""


class GroupIdNotFound(BrokerError):
    """There is no group of that id."""


class NonEmptyGroup(BrokerError):
    """The group has members, and the request needs one without."""


class GroupSubscribedToTopic(BrokerError):
    """The group is subscribed to the topic whose offsets are to be deleted."""


class UnknownMemberId(BrokerError):
    """The group has no member of that id."""


class IllegalGeneration(BrokerError):
    """The member's generation is not the group's."""


class FencedInstanceId(BrokerError):
    """Another member has taken over the group instance id."""


class RebalanceInProgress(BrokerError):
    """The group is rebalancing; the member has to join again."""


class StaleMemberEpoch(BrokerError):
    """The member epoch of the request is not the member's."""


class OffsetMetadataTooLarge(BrokerError):
    """The metadata of an offset commit is longer than `offset.metadata.max.bytes`."""


class InvalidCommitOffsetSize(BrokerError):
    """The offsets to commit do not fit in a batch."""


class UnstableOffsetCommit(BrokerError):
    """A transaction that has not ended may still move the offset."""


class UnsupportedVersion(BrokerError):
    """The request asks for something that its protocol version does not have."""


class ProducerFenced(BrokerError):
    """A newer instance with the same transactional id has taken over."""


class InvalidProducerIdMapping(BrokerError):
    """The transactional id is unknown here, or belongs to another producer id."""


class ConcurrentTransactions(BrokerError):
    """The previous transaction is still being completed; retry soon."""


class InvalidTransactionTimeout(BrokerError):
    """The transaction timeout is not positive, or above `transaction.max.timeout.ms`."""


class TransactionalIdNotFound(BrokerError):
    """No transaction coordinator knows this transactional id."""


class DuplicateResource(BrokerError):
    """The request names a resource more than once."""


class ResourceNotFound(BrokerError):
    """There is no such resource."""


class UnacceptableCredential(BrokerError):
    """A credential breaks a limit, such as that of its iterations."""


class UnsupportedSaslMechanism(BrokerError):
    """The SASL mechanism is unknown."""


class IllegalSaslState(BrokerError):
    """A request of SASL came where none is expected."""


class TransactionAbortable(BrokerError):
    """The transaction can only be aborted; then the producer may continue."""


class OperationNotAttempted(BrokerError):
    """Nothing was done here because another part of the request was refused."""


class InvalidRegularExpression(BrokerError):
    """The pattern is not a regular expression that this broker evaluates."""


class InconsistentGroupProtocol(BrokerError):
    """The member's protocols do not fit those of the group."""


class InvalidSessionTimeout(BrokerError):
    """The session timeout is outside `group.min.session.timeout.ms` to `group.max.session.timeout.ms`."""


class MemberIdRequired(BrokerError):
    """A new member is to join again with the id that it is given here."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as {member_id!r}")
        self.member_id = member_id


class GroupMaxSizeReached(BrokerError):
    """The group has as many members as it may have."""


class FencedMemberEpoch(BrokerError):
    """The member epoch is not the member's; it has to revoke its partitions and join again."""


class UnreleasedInstanceId(BrokerError):
    """The instance id is in use by a member that has not left."""


class UnsupportedAssignor(BrokerError):
    """No server-side assignor of this name is offered."""


class NotEnoughReplicas(BrokerError):
    """No batch can be appended at the moment; retry soon."""


class TopicAuthorizationFailed(BrokerError):
    """The principal may not do this with the topic."""


class GroupAuthorizationFailed(BrokerError):
    """The principal may not do this with the group."""


class ClusterAuthorizationFailed(BrokerError):
    """The principal may not do this with the cluster."""


class DelegationTokenAuthDisabled(BrokerError):
    """Delegation tokens are not enabled: `delegation.token.secret.key` is not set."""


class DelegationTokenNotFound(BrokerError):
    """There is no delegation token with this secret."""


class DelegationTokenOwnerMismatch(BrokerError):
    """The principal is neither the owner of the delegation token nor one of its renewers."""


class DelegationTokenRequestNotAllowed(BrokerError):
    """Delegation tokens are not requested on this connection: no one, or only a token, is authenticated."""


class DelegationTokenAuthorizationFailed(BrokerError):
    """The principal may not request delegation tokens of another one."""


class DelegationTokenExpired(BrokerError):
    """The delegation token has expired."""


class InvalidPrincipalType(BrokerError):
    """A principal is of a type that it cannot have here."""


class TransactionalIdAuthorizationFailed(BrokerError):
    """The producer may not use its transactional id in this way."""


class InvalidUpdateVersion(BrokerError):
    """A feature cannot be finalized at that level."""


class MismatchedEndpointType(BrokerError):
    """The request is for a controller's listener, and came to a broker's."""


class UnsupportedEndpointType(BrokerError):
    """There is no such type of endpoint."""


class ElectionNotNeeded(BrokerError):
    """The partition has the leader that an election would give it."""


class PreferredLeaderNotAvailable(BrokerError):
    """The preferred replica of a partition cannot lead it."""


class EligibleLeadersNotAvailable(BrokerError):
    """No replica of a partition can lead it."""
