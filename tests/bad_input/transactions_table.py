"""Transactions of producers that were never there, or that others have taken over from."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.plugins.protocol_kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.end_txn import EndTxnRequest
from tidelog.plugins.protocol_kafka.messages.find_coordinator import FindCoordinatorRequest
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.list_transactions import ListTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .case import NOTHING, OK, Case
from .groups_requests import joined, new_group
from .requests import Sent, ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from .case import Sends
    from .raw_client import RawClient

NO_MAPPING, FENCED, OLD_EPOCH = "INVALID_PRODUCER_ID_MAPPING", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"
BAD_STATE, BAD_REQUEST, UNKNOWN = "INVALID_TXN_STATE", "INVALID_REQUEST", "UNKNOWN_TOPIC_OR_PARTITION"
NOT_ATTEMPTED, BAD_GROUP, NO_SUCH_ID = (
    "OPERATION_NOT_ATTEMPTED",
    "INVALID_GROUP_ID",
    "TRANSACTIONAL_ID_NOT_FOUND",
)
BAD_GENERATION, UNKNOWN_MEMBER = "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"
NOBODY = "nobody-at-all"
TIMEOUT_MS = 60_000
TRANSACTION = 1
_numbers = itertools.count()


@attrs.frozen
class Producer:
    """A transactional producer that may begin."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def begun(client: RawClient, **fields: Any) -> Producer:
    """A producer that was given its id; `fields` are what it claims to be instead."""
    name = f"payments-{next(_numbers)}"
    client.ask_well(ask(apis.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=name, key_type=TRANSACTION)))
    return attrs.evolve(_begin(client, name), **fields)


def _begin(client: RawClient, name: str) -> Producer:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    given = client.ask_well(ask(apis.INIT_PRODUCER_ID, 4, request))
    return Producer(name, given.producer_id, given.producer_epoch)


CLAIMS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("an unknown transactional id", {"transactional_id": NOBODY}, NO_MAPPING),
    ("an empty transactional id", {"transactional_id": ""}, BAD_REQUEST),
    ("another producer's id", {"producer_id": 1 << 40}, NO_MAPPING),
    ("a negative producer id", {"producer_id": -5}, NO_MAPPING),
    ("an epoch to come", {"producer_epoch": 7}, FENCED),
    ("a negative epoch", {"producer_epoch": -2}, FENCED),
)


def _adds_partition(producer: Producer, topic: str, *more: str, version: int = 3) -> Sent:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (topic, *more)]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    return ask(apis.ADD_PARTITIONS_TO_TXN, version, request)


def _verifies(**fields: Any) -> Sends:
    def build(client: RawClient) -> Sent:
        producer = begun(client, **fields)
        one = AddPartitionsToTxnTransaction(
            **attrs.asdict(producer),
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=client.topic, partitions=[0])],
        )
        return ask(apis.ADD_PARTITIONS_TO_TXN, 4, AddPartitionsToTxnRequest(transactions=[one]))

    return build


def _adds_offsets(producer: Producer, group: str, version: int = 3) -> Sent:
    return ask(
        apis.ADD_OFFSETS_TO_TXN,
        version,
        AddOffsetsToTxnRequest(**attrs.asdict(producer), group_id=group),
    )


def _ends(producer: Producer, version: int = 3, *, committed: bool = True) -> Sent:
    return ask(apis.END_TXN, version, EndTxnRequest(**attrs.asdict(producer), committed=committed))


def _taken_over(client: RawClient) -> Producer:
    """A producer whose successor has begun."""
    producer = begun(client)
    _begin(client, producer.transactional_id)
    return producer


def _claiming(build: Callable[[RawClient, Producer], Sent], fields: dict[str, Any]) -> Sends:
    return lambda client: build(client, begun(client, **fields))


PARTITIONS = (
    *(
        Case(
            f"adds a partition with {told}", _claiming(lambda s, p: _adds_partition(p, s.topic), fields), code
        )
        for told, fields, code in CLAIMS
    ),
    Case(
        "adds a partition with an epoch to come in version 1",
        lambda s: _adds_partition(begun(s, producer_epoch=7), s.topic, version=1),
        OLD_EPOCH,
    ),
    Case(
        "adds a topic that is not there",
        lambda s: _adds_partition(begun(s), s.topic, "nowhere"),
        f"{UNKNOWN},{NOT_ATTEMPTED}",
    ),
    Case(
        "adds a partition after another took over",
        lambda s: _adds_partition(_taken_over(s), s.topic),
        FENCED,
    ),
    Case("adds nothing that is there", lambda s: _adds_partition(begun(s), "a/b"), UNKNOWN),
    Case("verifies a partition that was not added", _verifies(), "TRANSACTION_ABORTABLE"),
    Case("verifies with an unknown transactional id", _verifies(transactional_id=NOBODY), NO_MAPPING),
)

