"""Every type of metadata record: its number in the log, its name in Kafka's tools, its class, its version.

Which version is written depends on the cluster's `metadata.version`. Source: Apache Kafka 4.4's
`MetadataVersion`: 7 is 3.3-IV3, 15 brought controller registrations (3.7-IV0), 17 directory ids (3.7-IV2),
23 eligible leader replicas (4.0-IV1), 30 cordoned directories (4.3-IV0), 32 ranges of addresses in access
control entries (4.4-IV1), 33 removal of controller registrations (4.4-IV2).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tidelog.plugins.metadata_kraft.records import cluster, control, settings, topics


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
    RecordType(10, "DELEGATION_TOKEN_RECORD", settings.DelegationTokenRecord),
    RecordType(11, "USER_SCRAM_CREDENTIAL_RECORD", settings.UserScramCredentialRecord),
    RecordType(12, "FEATURE_LEVEL_RECORD", cluster.FeatureLevelRecord),
    RecordType(14, "CLIENT_QUOTA_RECORD", settings.ClientQuotaRecord),
    RecordType(15, "PRODUCER_IDS_RECORD", cluster.ProducerIdsRecord),
    RecordType(17, "BROKER_REGISTRATION_CHANGE_RECORD", cluster.BrokerRegistrationChangeRecord),
    RecordType(18, "ACCESS_CONTROL_ENTRY_RECORD", settings.AccessControlEntryRecord),
    RecordType(19, "REMOVE_ACCESS_CONTROL_ENTRY_RECORD", settings.RemoveAccessControlEntryRecord),
    RecordType(20, "NO_OP_RECORD", control.NoOpRecord),
    RecordType(21, "ZK_MIGRATION_STATE_RECORD", control.ZkMigrationStateRecord),
    RecordType(22, "REMOVE_USER_SCRAM_CREDENTIAL_RECORD", settings.RemoveUserScramCredentialRecord),
    RecordType(23, "BEGIN_TRANSACTION_RECORD", control.BeginTransactionRecord),
    RecordType(24, "END_TRANSACTION_RECORD", control.EndTransactionRecord),
    RecordType(25, "ABORT_TRANSACTION_RECORD", control.AbortTransactionRecord),
    RecordType(26, "REMOVE_DELEGATION_TOKEN_RECORD", settings.RemoveDelegationTokenRecord),
    RecordType(27, "REGISTER_CONTROLLER_RECORD", cluster.RegisterControllerRecord),
    RecordType(28, "CLEAR_ELR_RECORD", topics.ClearElrRecord),
    RecordType(29, "UNREGISTER_CONTROLLER_RECORD", cluster.UnregisterControllerRecord),
)
BY_API_KEY: Final = {kind.api_key: kind for kind in RECORD_TYPES}
BY_MESSAGE: Final = {kind.message: kind for kind in RECORD_TYPES}

OLDEST_WRITABLE = 17
"""Below it, records have no directory ids."""
NEWEST_KNOWN = 33

ELR_SINCE = 23
"""First `metadata.version` with eligible leader replicas."""
_WITH_CORDONED_DIRECTORIES = 30


def partition_version(metadata_version: int) -> int:
    """Return the version of partition records, and of changes to partitions."""
    return 2 if metadata_version >= ELR_SINCE else 1


def registration_version(metadata_version: int) -> int:
    """Return the version of broker registrations."""
    return 4 if metadata_version >= _WITH_CORDONED_DIRECTORIES else 3


FENCING_VERSION = 0
SHUTDOWN_VERSION = 1
LOG_DIRS_VERSION = 2
"""A change of registration has the lowest version that has its fields."""
