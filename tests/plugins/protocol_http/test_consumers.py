"""Consumer instances: members of groups on behalf of clients that only send requests."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from tests.plugins.protocol_http.http_client import BROKER, PEER, HttpClient, answers_in, request_bytes
from tests.tables import for_each
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.testing.broker import running_broker

AT_ONCE = "records?timeout=0"


async def create(http: HttpClient, name: str = "i", **settings: Any) -> str:
    """Create an instance of the group g, underscores in keys stand for dots; return its path."""
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    body = {"name": name, "format": "json", "auto.offset.reset": "earliest", **dotted}
    answer = await http.send("POST", "/consumers/g", body)
    assert answer.status == 200, answer
    assert answer.json == {
        "instance_id": name,
        "base_uri": f"http://broker/consumers/g/instances/{name}",
    }
    return f"/consumers/g/instances/{name}"


async def subscribed(http: HttpClient, name: str = "i", **settings: Any) -> str:
    path = await create(http, name, **settings)
    answer = await http.send("POST", f"{path}/subscription", {"topics": ["t"]})
    assert answer.status == 204, answer
    return path


async def values(http: HttpClient, path: str) -> list[Any]:
    return [record["value"] for record in await http.get(f"{path}/{AT_ONCE}")]


async def committed(http: HttpClient) -> dict[int, int]:
    offsets = (await http.get("/groups/g/offsets"))["offsets"]
    return {each["partition"]: each["offset"] for each in offsets}


@pytest.fixture
async def topic(http: HttpClient) -> str:
    await http.create_topic("t", 2)
    await http.produce("t", "a", "b", partition=0)
    await http.produce("t", "c", partition=1)
    return "t"


async def test_an_instance_reads_each_record_once_and_continues_where_it_has_committed(
    http: HttpClient, topic: str
) -> None:
    path = await subscribed(http, auto_commit_enable="false")
    assert sorted(await values(http, path)) == ["a", "b", "c"]
    assert await values(http, path) == []
    await http.produce("t", "d")
    assert await values(http, path) == ["d"]
    assert await committed(http) == {}
    assert (await http.send("POST", f"{path}/offsets")).status == 204
    assert await committed(http) == {0: 3, 1: 1}
    assert (await http.get(f"{path}/offsets"))["offsets"][0] == {
        "topic": "t",
        "partition": 0,
        "offset": 3,
        "metadata": "",
    }
    await http.produce("t", "e")
    assert await values(http, path) == ["e"]
    assert (await http.send("DELETE", path)).status == 204
    assert (await http.send("GET", f"{path}/records")).status == 404
    path = await subscribed(http, "j")
    assert await values(http, path) == ["e"]


async def test_an_offset_of_a_commit_is_that_of_the_last_record_processed(
    http: HttpClient, topic: str
) -> None:
    path = await subscribed(http, auto_commit_enable=False)
    await values(http, path)
    body = {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]}
    assert (await http.send("POST", f"{path}/offsets", body)).status == 204
    assert await committed(http) == {0: 1}


async def test_an_instance_commits_automatically_what_it_has_returned_before(
    http: HttpClient, topic: str
) -> None:
    path = await subscribed(http)
    await values(http, path)
    # As by any consumer: what was only just returned may still be lost by its client.
    assert await committed(http) == {}
    await values(http, path)
    assert await committed(http) == {0: 2, 1: 1}
    await http.produce("t", "d")
    await values(http, path)
    await http.send("DELETE", path)
    assert await committed(http) == {0: 3, 1: 1}


async def test_instances_of_a_group_share_its_partitions(
    http: HttpClient, topic: str, autojump_clock: trio.testing.MockClock
) -> None:
    first = await subscribed(http, "one")
    await values(http, first)
    second = await subscribed(http, "two")
    await trio.sleep(20)

    async def partitions(path: str) -> list[int]:
        return [each["partition"] for each in (await http.get(f"{path}/assignments"))["partitions"]]

    assert sorted(await partitions(first) + await partitions(second)) == [0, 1]
    # The first one has committed what it gave back.
    assert await values(http, second) == []
    await http.send("DELETE", first)
    await trio.sleep(20)
    assert sorted(await partitions(second)) == [0, 1]
    await http.produce("t", "x", partition=0)
    await http.produce("t", "y", partition=1)
    assert sorted(await values(http, second)) == ["x", "y"]


async def test_an_instance_stays_a_member_while_it_is_used_and_is_deleted_when_idle(
    http: HttpClient, topic: str, autojump_clock: trio.testing.MockClock
) -> None:
    path = await subscribed(http)
    for _ in range(2):
        # More than the session timeout of a member, 45 s, less than the idle time of an instance.
        await trio.sleep(250)
        assert len((await http.get("/groups/g"))["members"]) == 1
        await http.get(f"{path}/subscription")
    await trio.sleep(302)
    assert (await http.get("/groups/g"))["members"] == []
    answer = await http.send("GET", f"{path}/subscription")
    assert (answer.status, answer.json["error_code"]) == (404, 40403)
    assert len(http.service.consumers) == 0


async def test_a_poll_waits_for_records_and_for_partitions(
    http: HttpClient, autojump_clock: trio.testing.MockClock
) -> None:
    path = await create(http, consumer_request_timeout_ms=2000)
    assert (await http.send("POST", f"{path}/subscription", {"topics": ["t1"]})).status == 204
    started = trio.current_time()
    assert await http.get(f"{path}/records") == []
    assert trio.current_time() - started == pytest.approx(2)
    target = request_bytes("GET", f"{path}/records?timeout=30000")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(http.driver.feed, target))
        await trio.testing.wait_all_tasks_blocked()
        other = http.another()
        await other.create_topic("t1")
        await other.produce("t1", "later")
    (answer,) = answers_in(http.driver.take_sent())
    assert [record["value"] for record in answer.json] == ["later"]


async def test_a_poll_ends_when_its_instance_is_deleted(http: HttpClient, topic: str) -> None:
    path = await subscribed(http)
    await values(http, path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(http.driver.feed, request_bytes("GET", f"{path}/records?timeout=30000")))
        await trio.testing.wait_all_tasks_blocked()
        assert (await http.another().send("DELETE", path)).status == 204
    (answer,) = answers_in(http.driver.take_sent())
    assert answer.json == []


async def test_assigned_partitions_are_read_without_a_group_membership(http: HttpClient, topic: str) -> None:
    path = await create(http)
    partitions = {"partitions": [{"topic": "t", "partition": 0}]}
    assert (await http.send("POST", f"{path}/assignments", partitions)).status == 204
    assert await values(http, path) == ["a", "b"]
    assert (await http.send("POST", f"{path}/positions/beginning", partitions)).status == 204
    assert await values(http, path) == ["a", "b"]
    seek = {"offsets": [{"topic": "t", "partition": 0, "offset": 1}]}
    assert (await http.send("POST", f"{path}/positions", seek)).status == 204
    assert await values(http, path) == ["b"]
    assert (await http.send("POST", f"{path}/positions/end", partitions)).status == 204
    assert await values(http, path) == []
    other = {"partitions": [{"topic": "t", "partition": 1}]}
    answer = await http.send("POST", f"{path}/positions/end", other)
    assert (answer.status, answer.json["error_code"]) == (409, 40904)
    answer = await http.send("POST", f"{path}/subscription", {"topics": ["t"]})
    assert (answer.status, answer.json["error_code"]) == (409, 40903)
    assert (await http.send("POST", f"{path}/offsets")).status == 204
    assert await committed(http) == {0: 2}


async def test_a_subscription_ends_and_excludes_assignments(http: HttpClient, topic: str) -> None:
    path = await subscribed(http)
    assert await http.get(f"{path}/subscription") == {"topics": ["t"]}
    partitions = {"partitions": [{"topic": "t", "partition": 0}]}
    assert (await http.send("POST", f"{path}/assignments", partitions)).json["error_code"] == 40903
    assert (await http.send("DELETE", f"{path}/subscription")).status == 204
    assert await http.get(f"{path}/subscription") == {"topics": []}
    assert await http.get(f"{path}/assignments") == {"partitions": []}
    assert (await http.get("/groups/g"))["members"] == []


async def test_a_subscription_by_pattern(
    http: HttpClient, topic: str, autojump_clock: trio.testing.MockClock
) -> None:
    path = await create(http)
    body = {"topic_pattern": "t.*"}
    assert (await http.send("POST", f"{path}/subscription", body)).status == 204
    assert await http.get(f"{path}/subscription") == {"topics": [], **body}
    records = await http.get(f"{path}/records?timeout=30000")
    assert {record["topic"] for record in records} == {"t"}
    answer = await http.send("POST", f"{path}/subscription", {"topic_pattern": "("})
    assert (answer.status, answer.json["error_code"]) == (422, 42298)


async def test_an_instance_is_its_owners_alone(http: HttpClient, topic: str) -> None:
    path = await subscribed(http)
    other = http.another(PEER._replace(principal=Principal("User", "mallory")))
    assert (await other.send("GET", f"{path}/{AT_ONCE}")).status == 404
    assert (await other.send("DELETE", path)).status == 404
    answer = await http.send("POST", "/consumers/g", {"name": "i"})
    assert (answer.status, answer.json["error_code"]) == (409, 40902)


async def test_formats_of_instances(http: HttpClient, topic: str) -> None:
    path = await subscribed(http, format="binary")
    kafka_json = "application/vnd.kafka.json.v2+json"
    answer = await http.send("GET", f"{path}/{AT_ONCE}", Accept=kafka_json)
    assert (answer.status, answer.json["error_code"]) == (406, 40601)
    answer = await http.send("GET", f"{path}/{AT_ONCE}", Accept="application/vnd.kafka.binary.v2+json")
    assert sorted(record["value"] for record in answer.json) == ["ImEi", "ImIi", "ImMi"]


@for_each(
    "body",
    [
        {"format": "avro"},
        {"auto.offset.reset": "none"},
        {"auto.commit.enable": 1.5},
        {"consumer.request.timeout.ms": 30_001},
        {"consumer.request.timeout.ms": "-1"},
        {"name": "a/b"},
        {"name": "x" * 250},
        {"name": 7},
        {"nmae": "x"},
    ],
)
async def test_settings_that_cannot_be_are_refused(http: HttpClient, body: object) -> None:
    answer = await http.send("POST", "/consumers/g", body)
    assert (answer.status, bool(answer.json["message"])) == (422, True)
    assert len(http.service.consumers) == 0


@for_each(
    "body", [{}, {"topics": []}, {"topics": "t"}, {"topics": [1]}, {"topics": ["t"], "topic_pattern": "t"}]
)
async def test_subscriptions_that_cannot_be_are_refused(http: HttpClient, body: object) -> None:
    path = "/consumers/g/instances/i"
    if not len(http.service.consumers):
        await create(http)
    assert (await http.send("POST", f"{path}/subscription", body)).status == 422


async def test_there_are_not_more_instances_than_may_be() -> None:
    async with running_broker({**BROKER, "http.consumer.instances.max": 2}) as broker:
        http = HttpClient(broker)
        await create(http, "one")
        two = await create(http, "two")
        answer = await http.send("POST", "/consumers/g", {"name": "three"})
        assert (answer.status, answer.json["error_code"]) == (503, 50392)
        await http.send("DELETE", two)
        await create(http, "three")
