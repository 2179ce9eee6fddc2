"""Model of the publisher: any deltas, delivered in any grouping, with crashes, end in the same parts."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import tidelog.kernel
from tidelog.kernel.config import Config, keys
from tidelog.kernel.metadata import (
    ALL_BROKERS,
    BrokerImage,
    ConfigOwner,
    ImageChange,
    ImageFollower,
    MetadataDelta,
    MetadataImage,
    topic_image,
)
from tidelog.kernel.metadata.acls import AclEntry
from tidelog.kernel.metadata.publisher import MetadataPublisher
from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential
from tidelog.kernel.seams.metadata import MetadataContext
from tidelog.kernel.testing import FakeClock
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.metadata_memory.store import MemoryMetadata

ENTITIES = [frozenset({("user", name)}) for name in ("alice", None)]
settings = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
names = st.sampled_from(["t", "u", "__internal"])
images = st.builds(
    topic_image, names, st.sampled_from([UUID(int=1), UUID(int=2)]), st.integers(1, 3), settings
)
acls = st.integers(2, 4).map(lambda operation: AclEntry(2, "t", 3, "User:alice", "*", operation, 3))
credentials = st.builds(ScramCredential, st.just(b"s"), st.just(b"k"), st.just(b"v"), st.integers(4096, 4098))
deltas = st.builds(
    MetadataDelta,
    topics=st.one_of(
        images.map(lambda topic: {topic.name: topic}), names.map(lambda name: {name: None}), st.just({})
    ),
    configs=st.dictionaries(st.sampled_from([ALL_BROKERS, ConfigOwner("group", "g")]), settings, max_size=2),
    quotas=st.dictionaries(
        st.sampled_from(ENTITIES), st.dictionaries(st.just("rate"), st.sampled_from([1.0, 2.0])), max_size=2
    ),
    acls=st.dictionaries(st.sampled_from([bytes(16), b"x" * 16]), st.one_of(st.none(), acls)),
    credentials=st.dictionaries(
        st.sampled_from([CredentialKey("alice", 1), CredentialKey("alice", 2)]),
        st.one_of(st.none(), credentials),
        max_size=2,
    ),
    features=st.dictionaries(st.sampled_from(["group.version"]), st.integers(0, 1), max_size=1),
    brokers=st.dictionaries(st.just(1), st.one_of(st.none(), st.just(BrokerImage(3, {}))), max_size=1),
    next_producer_id=st.one_of(st.none(), st.integers(0, 5)),
)


def content(image: MetadataImage) -> dict[str, Any]:
    """All of an image, its mappings as dictionaries; the epoch counts changes, and so their grouping."""
    fields = {field.name: getattr(image, field.name) for field in attrs.fields(MetadataImage)}
    del fields["features_epoch"]
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in fields.items()}


@given(sequence=st.lists(deltas, max_size=8), data=st.data())
def test_apply_and_then_lead_to_one_image_in_any_grouping(
    sequence: list[MetadataDelta], data: st.DataObject
) -> None:
    one_by_one = grouped = MetadataImage("cluster")
    for delta in sequence:
        one_by_one = delta.apply(one_by_one)
    rest = sequence
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        merged, rest = rest[:size], rest[size:]
        whole = MetadataDelta()
        for delta in merged:
            whole = whole.then(delta)
        grouped = whole.apply(grouped)
    assert content(grouped) == content(one_by_one)


class Follower:
    """A part of a broker that has nothing but what the publisher gave it, since it loaded the image."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name = name
        self.calls = calls
        self.seen = MetadataImage()

    def load(self, image: MetadataImage) -> None:
        """Take over an image as a whole, as at a start."""
        self.seen = image

    async def follow(self, change: ImageChange) -> None:
        """Apply a delta, with a checkpoint in between."""
        self.calls.append(self.name)
        assert content(change.before) == content(self.seen)
        await trio.lowlevel.checkpoint()
        self.seen = change.delta.apply(self.seen)
        assert content(change.image) == content(self.seen)


