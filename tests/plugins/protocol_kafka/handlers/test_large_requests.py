"""Requests with many elements are read and answered in steps, so that other tasks run in between."""

from __future__ import annotations

import pytest

from tests.turns import turns_of_another_task
from tidelog.kernel import pace
from tidelog.plugins.protocol_kafka.codecs.layout import FEW_ELEMENTS
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.protocol_kafka.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .client import Client

COUNT = 2 * FEW_ELEMENTS
PARTITIONS = [DescribedPartition(partition_index=0)] * COUNT
TOPICS = [TopicRequest(name=f"missing-{number}") for number in range(COUNT)]
LARGE = {
    "alter_user_scram_credentials": (
        apis.ALTER_USER_SCRAM_CREDENTIALS,
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="alice", mechanism=1)] * COUNT, upsertions=[]
        ),
    ),
    "describe_quorum": (
        apis.DESCRIBE_QUORUM,
        DescribeQuorumRequest(topics=[DescribedTopic(topic_name="missing", partitions=PARTITIONS)]),
    ),
    "describe_topic_partitions": (
        apis.DESCRIBE_TOPIC_PARTITIONS,
        DescribeTopicPartitionsRequest(topics=TOPICS),
    ),
    "describe_topic_partitions-invalid_cursor": (
        apis.DESCRIBE_TOPIC_PARTITIONS,
        DescribeTopicPartitionsRequest(topics=TOPICS, cursor=Cursor(topic_name="other", partition_index=0)),
    ),
    "update_features": (
        apis.UPDATE_FEATURES,
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="no.such.feature", max_version_level=1)] * COUNT
        ),
    ),
}


async def turns_beside(client: Client, api: Api, version: int, request: object) -> int:
    """Serve a request; how often another task ran meanwhile."""
    async with turns_of_another_task() as turns:
        await client.ask(api, version, request)
    return turns.count


@pytest.fixture
def every_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short a step is, other tasks run after it."""
    monkeypatch.setattr(pace, "STEP_SECONDS", 0.0)


@pytest.mark.usefixtures("every_step_is_long")
@pytest.mark.parametrize(("api", "request_"), [pytest.param(*row, id=name) for name, row in LARGE.items()])
async def test_request_of_many_elements_is_served_in_steps(
    client: Client, api: Api, request_: object
) -> None:
    """Decoder and encoder have a step for 64 elements; those for single ones are the handler's."""
    assert await turns_beside(client, api, 0, request_) >= COUNT


@pytest.mark.usefixtures("every_step_is_long")
async def test_update_features_names_many_results_in_steps(client: Client) -> None:
    update = FeatureUpdateKey(feature="group.version", max_version_level=1)
    request = UpdateFeaturesRequest(feature_updates=[update] * COUNT)
    assert await turns_beside(client, apis.UPDATE_FEATURES, 1, request) >= 2 * COUNT


@pytest.mark.usefixtures("every_step_is_long")
async def test_describe_transactions_of_a_few_ids_that_take_long_lets_other_tasks_run(client: Client) -> None:
    """A thousand elements are not too many for one step, but their names may have a kilobyte each."""
    few = DescribeTransactionsRequest(transactional_ids=[f"missing-{number}" for number in range(100)])
    assert await turns_beside(client, apis.DESCRIBE_TRANSACTIONS, 0, few) > 90
