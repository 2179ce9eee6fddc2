"""The operations of admin clients, and what becomes of the outcomes of those for several things."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tidelog.plugins.client.errors import PartlyFailed
from tidelog.plugins.client.operations.acls import create_acls, delete_acls, describe_acls
from tidelog.plugins.client.operations.configs import alter_configs, describe_configs
from tidelog.plugins.client.operations.delegation_tokens import (
    create_delegation_token,
    describe_delegation_tokens,
    expire_delegation_token,
    renew_delegation_token,
)
from tidelog.plugins.client.operations.features import describe_features, update_features
from tidelog.plugins.client.operations.group_offsets import commit_offsets, committed_offsets
from tidelog.plugins.client.operations.groups import (
    delete_groups,
    delete_offsets,
    describe_groups,
    list_groups,
)
from tidelog.plugins.client.operations.metadata import describe_cluster, describe_topics, list_topics
from tidelog.plugins.client.operations.offsets import list_offsets
from tidelog.plugins.client.operations.quotas import alter_quotas, describe_quotas
from tidelog.plugins.client.operations.records import delete_records
from tidelog.plugins.client.operations.scram_users import (
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from tidelog.plugins.client.operations.sending import or_raise
from tidelog.plugins.client.operations.topics import create_partitions, create_topics, delete_topics

if TYPE_CHECKING:
    from tidelog.plugins.client.operations.sending import Outcomes

K = TypeVar("K")
T = TypeVar("T")

__all__ = [
    "alter_configs",
    "alter_quotas",
    "alter_user_scram_credentials",
    "commit_offsets",
    "committed_offsets",
    "create_acls",
    "create_delegation_token",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_groups",
    "delete_offsets",
    "delete_records",
    "delete_topics",
    "describe_acls",
    "describe_cluster",
    "describe_configs",
    "describe_delegation_tokens",
    "describe_features",
    "describe_groups",
    "describe_quotas",
    "describe_topics",
    "describe_user_scram_credentials",
    "expire_delegation_token",
    "list_groups",
    "list_offsets",
    "list_topics",
    "renew_delegation_token",
    "settled",
    "update_features",
]


def settled(outcomes: Outcomes[K, T]) -> dict[K, T]:
    """Return the results if there are no errors.

    Raises:
        PartlyFailed: there are several outcomes, and an error among them.
        ClientError: the only outcome is an error.
    """
    failed = PartlyFailed(outcomes)
    if failed.errors and len(outcomes) > 1:
        raise failed
    return or_raise(outcomes)
