"""Topics, partitions, groups and committed offsets over HTTP, and who may see and change them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.protocol_http.http_client import BROKER, PEER, HttpClient
from tests.tables import for_each
from tidelog.kernel import Broker
from tidelog.kernel.metadata import MetadataImage
from tidelog.kernel.request import Authorization
from tidelog.kernel.seams.authorizer import Authorizer, Subject, Undecided
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetToCommit
from tidelog.kernel.seams.requests import AclOperation, Principal, ResourceType
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker


async def test_a_topic_is_created_listed_described_and_deleted(http: HttpClient) -> None:
    body = {
        "topic_name": "t",
        "partitions_count": 2,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": 1000}, {"name": "cleanup.policy", "value": "compact"}],
    }
    answer = await http.send("POST", "/topics", body)
    topic = http.broker.topics.get("t")
    assert (answer.status, answer.json) == (
        201,
        {
            "topic_name": "t",
            "topic_id": str(topic.topic_id),
            "partitions_count": 2,
            "replication_factor": 1,
        },
    )
    assert await http.get("/topics") == ["t"]
    node = http.broker.cluster.node_id
    partition = {"leader": node, "replicas": [{"broker": node, "leader": True, "in_sync": True}]}
    partitions = [{"partition": number, **partition} for number in range(2)]
    assert await http.get("/topics/t") == {
        "name": "t",
        "topic_id": str(topic.topic_id),
        "configs": {"retention.ms": "1000", "cleanup.policy": "compact"},
        "partitions": partitions,
    }
    assert await http.get("/topics/t/partitions") == partitions
    assert await http.get("/topics/t/partitions/1") == partitions[1]
    assert await http.get("/brokers") == {"brokers": [node]}
    answer = await http.send("POST", "/topics", body)
    assert (answer.status, answer.json["error_code"]) == (409, 40990)
    answer = await http.send("DELETE", "/topics/t")
    assert (answer.status, answer.body) == (204, b"")
    assert await http.get("/topics") == []
    assert (await http.send("DELETE", "/topics/t")).status == 404


@for_each(
    ("body", "status"),
    [
        (b"", 422),
        (b"[]", 422),
        (b"{", 400),
        ({"topic_name": 1}, 422),
        ({"topic_name": "a b"}, 422),
        ({"topic_name": ""}, 422),
        ({"topic_name": "t", "partitions": 1}, 422),
        ({"topic_name": "t", "partitions_count": 0}, 422),
        ({"topic_name": "t", "partitions_count": "1"}, 422),
        ({"topic_name": "t", "partitions_count": 2**31}, 422),
        ({"topic_name": "t", "replication_factor": 3}, 422),
        ({"topic_name": "t", "configs": {}}, 422),
        ({"topic_name": "t", "configs": [1]}, 422),
        ({"topic_name": "t", "configs": [{"name": "retention.ms", "value": "x"}]}, 422),
        ({"topic_name": "t", "configs": [{"name": "retention.ms"}]}, 422),
        ({"topic_name": "t", "configs": [{"name": "a", "value": "b"}] * 201}, 422),
    ],
)
async def test_a_topic_that_cannot_be_is_refused(http: HttpClient, body: Any, status: int) -> None:
    answer = await http.send("POST", "/topics", body)
    assert (answer.status, bool(answer.json["message"])) == (status, True), answer
    assert await http.get("/topics") == []


async def test_topics_are_not_deleted_where_that_is_disabled() -> None:
    async with running_broker({**BROKER, "delete.topic.enable": False}) as broker:
        http = HttpClient(broker)
        await http.create_topic("t")
        answer = await http.send("DELETE", "/topics/t")
        assert (answer.status, answer.json["error_code"]) == (403, 40391)
        assert await http.get("/topics") == ["t"]


async def test_topics_are_created_by_producing_where_that_is_enabled() -> None:
    async with running_broker({**BROKER, "auto.create.topics.enable": True}) as broker:
        http = HttpClient(broker)
        assert (await http.send("POST", "/topics/new", {"records": [{"value": 1}]})).status == 200
        assert (await http.send("GET", "/topics/other")).status == 404
        assert await http.get("/topics") == ["new"]


async def test_offsets_of_a_partition_and_by_time(http: HttpClient) -> None:
    await http.create_topic("t")
    target = "/topics/t/partitions/0/offsets"
    assert await http.get(target) == {"beginning_offset": 0, "end_offset": 0}
    assert await http.get(f"{target}?timestamp=0") == {"offset": None, "timestamp": None}
    log = http.broker.replicas.log_of("t", 0)
    log.append_nowait(make_batch([b"a", b"b", b"c"], timestamps=[1000, 2000, 3000]))
    assert await http.get(target) == {"beginning_offset": 0, "end_offset": 3}
    assert await http.get(f"{target}?timestamp=1500") == {"offset": 1, "timestamp": 2000}
    assert await http.get(f"{target}?timestamp=3001") == {"offset": None, "timestamp": None}


async def test_offsets_of_a_group_are_committed_read_and_deleted_with_it(http: HttpClient) -> None:
    await http.create_topic("t", 2)
    await http.produce("t", 1, 2, 3)
    offset = {"topic": "t", "partition": 0, "offset": 2}
    assert (await http.send("POST", "/groups/g/offsets", {"offsets": [offset]})).status == 204
    assert await http.get("/groups/g/offsets") == {
        "offsets": [{**offset, "metadata": "", "end_offset": 3, "lag": 1}]
    }
    assert await http.get("/groups") == [
        {"group_id": "g", "state": "Empty", "type": "classic", "protocol_type": ""}
    ]
    assert (await http.get("/groups/g"))["members"] == []
    assert (await http.send("DELETE", "/groups/g")).status == 204
    assert await http.get("/groups") == []
    answer = await http.send("GET", "/groups/g")
    assert (answer.status, answer.json["error_code"]) == (404, 40490)
    assert (await http.send("DELETE", "/groups/g")).status == 404


@for_each(
    ("body", "status"),
    [
        ({}, 422),
        ({"offsets": []}, 422),
        ({"offsets": [1]}, 422),
        ({"offsets": [{"topic": "t", "partition": 0, "offset": -1}]}, 422),
        ({"offsets": [{"topic": "t", "partition": 0, "offset": True}]}, 422),
        ({"offsets": [{"topic": "t", "partition": "0", "offset": 1}]}, 422),
        ({"offsets": [{"topic": "t", "partition": 9, "offset": 1}]}, 404),
        ({"offsets": [{"topic": "none", "partition": 0, "offset": 1}]}, 404),
        ({"offsets": [{"topic": "t", "partition": 0, "offset": 1}] * 1001}, 422),
    ],
)
async def test_offsets_that_cannot_be_are_not_committed(http: HttpClient, body: Any, status: int) -> None:
    if http.broker.topics.find("t") is None:
        await http.create_topic("t")
    assert (await http.send("POST", "/groups/g/offsets", body)).status == status
    assert (await http.get("/groups")) == []


async def test_a_group_with_members_is_described_and_not_deleted(http: HttpClient) -> None:
    await http.create_topic("t")
    await http.send("POST", "/consumers/g", {"name": "i"})
    await http.send("POST", "/consumers/g/instances/i/subscription", {"topics": ["t"]})
    group = await http.get("/groups/g")
    assert (group["type"], group["state"]) == ("consumer", "Stable")
    (member,) = group["members"]
    assert member["assignment"] == [{"topic": "t", "partitions": [0]}]
    answer = await http.send("DELETE", "/groups/g")
    assert (answer.status, answer.json["error_code"]) == (409, 40991)


class OnlyWhatIsNamed(Authorizer):
    """Allows what a test names; every decision takes a turn first."""

    def __init__(self) -> None:
        self.allowed: set[tuple[AclOperation, str]] = set()
        self.asked: list[tuple[str, AclOperation, ResourceType, str]] = []
        self._decided = False

    def load(self, image: MetadataImage) -> None:
        return

    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        if not self._decided:
            raise Undecided(self._decide)
        self._decided = False
        self.asked.append((subject.principal.name, operation, resource_type, name))
        return (operation, name) in self.allowed

    async def _decide(self) -> None:
        self._decided = True


READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DELETE, DESCRIBE = AclOperation.DELETE, AclOperation.DESCRIBE
RECORDS = {"records": [{"value": 1}]}
OFFSETS = {"offsets": [{"topic": "t", "partition": 0, "offset": 1}]}


@pytest.fixture
def authorizer() -> OnlyWhatIsNamed:
    return OnlyWhatIsNamed()


NEEDED: list[tuple[str, str, object, list[tuple[AclOperation, str]]]] = [
    ("GET", "/metrics", None, [(DESCRIBE, "kafka-cluster")]),
    ("POST", "/topics", {"topic_name": "new"}, [(CREATE, "new")]),
    ("GET", "/topics/t", None, [(DESCRIBE, "t")]),
    ("GET", "/topics/t/partitions", None, [(DESCRIBE, "t")]),
    ("GET", "/topics/t/partitions/0", None, [(DESCRIBE, "t")]),
    ("GET", "/topics/t/partitions/0/offsets", None, [(DESCRIBE, "t")]),
    ("POST", "/topics/t", RECORDS, [(WRITE, "t")]),
    ("POST", "/topics/t/partitions/0", RECORDS, [(WRITE, "t")]),
    ("GET", "/topics/t/partitions/0/records", None, [(READ, "t")]),
    ("POST", "/groups/g/offsets", OFFSETS, [(READ, "g"), (READ, "t")]),
    ("GET", "/groups/g", None, [(DESCRIBE, "g")]),
    ("GET", "/groups/g/offsets", None, [(DESCRIBE, "g")]),
    ("DELETE", "/groups/g", None, [(DELETE, "g")]),
    ("POST", "/consumers/g", {"name": "i"}, [(READ, "g")]),
    ("POST", "/consumers/g/instances/i/subscription", {"topics": ["t"]}, [(READ, "t")]),
    ("GET", "/consumers/g/instances/i/records?timeout=0", None, [(READ, "t")]),
    ("GET", "/consumers/g/instances/i/offsets", None, [(DESCRIBE, "g")]),
    ("POST", "/consumers/g/instances/i/offsets", OFFSETS, [(READ, "g"), (READ, "t")]),
    ("DELETE", "/topics/t", None, [(DELETE, "t")]),
]


async def test_each_operation_needs_its_rights_and_takes_nothing_without(
    broker: Broker, authorizer: OnlyWhatIsNamed
) -> None:
    setup = HttpClient(broker)
    await setup.create_topic("t")
    broker.authorization = Authorization(authorizer)
    http = HttpClient(broker, peer=PEER._replace(principal=Principal("User", "ada")))
    for method, target, body, needed in NEEDED:
        for missing in needed:
            authorizer.allowed = set(needed) - {missing}
            answer = await http.send(method, target, body)
            assert (answer.status, answer.json["error_code"]) == (403, 40301), (method, target, missing)
        authorizer.allowed = set(needed)
        assert (await http.send(method, target, body)).status in (200, 201, 204), (method, target)
    assert {principal for principal, *_ in authorizer.asked} == {"ada"}


async def test_lists_leave_out_what_may_not_be_described(broker: Broker, authorizer: OnlyWhatIsNamed) -> None:
    setup = HttpClient(broker)
    await setup.create_topic("t")
    await setup.create_topic("u")
    await broker.coordinator.prepare_groups()
    for group in ("g", "h"):
        broker.coordinator.offsets.commit(OffsetCommit(group, [OffsetToCommit("t", 0, 1)]))
    broker.authorization = Authorization(authorizer)
    http = HttpClient(broker)
    authorizer.allowed = {(DESCRIBE, "t"), (DESCRIBE, "g")}
    assert await http.get("/topics") == ["t"]
    assert [group["group_id"] for group in await http.get("/groups")] == ["g"]
    authorizer.allowed = {(DESCRIBE, "g")}
    assert await http.get("/groups/g/offsets") == {"offsets": []}
    authorizer.allowed = set()
    assert await http.get("/health") == {"status": "ok"}
