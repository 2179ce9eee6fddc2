"""The nodes that a broker writes, and what it does about those that are there."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from tests.plugins.zookeeper.fake_zookeeper import Ensemble
from tests.plugins.zookeeper.registered import CLUSTER, TOPIC_ID, Registered, broker_info
from tidelog.plugins.zookeeper import nodes
from tidelog.plugins.zookeeper.errors import Conflict, Refused, StaleRegistration, Unavailable
from tidelog.plugins.zookeeper.layouts import KafkaLayout, Layout07
from tidelog.plugins.zookeeper.registry import CHANGE_EXPIRATION_MS
from tidelog.plugins.zookeeper.session import NodeContent

ONE_BROKER = {
    "features": {},
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    "endpoints": ["PLAINTEXT://broker:9092"],
    "jmx_port": -1,
    "port": 9092,
    "host": "broker",
    "version": 5,
    "timestamp": "17",
}


async def registered(ensemble: Ensemble | None = None, **fields: object) -> Registered:
    """A registry that has registered in an ensemble, a new one by default."""
    new = Registered(ensemble or Ensemble(), **fields)  # type: ignore[arg-type]
    await new.registry.register(lambda: None)
    return new


async def test_registry_registers_broker_cluster_and_controller() -> None:
    broker = await registered()
    node = broker.ensemble.read("/brokers/ids/1")
    assert json.loads(node.value) == ONE_BROKER
    assert node.owner == broker.zookeeper.session_id
    assert json.loads(broker.value("/cluster/id")) == {"version": "1", "id": CLUSTER}
    controller = broker.ensemble.read("/controller")
    assert json.loads(controller.value) == {"version": 1, "brokerid": 1, "timestamp": "0"}
    assert controller.owner == broker.zookeeper.session_id
    assert broker.value("/controller_epoch") == b"1"
    assert {*KafkaLayout.folders} < {*broker.ensemble.nodes}


async def test_registry_register_again_in_one_session_changes_nothing() -> None:
    broker = await registered()
    before = dict(broker.ensemble.nodes)
    await broker.registry.register(lambda: None)
    assert broker.ensemble.nodes == before


async def test_registry_registers_again_in_a_new_session_with_a_new_controller_epoch() -> None:
    broker = await registered()
    broker.zookeeper.expire()
    assert broker.below("/brokers/ids") == []
    broker.zookeeper.connect()
    await broker.registry.register(lambda: None)
    assert broker.ensemble.read("/brokers/ids/1").owner == broker.zookeeper.session_id
    assert broker.value("/controller_epoch") == b"2"


@pytest.mark.parametrize("lost", range(1, 23))
async def test_registry_registers_when_an_answer_was_lost(lost: int) -> None:
    broker = Registered()
    broker.zookeeper.lose_answer = lost
    with pytest.raises(Unavailable):
        await broker.registry.register(lambda: None)
    await broker.registry.register(lambda: None)
    assert json.loads(broker.value("/brokers/ids/1")) == ONE_BROKER
    assert broker.value("/controller_epoch").isdigit()


async def test_registry_names_the_holder_of_its_id() -> None:
    one = await registered(info=broker_info(port=9093))
    with pytest.raises(Conflict) as refused:
        await registered(one.ensemble)
    assert str(refused.value) == (
        "the broker id 1 is registered by another broker (session 0x1, broker:9093, at /k/brokers/ids/1); "
        "give each broker an id of its own (node.id), or another path in zookeeper.connect"
    )


async def test_registry_finds_the_registration_of_an_earlier_run_stale_until_it_expires() -> None:
    earlier = await registered()
    later = Registered(earlier.ensemble)
    with pytest.raises(StaleRegistration, match=r"/k/brokers/ids/1 is still that of an earlier run .*0x1"):
        await later.registry.register(lambda: None)
    earlier.zookeeper.expire()
    await later.registry.register(lambda: None)
    assert later.ensemble.read("/brokers/ids/1").owner == later.zookeeper.session_id


async def test_registry_finds_the_controller_of_an_earlier_run_stale() -> None:
    ensemble = Ensemble()
    ensemble.put("/cluster/id", nodes.cluster_id(CLUSTER))
    ensemble.put("/controller", nodes.controller(1, 5), owner=ensemble.new_session())
    with pytest.raises(StaleRegistration, match="/k/controller is still that of an earlier run"):
        await registered(ensemble)


async def test_registry_does_not_take_the_controller_from_another_broker() -> None:
    one = await registered()
    with pytest.raises(Conflict, match=r"/k/controller is held by broker 1 \(session 0x1\)"):
        await registered(one.ensemble, info=broker_info(2, 9093))


async def test_registry_takes_a_persistent_node_of_its_id_for_a_conflict() -> None:
    ensemble = Ensemble()
    ensemble.put("/cluster/id", nodes.cluster_id(CLUSTER))
    ensemble.put("/brokers/ids/1", nodes.broker(broker_info()))
    with pytest.raises(Conflict, match="session 0x0"):
        await registered(ensemble)


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"id":3}', b"\xff" * 200])
async def test_registry_refuses_a_chroot_whose_cluster_id_is_none(value: bytes) -> None:
    ensemble = Ensemble()
    ensemble.put("/cluster/id", value)
    with pytest.raises(Conflict, match="/k/cluster/id has no cluster id but") as refused:
        await registered(ensemble)
    assert len(str(refused.value)) < 600
    assert not ensemble.writes


async def test_registry_refuses_the_chroot_of_another_cluster() -> None:
    one = await registered()
    before = dict(one.ensemble.nodes)
    with pytest.raises(
        Conflict, match=f"/k/cluster/id is the cluster '{CLUSTER}' and this broker belongs to"
    ):
        await registered(one.ensemble, cluster_id="another", info=broker_info(2))
    assert one.ensemble.nodes == before


@pytest.mark.parametrize("path", ["/brokers/ids/7", "/brokers/topics/orders"])
async def test_registry_refuses_the_chroot_of_a_cluster_older_than_cluster_ids(path: str) -> None:
    ensemble = Ensemble()
    ensemble.put(path, b"{}")
    with pytest.raises(Conflict, match="and there is no cluster id: it is that of another cluster"):
        await registered(ensemble)
    assert not ensemble.writes


async def test_registry_says_which_node_is_refused() -> None:
    ensemble = Ensemble()
    ensemble.refusing.add("/brokers/ids/1")
    with pytest.raises(Refused, match="/brokers/ids/1"):
        await registered(ensemble)


async def test_registry_writes_a_topic() -> None:
    broker = await registered()
    broker.put("orders", 2, {"retention.ms": "5"}, TOPIC_ID)
    await broker.registry.sync(["orders"])
    assert json.loads(broker.value("/brokers/topics/orders")) == {
        "removing_replicas": {},
        "partitions": {"0": [1], "1": [1]},
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "adding_replicas": {},
        "version": 3,
    }
    assert json.loads(broker.value("/config/topics/orders")) == {
        "version": 1,
        "config": {"retention.ms": "5"},
    }
    assert broker.below("/brokers/topics/orders/partitions") == ["0", "1"]
    assert json.loads(broker.value("/brokers/topics/orders/partitions/1/state")) == {
        "controller_epoch": 1,
        "leader": 1,
        "version": 1,
        "leader_epoch": 0,
        "isr": [1],
    }
    assert broker.registry.topics == 1


async def test_registry_grows_a_topic_and_leaves_the_rest_as_it_is() -> None:
    broker = await registered()
    broker.put("orders", 1)
    await broker.registry.sync(["orders"])
    broker.ensemble.writes.clear()
    broker.put("orders", 2)
    await broker.registry.sync(["orders"])
    assert broker.ensemble.writes == [
        ("write", "/brokers/topics/orders"),
        ("create", "/brokers/topics/orders/partitions/1"),
        ("create", "/brokers/topics/orders/partitions/1/state"),
    ]


async def test_registry_notifies_of_a_changed_configuration_and_removes_old_notifications() -> None:
    broker = await registered()
    broker.put("orders")
    await broker.registry.sync(["orders"])
    assert broker.below("/config/changes") == []
    for number in range(3):
        broker.put("orders", config={"retention.ms": str(number)})
        await broker.registry.sync(["orders"])
    assert len(broker.below("/config/changes")) == 3
    assert json.loads(broker.value("/config/changes/config_change_0000000000")) == {
        "version": 2,
        "entity_path": "topics/orders",
    }
    broker.ensemble.now_ms = CHANGE_EXPIRATION_MS + 1
    broker.put("orders", config={})
    await broker.registry.sync(["orders"])
    assert broker.below("/config/changes") == ["config_change_0000000003"]


async def test_registry_removes_a_topic() -> None:
    broker = await registered()
    broker.put("orders", 3)
    await broker.registry.sync(["orders"])
    broker.remove("orders")
    await broker.registry.sync(["orders"])
    assert broker.below("/brokers/topics") == broker.below("/config/topics") == []
    assert broker.registry.topics == 0


async def test_registry_replaces_a_topic_that_was_deleted_and_created_meanwhile() -> None:
    broker = await registered()
    broker.put("orders", 3, topic_id=TOPIC_ID)
    await broker.registry.sync(["orders"])
    broker.put("orders", 1, topic_id=UUID(int=2))
    broker.ensemble.writes.clear()
    await broker.registry.sync(["orders"])
    assert ("delete", "/brokers/topics/orders") in broker.ensemble.writes
    assert broker.below("/brokers/topics/orders/partitions") == ["0"]


async def test_registry_sync_all_has_the_topics_of_the_image_and_no_others() -> None:
    broker = await registered()
    broker.put("kept", 2)
    broker.put("replaced", 3)
    broker.put("gone", 2)
    await broker.registry.sync_all()
    broker.ensemble.put("/brokers/topics/foreign/partitions/0/state", b"?")
    broker.ensemble.put("/config/topics/configured", b"{}")
    later = Registered(broker.ensemble)
    broker.zookeeper.expire()
    later.image = broker.image
    later.remove("gone")
    later.put("replaced", 1, topic_id=UUID(int=9))
    later.put("new")
    await later.registry.register(lambda: None)
    broker.ensemble.writes.clear()
    await later.registry.sync_all()
    assert later.below("/brokers/topics") == later.below("/config/topics") == ["kept", "new", "replaced"]
    assert later.below("/brokers/topics/replaced/partitions") == ["0"]
    # A write would wake every consumer that watches the topic.
    assert not [path for _, path in broker.ensemble.writes if "kept" in path]


@pytest.mark.parametrize("path", ["/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"])
@pytest.mark.parametrize("value", [b"", b"{", b"null", b'{"partitions":3}', b"[" * 100_000])
async def test_registry_sync_all_mends_values_that_are_no_json(path: str, value: bytes) -> None:
    broker = await registered()
    broker.put("orders")
    await broker.registry.sync_all()
    wanted = broker.value(path)
    broker.ensemble.put(path, value)
    await broker.registry.sync_all()
    assert broker.value(path) == wanted


async def test_registry_writes_a_node_that_is_removed_between_two_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await registered()
    broker.put("orders")
    await broker.registry.sync_all()
    path = "/brokers/topics/orders/partitions/0/state"
    wanted = broker.value(path)
    broker.ensemble.put(path, b"other")
    read = broker.zookeeper.read

    async def read_and_remove(read_path: str) -> NodeContent:
        found = await read(read_path)
        if found.value == b"other":
            broker.ensemble.delete(path)
        return found

    monkeypatch.setattr(broker.zookeeper, "read", read_and_remove)
    await broker.registry.sync_all()
    assert broker.value(path) == wanted


async def test_registry_goes_on_with_other_topics_when_one_is_refused() -> None:
    broker = await registered()
    broker.put("closed")
    broker.put("open")
    broker.ensemble.refusing.add("/brokers/topics/closed")
    await broker.registry.sync_all()
    assert broker.below("/brokers/topics") == ["open"]
    assert broker.registry.refused == {"closed": "/brokers/topics/closed"}
    broker.ensemble.refusing.clear()
    await broker.registry.sync(["closed"])
    assert broker.below("/brokers/topics") == ["closed", "open"]
    assert not broker.registry.refused


@pytest.mark.parametrize("lost", range(1, 8))
async def test_registry_sync_all_completes_what_an_error_left(lost: int) -> None:
    broker = await registered()
    broker.put("orders", 2)
    broker.zookeeper.lose_answer = lost
    with pytest.raises(Unavailable):
        await broker.registry.sync_all()
    await broker.registry.sync_all()
    other = await registered()
    other.image = broker.image
    await other.registry.sync_all()
    assert broker.ensemble.nodes == other.ensemble.nodes


async def test_registry_writes_the_layout_of_0_7() -> None:
    ensemble = Ensemble()
    one = await registered(ensemble, layout=Layout07(1))
    other = await registered(ensemble, layout=Layout07(2), info=broker_info(2, 9093), cluster_id="another")
    assert one.value("/brokers/ids/1") == b"1-17:broker:9092"
    assert one.value("/brokers/ids/2") == b"2-17:broker:9093"
    for broker, partitions in ((one, 3), (other, 2)):
        broker.put("orders", partitions)
        await broker.registry.sync_all()
    assert one.value("/brokers/topics/orders/1") == b"3"
    assert ensemble.read("/brokers/topics/orders/2") == (b"2", other.zookeeper.session_id, 0)
    one.remove("orders")
    await one.registry.sync(["orders"])
    assert one.below("/brokers/topics/orders") == ["2"]
    assert "/cluster/id" not in ensemble.nodes


async def test_registry_names_the_holder_of_its_id_in_the_layout_of_0_7() -> None:
    ensemble = Ensemble()
    await registered(ensemble, layout=Layout07(1))
    with pytest.raises(StaleRegistration):
        await registered(ensemble, layout=Layout07(1))
    with pytest.raises(Conflict, match=r"session 0x1, broker:9092"):
        await registered(ensemble, layout=Layout07(1), info=broker_info(port=9093))
