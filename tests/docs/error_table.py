"""Table of error codes in docs/protocol.md: which API answers with each, what shows it, or why none does."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.plugins.protocol_kafka.against_kafka.error_cases import CASES
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

BEGIN, END = "<!-- errors: written by `make docs` -->\n", "<!-- end of errors -->\n"
COMPARED: Final = "against_kafka/test_errors.py"
HANDLERS: Final = "tests/plugins/protocol_kafka/apis"
STAGES: Final = "tests/plugins/protocol_kafka/test_request_stages.py"
INTERCEPTION: Final = "tests/plugins/protocol_kafka/interception"
COORDINATOR: Final = "tests/plugins/coordinator"
TELEMETRY: Final = "tests/plugins/protocol_kafka/against_kafka/test_resources.py"
SESSIONS: Final = "tests/plugins/protocol_kafka/against_kafka/test_fetch_sessions.py"
TOKENS: Final = "tests/plugins/protocol_kafka/against_kafka/test_delegation_tokens.py"
AUTHORIZATION: Final = "tests/plugins/protocol_kafka/against_kafka/test_authorization.py"
GROUPS_AND_TRANSACTIONS: Final = "requests of groups and transactions"


class Shown(NamedTuple):
    """What shows an error that `error_cases` cannot show, and what it takes to get it."""

    apis: str
    file: str
    test: str
    needs: str


SHOWN: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: Shown(
        "Produce, Fetch, changes of topics",
        f"{INTERCEPTION}/test_producing.py",
        "test_a_failure_is_named_in_the_log_and_refused_or_passed_over",
        "an interceptor that fails",
    ),
    ErrorCode.REQUEST_TIMED_OUT: Shown(
        "Produce, Fetch, changes of topics",
        f"{INTERCEPTION}/test_producing.py",
        "test_a_slow_interceptor_is_ended_and_the_loop_goes_on",
        "an interceptor that takes too long",
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: Shown(
        "Metadata, DescribeTopicPartitions",
        f"{HANDLERS}/test_describe_topic_partitions.py",
        "test_describe_topic_partitions_of_a_failed_log_directory_has_the_eligible_leader",
        "a log directory that failed",
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Shown(
        "all that name a partition",
        "tests/kernel/replica/test_leadership.py",
        "test_leadership_that_is_lost_is_an_error_until_it_returns",
        "a partition that another broker leads",
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Shown(
        GROUPS_AND_TRANSACTIONS,
        f"{COORDINATOR}/runtime/test_topic_log.py",
        "test_open_loads_what_was_appended_in_order",
        "a start with a long log of the coordinator",
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Shown(
        f"FindCoordinator, {GROUPS_AND_TRANSACTIONS}",
        f"{HANDLERS}/test_find_coordinator.py",
        "test_find_coordinator_without_a_coordinator",
        "a broker without the plugin `coordinator`",
    ),
    ErrorCode.NOT_COORDINATOR: Shown(
        GROUPS_AND_TRANSACTIONS,
        f"{HANDLERS}/test_offset_commit.py",
        "test_offset_commit_before_any_find_coordinator_request",
        "a request before any FindCoordinator",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS: Shown(
        "Produce",
        f"{HANDLERS}/test_transactions.py",
        "test_produce_while_the_transaction_cannot_be_verified",
        "a coordinator that is still loading",
    ),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Shown(
        "OffsetCommit",
        f"{HANDLERS}/test_offset_commit.py",
        "test_offset_commit_refuses_more_than_a_batch",
        "more offsets than a batch of the internal topic may have",
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: Shown(
        "InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn",
        f"{COORDINATOR}/transactions/test_machine.py",
        "test_init_producer_id_raises_concurrent_transactions_in_prepare_states",
        "a transaction that is being completed",
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Shown(
        "InitProducerId",
        f"{HANDLERS}/test_init_producer_id.py",
        "test_init_producer_id_refuses_two_phase_commits_unless_the_broker_permits_them",
        "version 6, which is unstable in Kafka 4.4.0",
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: Shown(
        "all that read or write",
        f"{HANDLERS}/test_fetch.py",
        "test_fetch_returns_kafka_storage_error_when_the_disk_fails",
        "a disk that fails",
    ),
    ErrorCode.TOPIC_DELETION_DISABLED: Shown(
        "DeleteTopics",
        f"{HANDLERS}/test_delete_topics.py",
        "test_delete_topics_where_deletion_is_disabled",
        "`delete.topic.enable=false`",
    ),
    ErrorCode.FENCED_LEADER_EPOCH: Shown(
        "Fetch, ListOffsets, OffsetForLeaderEpoch",
        f"{HANDLERS}/test_fetch.py",
        "test_fetch_checks_the_leader_epoch",
        "a broker that was restarted",
    ),
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: Shown(
        "ElectLeaders",
        f"{HANDLERS}/test_elect_leaders.py",
        "test_elect_leaders_of_a_partition_whose_log_directory_failed",
        "a log directory that failed",
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: Shown(
        "JoinGroup, ConsumerGroupHeartbeat",
        f"{COORDINATOR}/classic_groups/test_refusals.py",
        "test_join_group_refuses_new_members_of_a_full_group",
        "`group.max.size`, `group.consumer.max.size`",
    ),
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: Shown(
        "ElectLeaders",
        f"{HANDLERS}/test_elect_leaders.py",
        "test_elect_leaders_of_a_partition_whose_log_directory_failed",
        "a log directory that failed",
    ),
    **{
        code: Shown(
            "all",
            STAGES,
            "test_a_stage_refuses_with_the_error_code_of_kafka",
            "a plugin that refuses requests",
        )
        for code in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        )
    },
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Shown(
        "GetTelemetrySubscriptions, PushTelemetry",
        TELEMETRY,
        "test_get_telemetry_subscriptions_and_push_telemetry_are_as_in_kafka",
        "a plugin that receives client metrics",
    ),
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: Shown(
        "PushTelemetry",
        TELEMETRY,
        "test_get_telemetry_subscriptions_and_push_telemetry_are_as_in_kafka",
        "a plugin that receives client metrics",
    ),
    ErrorCode.TELEMETRY_TOO_LARGE: Shown(
        "PushTelemetry",
        f"{HANDLERS}/test_client_telemetry.py",
        "test_push_telemetry_checks_size_and_compression",
        "a plugin that receives client metrics",
    ),
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: Shown(
        "Fetch", SESSIONS, "test_fetch_sessions_are_as_in_kafka", "a fetch session"
    ),
    ErrorCode.INCONSISTENT_TOPIC_ID: Shown(
        "Fetch",
        SESSIONS,
        "test_fetch_sessions_are_as_in_kafka",
        "a fetch session with a topic that was deleted and created again",
    ),
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: Shown(
        "Fetch",
        SESSIONS,
        "test_fetch_sessions_are_as_in_kafka",
        "a fetch session that continues in a version without topic ids, or with them",
    ),
    ErrorCode.ILLEGAL_SASL_STATE: Shown(
        "SaslHandshake, SaslAuthenticate",
        f"{HANDLERS}/test_sasl.py",
        "test_sasl_where_none_is_expected_is_an_illegal_state",
        "a listener without SASL, or a connection that is authenticated",
    ),
    ErrorCode.SASL_AUTHENTICATION_FAILED: Shown(
        "SaslAuthenticate",
        f"{HANDLERS}/test_sasl.py",
        "test_sasl_authenticate_refuses",
        "a listener with SASL",
    ),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: Shown(
        "CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken",
        AUTHORIZATION,
        "test_without_a_secret_there_are_no_tokens",
        "a listener with SASL, and no secret",
    ),
    **{
        code: Shown(apis, TOKENS, test, needs)
        for code, apis, test, needs in (
            (
                ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
                "RenewDelegationToken, ExpireDelegationToken",
                "test_renew",
                "a listener with SASL",
            ),
            (
                ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
                "RenewDelegationToken, ExpireDelegationToken",
                "test_renew",
                "a listener with SASL",
            ),
            (
                ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
                "CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken",
                "test_tokens_are_requested_by_clients_that_have_logged_in_without_one",
                "a login by a token",
            ),
            (
                ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
                "CreateDelegationToken",
                "test_create_for_another_owner",
                "an authorizer",
            ),
            (
                ErrorCode.DELEGATION_TOKEN_EXPIRED,
                "RenewDelegationToken, ExpireDelegationToken",
                "test_a_token_that_has_expired_is_not_renewed_and_can_be_removed",
                "a token that has expired",
            ),
            (
                ErrorCode.INVALID_PRINCIPAL_TYPE,
                "CreateDelegationToken",
                "test_create",
                "a listener with SASL",
            ),
        )
    },
    ErrorCode.TRANSACTION_ABORTABLE: Shown(
        "AddPartitionsToTxn, Produce, TxnOffsetCommit",
        f"{HANDLERS}/test_transactions.py",
        "test_produce_refuses_batches_outside_of_the_transaction",
        "Produce 11, TxnOffsetCommit 4 or `verify_only`",
    ),
}
"""Errors whose comparison would take a fault or another setting, or that other tests compare."""

PEERS = "there is no other broker"
CONTROLLER = "only controllers and brokers send it to each other"
ZOOKEEPER = "only clusters with ZooKeeper had it"
SHARE = "share groups are not coordinated here"
STREAMS = "streams groups are not coordinated here"
VOTERS = "this node is the only voter of its metadata log"
CLIENT = "clients raise it themselves"
REASONS: Final[dict[str, str]] = {
    "INVALID_FETCH_SIZE": "Kafka does not return it either",
    "BROKER_NOT_AVAILABLE": PEERS,
    "REPLICA_NOT_AVAILABLE": PEERS,
    "STALE_CONTROLLER_EPOCH": ZOOKEEPER,
    "NETWORK_EXCEPTION": CLIENT,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "a partition has one replica, which is in sync",
    "NOT_CONTROLLER": "this node is the controller",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "message sets are converted; where only batches are allowed they are "
    "INVALID_RECORD, as in Kafka",
    "DUPLICATE_SEQUENCE_NUMBER": "a batch that is sent again gets its first offset; an older one is "
    "OUT_OF_ORDER_SEQUENCE_NUMBER, as in Kafka",
    "UNKNOWN_PRODUCER_ID": "as in Kafka since 2.5, a producer without state begins with any sequence number",
    "REASSIGNMENT_IN_PROGRESS": "there is no other broker to reassign to",
    "LISTENER_NOT_FOUND": "this broker has each of its listeners",
    "STALE_BROKER_EPOCH": CONTROLLER,
    "OFFSET_NOT_AVAILABLE": "there are no elections after which the high watermark is unknown",
    "INCONSISTENT_VOTER_SET": VOTERS,
    "FEATURE_UPDATE_FAILED": "the error of each feature is returned, such as INVALID_UPDATE_VERSION",
    "PRINCIPAL_DESERIALIZATION_FAILURE": CONTROLLER,
    "SNAPSHOT_NOT_FOUND": VOTERS,
    "POSITION_OUT_OF_RANGE": VOTERS,
    "DUPLICATE_BROKER_REGISTRATION": CONTROLLER,
    "BROKER_ID_NOT_REGISTERED": CONTROLLER,
    "INCONSISTENT_CLUSTER_ID": CONTROLLER,
    "INELIGIBLE_REPLICA": CONTROLLER,
    "NEW_LEADER_ELECTED": CONTROLLER,
    "OFFSET_MOVED_TO_TIERED_STORAGE": "no tiered storage",
    "UNKNOWN_CONTROLLER_ID": CONTROLLER,
    "INVALID_REGISTRATION": CONTROLLER,
    "INVALID_RECORD_STATE": SHARE,
    "SHARE_SESSION_NOT_FOUND": SHARE,
    "INVALID_SHARE_SESSION_EPOCH": SHARE,
    "FENCED_STATE_EPOCH": SHARE,
    "INVALID_VOTER_KEY": VOTERS,
    "DUPLICATE_VOTER": VOTERS,
    "VOTER_NOT_FOUND": VOTERS,
    "STREAMS_INVALID_TOPOLOGY": STREAMS,
    "STREAMS_INVALID_TOPOLOGY_EPOCH": STREAMS,
    "STREAMS_TOPOLOGY_FENCED": STREAMS,
    "SHARE_SESSION_LIMIT_REACHED": SHARE,
    "GROUP_DELETION_FAILED": "only a plugin for the topologies of streams groups raises it",
    "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED": STREAMS,
    "CONTROLLER_ID_NOT_REGISTERED": "this node is the only controller",
}
"""Why one broker without peers never returns an error."""


def compared() -> dict[ErrorCode, list[str]]:
    """Return the APIs whose answers with an error are compared with those of Apache Kafka."""
    found: dict[ErrorCode, list[str]] = {}
    for case in CASES:
        names = found.setdefault(case.error, [])
        if case.api.name not in names:
            names.append(case.api.name)
    found.pop(ErrorCode.NONE, None)
    return found


def tables() -> str:
    """Return both tables: the errors that are returned, and those that are not."""
    with_kafka = compared()
    lines = ["| code | error | returned by, among others | shown by |", "|---|---|---|---|"]
    for error in ErrorCode:
        if error in with_kafka:
            apis, shown = ", ".join(with_kafka[error]), f"`{COMPARED}`"
        elif error in SHOWN:
            apis, file, _, needs = SHOWN[error]
            shown = f"`{file.rpartition('/')[2]}`: {needs}"
        else:
            continue
        lines.append(f"| {error.value} | {error.name} | {apis} | {shown} |")
    lines += ["", "Errors that it never returns:", "", "| code | error | reason |", "|---|---|---|"]
    lines += [f"| {ErrorCode[name].value} | {name} | {reason} |" for name, reason in REASONS.items()]
    return "\n".join(lines) + "\n"
