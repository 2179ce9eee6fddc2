"""Table of Kafka's error codes for the broker's errors."""

from __future__ import annotations

from typing import Final

from tidelog.kernel import errors
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

CODES: Final[dict[type[errors.BrokerError], ErrorCode]] = {
    errors.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.LogDirNotFound: ErrorCode.LOG_DIR_NOT_FOUND,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.UnknownTopicOrPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.TopicAlreadyExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    errors.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    errors.ThrottlingQuotaExceeded: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    errors.TopicDeletionDisabled: ErrorCode.TOPIC_DELETION_DISABLED,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.InvalidRecord: ErrorCode.INVALID_RECORD,
    errors.UnsupportedMessageFormat: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    errors.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    errors.MessageTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.InterceptorFailed: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.InterceptorTimedOut: ErrorCode.REQUEST_TIMED_OUT,
    errors.BatchTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.InvalidRequiredAcks: ErrorCode.INVALID_REQUIRED_ACKS,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    errors.TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    errors.NotLeaderOrFollower: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    errors.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.CoordinatorNotAvailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.NotCoordinator: ErrorCode.NOT_COORDINATOR,
    errors.CoordinatorLoadInProgress: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    errors.InvalidGroupId: ErrorCode.INVALID_GROUP_ID,
    errors.GroupIdNotFound: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.NonEmptyGroup: ErrorCode.NON_EMPTY_GROUP,
    errors.GroupSubscribedToTopic: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.UnknownMemberId: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.IllegalGeneration: ErrorCode.ILLEGAL_GENERATION,
    errors.FencedInstanceId: ErrorCode.FENCED_INSTANCE_ID,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.StaleMemberEpoch: ErrorCode.STALE_MEMBER_EPOCH,
    errors.OffsetMetadataTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    errors.InvalidCommitOffsetSize: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    errors.UnstableOffsetCommit: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
    errors.ProducerFenced: ErrorCode.PRODUCER_FENCED,
    errors.InvalidProducerIdMapping: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    errors.ConcurrentTransactions: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.InvalidTransactionTimeout: ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    errors.TransactionalIdNotFound: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    errors.DuplicateResource: ErrorCode.DUPLICATE_RESOURCE,
    errors.ResourceNotFound: ErrorCode.RESOURCE_NOT_FOUND,
    errors.UnacceptableCredential: ErrorCode.UNACCEPTABLE_CREDENTIAL,
    errors.UnsupportedSaslMechanism: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    errors.IllegalSaslState: ErrorCode.ILLEGAL_SASL_STATE,
    errors.TransactionAbortable: ErrorCode.TRANSACTION_ABORTABLE,
    errors.OperationNotAttempted: ErrorCode.OPERATION_NOT_ATTEMPTED,
    errors.InvalidRegularExpression: ErrorCode.INVALID_REGULAR_EXPRESSION,
    errors.InconsistentGroupProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    errors.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    errors.MemberIdRequired: ErrorCode.MEMBER_ID_REQUIRED,
    errors.GroupMaxSizeReached: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.FencedMemberEpoch: ErrorCode.FENCED_MEMBER_EPOCH,
    errors.UnreleasedInstanceId: ErrorCode.UNRELEASED_INSTANCE_ID,
    errors.UnsupportedAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    errors.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.TopicAuthorizationFailed: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    errors.GroupAuthorizationFailed: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    errors.ClusterAuthorizationFailed: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    errors.TransactionalIdAuthorizationFailed: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.DelegationTokenAuthDisabled: ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    errors.DelegationTokenNotFound: ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    errors.DelegationTokenOwnerMismatch: ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
    errors.DelegationTokenRequestNotAllowed: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    errors.DelegationTokenAuthorizationFailed: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    errors.DelegationTokenExpired: ErrorCode.DELEGATION_TOKEN_EXPIRED,
    errors.InvalidPrincipalType: ErrorCode.INVALID_PRINCIPAL_TYPE,
    errors.InvalidUpdateVersion: ErrorCode.INVALID_UPDATE_VERSION,
    errors.MismatchedEndpointType: ErrorCode.MISMATCHED_ENDPOINT_TYPE,
    errors.UnsupportedEndpointType: ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
    errors.ElectionNotNeeded: ErrorCode.ELECTION_NOT_NEEDED,
    errors.PreferredLeaderNotAvailable: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    errors.EligibleLeadersNotAvailable: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def error_code(error: errors.BrokerError) -> ErrorCode:
    """Return the protocol's code for `error`."""
    for kind in type(error).__mro__:
        code = CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def code_for_producer(error: errors.BrokerError, *, fenced: bool) -> ErrorCode:
    """Return the error code for a producer; `fenced`: the client's version has PRODUCER_FENCED."""
    if isinstance(error, errors.ProducerFenced) and not fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error_code(error)
