"""Every type of metadata record: its number in the log, its name in Kafka's tools, its class."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tidelog.plugins.metadata_kraft.records import cluster, security, settings, topics, transactions


class RecordType(NamedTuple):
    """A type of record: `api_key` is its number in the log."""

    api_key: int
    name: str
    message: type[Any]


RECORD_TYPES: Final = (
    RecordType(0, "REGISTER_BROKER_RECORD", cluster.RegisterBrokerRecord),
    RecordType(1, "UNREGISTER_BROKER_RECORD", cluster.UnregisterBrokerRecord),
    RecordType(2, "TOPIC_RECORD", topics.TopicRecord),
    RecordType(3, "PARTITION_RECORD", topics.PartitionRecord),
    RecordType(4, "CONFIG_RECORD", settings.ConfigRecord),
    RecordType(5, "PARTITION_CHANGE_RECORD", topics.PartitionChangeRecord),
    RecordType(7, "FENCE_BROKER_RECORD", cluster.FenceBrokerRecord),
    RecordType(8, "UNFENCE_BROKER_RECORD", cluster.UnfenceBrokerRecord),
    RecordType(9, "REMOVE_TOPIC_RECORD", topics.RemoveTopicRecord),
    RecordType(10, "DELEGATION_TOKEN_RECORD", security.DelegationTokenRecord),
    RecordType(11, "USER_SCRAM_CREDENTIAL_RECORD", security.UserScramCredentialRecord),
    RecordType(12, "FEATURE_LEVEL_RECORD", cluster.FeatureLevelRecord),
    RecordType(14, "CLIENT_QUOTA_RECORD", settings.ClientQuotaRecord),
    RecordType(15, "PRODUCER_IDS_RECORD", cluster.ProducerIdsRecord),
    RecordType(17, "BROKER_REGISTRATION_CHANGE_RECORD", cluster.BrokerRegistrationChangeRecord),
    RecordType(18, "ACCESS_CONTROL_ENTRY_RECORD", security.AccessControlEntryRecord),
    RecordType(19, "REMOVE_ACCESS_CONTROL_ENTRY_RECORD", security.RemoveAccessControlEntryRecord),
    RecordType(20, "NO_OP_RECORD", transactions.NoOpRecord),
    RecordType(21, "ZK_MIGRATION_STATE_RECORD", transactions.ZkMigrationStateRecord),
    RecordType(22, "REMOVE_USER_SCRAM_CREDENTIAL_RECORD", security.RemoveUserScramCredentialRecord),
    RecordType(23, "BEGIN_TRANSACTION_RECORD", transactions.BeginTransactionRecord),
    RecordType(24, "END_TRANSACTION_RECORD", transactions.EndTransactionRecord),
    RecordType(25, "ABORT_TRANSACTION_RECORD", transactions.AbortTransactionRecord),
    RecordType(26, "REMOVE_DELEGATION_TOKEN_RECORD", security.RemoveDelegationTokenRecord),
    RecordType(27, "REGISTER_CONTROLLER_RECORD", cluster.RegisterControllerRecord),
    RecordType(28, "CLEAR_ELR_RECORD", topics.ClearElrRecord),
)
BY_API_KEY: Final = {kind.api_key: kind for kind in RECORD_TYPES}
BY_MESSAGE: Final = {kind.message: kind for kind in RECORD_TYPES}
