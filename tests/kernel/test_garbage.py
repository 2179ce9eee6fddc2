"""What a broker is done with is freed by reference counts alone, as its collector visits nothing old."""

from __future__ import annotations

import gc
import socket
import struct
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deadlines import wait_until
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import (
    BlockingClient,
    GroupOffset,
    NewRecord,
    NewTopic,
    TopicPartition,
    or_raise,
)
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.plugins.protocol_kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.plugins.protocol_kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.plugins.protocol_kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.plugins.protocol_kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

KEPT = TopicPartition("kept", 0)
RECORDS = [NewRecord(b"value", key=b"key")]


def topics(client: BlockingClient) -> None:
    or_raise(client.create_topics([NewTopic("gone", 30, config={"cleanup.policy": "compact"})]))
    client.produce(TopicPartition("gone", 3), RECORDS)
    or_raise(client.delete_topics(["gone"]))


def transactions(client: BlockingClient) -> None:
    for end in (client.commit_transaction, client.abort_transaction):
        producer = client.init_transactions("transaction")
        producer.begin_transaction()
        client.produce(KEPT, RECORDS, producer=producer)
        end(producer)


def groups(client: BlockingClient) -> None:
    or_raise(client.commit_offsets("group", {KEPT: GroupOffset(1)}))
    for epoch in (0, -1):
        request = ConsumerGroupHeartbeatRequest(
            group_id="members",
            member_id="member",
            member_epoch=epoch,
            subscribed_topic_names=["kept"],
            rebalance_timeout_ms=1000,
            topic_partitions=[],
        )
        response: ConsumerGroupHeartbeatResponse = client.request(request)
        assert not response.error_code, response.error_message
    deleted: DeleteGroupsResponse = client.request(DeleteGroupsRequest(groups_names=["group", "members"]))
    assert [each.error_code for each in deleted.results] == [0, 0]


def classic_groups(client: BlockingClient) -> None:
    or_raise(client.commit_offsets("classic", {KEPT: GroupOffset(1)}))

    def join(member_id: str) -> JoinGroupResponse:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        response: JoinGroupResponse = client.request(
            JoinGroupRequest(
                group_id="classic",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=member_id,
                protocol_type="consumer",
                protocols=protocols,
            )
        )
        return response

    joined = join(join("").member_id)  # the first answer has the id to join with
    synced: SyncGroupResponse = client.request(
        SyncGroupRequest(
            group_id="classic",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
        )
    )
    assert synced.assignment == b"all"
    client.request(
        LeaveGroupRequest(group_id="classic", members=[MemberIdentity(member_id=joined.member_id)])
    )
    deleted: DeleteGroupsResponse = client.request(DeleteGroupsRequest(groups_names=["classic"]))
    assert [each.error_code for each in deleted.results] == [0]


def connections(client: BlockingClient) -> None:
    (broker,) = client.metadata([]).brokers.values()
    length = struct.pack(">i", 100_000)
    for sent in (b"", length, length + bytes(50_000), b"GET / HTTP/1.1"):
        with socket.create_connection((broker.host, broker.port)) as sock:
            sock.sendall(sent)


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("use", [topics, transactions, groups, classic_groups, connections])
def test_nothing_is_left_to_the_garbage_collector(
    storage: str, use: Callable[[BlockingClient], None], tmp_path: Path
) -> None:
    settings: dict[str, object] = {"storage": storage, "group.initial.rebalance.delay.ms": 0}
    settings |= {"log.dirs": str(tmp_path)} if storage == "file" else {}
    with broker_in_thread(settings) as running, BlockingClient(running.bootstrap) as client:
        or_raise(client.create_topics([NewTopic("kept")]))
        use(client)  # what it imports makes cycles

        def one_connection() -> bool:
            return running.broker.server.connection_count == 1

        wait_until(one_connection, "the others have ended")
        with garbage_kept():
            for _ in range(3):
                use(client)
            wait_until(one_connection, "the others have ended")
            gc.collect()
            found = Counter(type(each).__qualname__ for each in gc.garbage if is_of_the_broker(each))
    assert not found


@contextmanager
def garbage_kept() -> Generator[None]:
    """Collect what there is, and keep in `gc.garbage` what is found when the block collects."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def is_of_the_broker(found: object) -> bool:
    module = type(found).__module__
    return module.startswith("tidelog.") and not module.startswith("tidelog.plugins.client")