OFFSETS = (
    *(
        Case(f"adds offsets with {told}", _claiming(lambda _, p: _adds_offsets(p, new_group()), fields), code)
        for told, fields, code in CLAIMS
    ),
    Case("adds offsets after another took over", lambda s: _adds_offsets(_taken_over(s), "g"), FENCED),
    Case("adds offsets of a group without a name", lambda s: _adds_offsets(begun(s), ""), OK),
)

ENDS = (
    *(
        Case(f"ends with {told}", _claiming(lambda _, p: _ends(p), fields), code)
        for told, fields, code in CLAIMS
    ),
    Case(
        "ends with an epoch to come in version 1", lambda s: _ends(begun(s, producer_epoch=7), 1), OLD_EPOCH
    ),
    Case("commits a transaction that was not begun", lambda s: _ends(begun(s)), BAD_STATE),
    Case("aborts a transaction that was not begun", lambda s: _ends(begun(s), committed=False), BAD_STATE),
    Case("ends after another took over", lambda s: _ends(_taken_over(s)), FENCED),
    Case("ends after another took over in version 1", lambda s: _ends(_taken_over(s), 1), OLD_EPOCH),
)


def _commits_offset(client: RawClient, producer: Producer, version: int = 3, **fields: Any) -> Sent:
    metadata = fields.pop("metadata", "")
    partition = fields.pop("partition", 0)
    offset = TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=1, committed_metadata=metadata
    )
    topic = TxnOffsetCommitRequestTopic(
        name=fields.pop("topic", client.topic), topic_id=client.topic_id, partitions=[offset]
    )
    settings: dict[str, Any] = {**attrs.asdict(producer), "topics": [topic], "group_id": "", **fields}
    return ask(apis.TXN_OFFSET_COMMIT, version, TxnOffsetCommitRequest(**settings))


def _within(**fields: Any) -> Sends:
    """Of a group that the transaction knows, and that has a member."""

    def build(client: RawClient) -> list[Sent]:
        producer, member = begun(client), joined(client)
        settings: dict[str, Any] = {
            "group_id": member.group,
            "member_id": member.member,
            "generation_id": member.generation,
            **fields,
        }
        return [_adds_offsets(producer, member.group), _commits_offset(client, producer, **settings)]

    return build


COMMITS = (
    Case("commits offsets of a member", _within(), OK),
    Case("commits offsets in the next generation", _within(generation_id=2), BAD_GENERATION),
    Case("commits offsets as somebody", _within(member_id=NOBODY), UNKNOWN_MEMBER),
    Case(
        "commits offsets as a foreign static member",
        _within(group_instance_id="b"),
        UNKNOWN_MEMBER,
    ),
    Case("commits offsets past a group's members", _within(member_id="", generation_id=-1), OK),
    Case("commits offsets with too long metadata", _within(metadata="a" * 4097), "OFFSET_METADATA_TOO_LARGE"),
    Case("commits offsets of a topic that is not there", _within(topic="nowhere"), UNKNOWN),
    Case("commits offsets of partition 9", _within(partition=9), UNKNOWN),
    Case("commits offsets of a group without a name", _within(group_id=""), BAD_GROUP),
)

DESCRIPTIONS = (
    Case(
        "describes a transactional id that is not there",
        lambda _: ask(apis.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=[NOBODY])),
        NO_SUCH_ID,
    ),
    Case(
        "describes an empty transactional id",
        lambda _: ask(apis.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=[""])),
        BAD_REQUEST,
    ),
    Case(
        "describes no transactional id",
        lambda _: ask(apis.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=[])),
        NOTHING,
    ),
    Case(
        "lists transactions in a state that is none",
        lambda _: ask(
            apis.LIST_TRANSACTIONS, 1, ListTransactionsRequest(state_filters=["Odd"], producer_id_filters=[])
        ),
        OK,
    ),
    Case(
        "lists transactions by a pattern that is none",
        lambda _: ask(
            apis.LIST_TRANSACTIONS,
            2,
            ListTransactionsRequest(
                state_filters=[], producer_id_filters=[], transactional_id_pattern="(unclosed"
            ),
        ),
        "INVALID_REGULAR_EXPRESSION",
    ),
    Case(
        "describes producers of a topic that is not there",
        lambda _: ask(
            apis.DESCRIBE_PRODUCERS,
            0,
            DescribeProducersRequest(topics=[DescribeProducersTopic(name="nowhere", partition_indexes=[0])]),
        ),
        UNKNOWN,
    ),
    Case(
        "describes producers of a partition that is not there",
        lambda s: ask(
            apis.DESCRIBE_PRODUCERS,
            0,
            DescribeProducersRequest(topics=[DescribeProducersTopic(name=s.topic, partition_indexes=[9])]),
        ),
        UNKNOWN,
    ),
)

CASES = (*PARTITIONS, *OFFSETS, *ENDS, *COMMITS, *DESCRIPTIONS)
