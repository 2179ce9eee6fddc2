"""What a client keeps of the cluster: what is newer counts, and what is gone is gone."""

from __future__ import annotations

from uuid import UUID

from tests.plugins.client.fakes import ADDRESS, metadata_message
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.cluster import NO_TOPIC_ID, Address, ClusterCache, ClusterMetadata
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
OTHER = Address("broker-2", 9092)


def known(**leaders: int) -> ClusterCache:
    """A cluster with a partition of each of these topics."""
    cluster = ClusterCache([ADDRESS])
    told = metadata_message({name: [leader] for name, leader in leaders.items()})
    cluster.update(ClusterMetadata.from_response(told))
    return cluster


def test_a_topic_that_was_deleted_has_no_leader_and_no_id_any_more() -> None:
    cluster = known(orders=1, payments=1)
    assert cluster.topic_id("orders") == UUID(bytes=bytes(range(16)))
    gone = metadata_message({}, errors={"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    cluster.update(ClusterMetadata.from_response(gone))
    assert (cluster.leader(ORDERS), cluster.topic_id("orders")) == (None, NO_TOPIC_ID)
    assert not cluster.has_topic("orders")
    assert not cluster.has_partition(ORDERS)
    assert cluster.leader(PAYMENTS) == 1, "which the newer metadata are not about"


def test_a_leader_that_is_no_broker_of_the_cluster_is_none() -> None:
    cluster = known(orders=7)
    assert cluster.leader(ORDERS) is None
    assert cluster.has_partition(ORDERS)
    assert not cluster.has_partition(TopicPartition("orders", 1))


def test_brokers_are_those_of_the_newest_metadata_that_name_any() -> None:
    cluster = known()
    cluster.update(ClusterMetadata.from_response(metadata_message({}, brokers={2: OTHER})))
    assert cluster.addresses() == (ADDRESS, OTHER)
    cluster.update(ClusterMetadata.from_response(metadata_message({}, brokers={})))
    assert cluster.brokers == {2: OTHER}


def test_a_topic_without_partitions_has_no_replicas() -> None:
    found = ClusterMetadata.from_response(metadata_message({"empty": [], "orders": [1, 1]}))
    assert (found.topics["empty"].replication_factor, found.topics["orders"].replication_factor) == (0, 1)