class Cluster:
    """A store that stays, and a broker above it that may be started again."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        config = Config.from_mapping({"storage": "memory"})
        self.store = MemoryMetadata(MetadataContext(config, 1, FakeClock(), self._deliver))
        self.parts: list[Follower] = []
        self.publisher: MetadataPublisher
        self.start()

    def _deliver(self, delta: MetadataDelta) -> None:
        self.publisher.deliver(delta)

    def start(self) -> None:
        """Start a broker on what the store has; what another one had not applied yet is in the image."""
        self.parts = [Follower(name, self.calls) for name in ("first", "second")]
        self.publisher = MetadataPublisher(lambda: self.store.image, self.parts)
        image = self.publisher.begin()
        for part in self.parts:
            part.load(image)


@given(sequence=st.lists(deltas, max_size=8), data=st.data())
def test_publisher_ends_in_the_same_parts_however_deltas_are_grouped_and_after_crashes(
    sequence: list[MetadataDelta], data: st.DataObject
) -> None:
    async def run() -> None:
        cluster, expected = Cluster(), MetadataImage(features=Cluster().store.image.features)
        for delta in sequence:
            await cluster.store.commit(delta)
            expected = delta.apply(expected)
            match data.draw(st.sampled_from(["apply", "later", "crash", "two at once"])):
                case "apply":
                    await cluster.publisher.catch_up()
                case "crash":
                    cluster.start()
                case "two at once":
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(cluster.publisher.catch_up)
                        nursery.start_soon(cluster.publisher.catch_up)
                case _:
                    """Delivered with the next one."""
        await cluster.publisher.catch_up()
        assert content(cluster.store.image) == content(expected)
        for part in cluster.parts:
            assert content(part.seen) == content(expected)
        assert cluster.calls == ["first", "second"] * (len(cluster.calls) // 2)

    trio.run(run)


async def test_catch_up_returns_when_all_parts_have_what_was_delivered_before() -> None:
    started, go = trio.Event(), trio.Event()
    applied: list[MetadataDelta] = []

    class Slow:
        async def follow(self, change: ImageChange) -> None:
            started.set()
            await go.wait()
            applied.append(change.delta)

    publisher = MetadataPublisher(MetadataImage, (Slow(),))
    first, second = MetadataDelta(next_producer_id=1), MetadataDelta(next_producer_id=2)
    async with trio.open_nursery() as nursery:
        publisher.deliver(first)
        nursery.start_soon(publisher.catch_up)
        await started.wait()
        publisher.deliver(second)

        async def second_is_applied() -> None:
            await publisher.catch_up()
            assert applied == [first, second]

        nursery.start_soon(second_is_applied)
        go.set()
    assert applied == [first, second]


async def test_catch_up_of_a_cancelled_caller_leaves_no_part_behind() -> None:
    cluster = Cluster()
    await cluster.store.commit(MetadataDelta(next_producer_id=7))
    with trio.CancelScope() as cancelled:
        cancelled.cancel()
        await cluster.publisher.catch_up()
    assert [part.seen.next_producer_id for part in cluster.parts] == [7, 7]


def test_the_order_of_the_publisher_is_declared_once() -> None:
    """The one that makes a publisher asks for the order, which one method has."""
    folder = Path(next(iter(tidelog.kernel.__path__)))
    calls = [
        (path.name, ast.unparse(call.args[1]))
        for path in folder.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "MetadataPublisher"
    ]
    assert calls == [("broker.py", "self._image_followers()")]
    (declared,) = [
        ast.unparse(node.value)
        for method in ast.walk(ast.parse((folder / "broker.py").read_text()))
        if isinstance(method, ast.FunctionDef) and method.name == "_image_followers"
        for node in ast.walk(method)
        if isinstance(node, ast.Return) and node.value is not None
    ]
    assert re.findall(r"\w+", declared.replace("self.", "")) == [
        "authorizer",
        "quotas",
        "topics",
        "coordinator",
        "dynamic_config",
        "resource_configs",
        "server",
        "sinks",
        "_policy_warnings",
    ]


async def test_the_parts_of_a_broker_follow_a_delta_in_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replica manager and topics, coordinators, configuration, listeners, sinks."""
    followed: list[str] = []
    async with running_broker() as broker:
        parts: dict[str, ImageFollower] = {
            "topics": broker.topics,
            "coordinator": broker.coordinator,
            "configuration": broker.dynamic_config,
            "of resources": broker.resource_configs,
            "listeners": broker.server,
            "sinks": broker.sinks,
        }
        for name, part in parts.items():
            patch_follow(monkeypatch, name, part, followed)
        change = {"log.flush.interval.messages": "7"}
        topic = topic_image("t", UUID(int=1), 1)
        delta = MetadataDelta(topics={"t": topic}, configs={ALL_BROKERS: change})
        await broker.metadata.commit(delta)
        await broker.publisher.catch_up()
        assert followed == [*parts]
        assert broker.topics.get("t").config[keys.FLUSH_MESSAGES] == 7


def patch_follow(
    monkeypatch: pytest.MonkeyPatch, name: str, part: ImageFollower, followed: list[str]
) -> None:
    """Note when a part follows."""
    follow = part.follow

    async def note(change: ImageChange) -> None:
        followed.append(name)
        await follow(change)

    monkeypatch.setattr(part, "follow", note)
