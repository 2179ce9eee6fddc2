"""Every hook does what docs/hooks.md says: each test uses the page's own example as a plugin."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.deadlines import DEADLINE_S
from tests.docs.examples import examples_of
from tests.kernel.plugins.distributions import import_folder
from tidelog.kernel.config import topic_config
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.plugins import configure
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.broker import broker_in_thread, running_broker

Example = Callable[[str], str]


@pytest.fixture
def example(tmp_path: Path) -> Generator[Example]:
    """Makes a module of the page's example for a hook; gives the module's name."""
    with import_folder(tmp_path) as folder:

        def make(hook: str) -> str:
            (source,) = [block.text for block in examples_of("hooks.md") if f"def {hook}(" in block.text]
            folder.module(f"example_{hook}", source)
            return f"example_{hook}"

        yield make


def test_tidelog_config_keys(example: Example) -> None:
    plugin = example("tidelog_config_keys")
    config, plugins = configure({"plugins": plugin, "greeting.text": "moin", "log.greeting.times": 3})
    keys = {key.name: key for key in plugins.config_keys()}
    assert config[keys["greeting.text"]] == "moin"
    assert topic_config(config, {})[keys["greeting.times"]] == 3
    assert topic_config(config, {"greeting.times": "7"})[keys["greeting.times"]] == 7
    with pytest.raises(ConfigError, match=r"greeting\.text = '' \(code\): is empty"):
        configure({"plugins": plugin, "greeting.text": ""})


async def test_tidelog_storage_backends(example: Example) -> None:
    settings = {"plugins": example("tidelog_storage_backends"), "storage": "forgetful"}
    async with running_broker(settings) as broker:
        await broker.topics.ensure("t")
        assert len(broker.topics) == 1


async def test_tidelog_index_formats(example: Example, tmp_path: Path) -> None:
    settings = {
        "plugins": example("tidelog_index_formats"),
        "storage": "file",
        "log.index.format": "another",
        "log.dirs": str(tmp_path / "data"),
    }
    async with running_broker(settings) as broker:
        (partition,) = (await broker.topics.ensure("t")).partitions
        partition.append(make_batch([b"found without a file"]))
        assert [header.base_offset for header in partition.store.headers(0)] == [0]
    assert list((tmp_path / "data/t-0").glob("*.log"))
    assert not list((tmp_path / "data/t-0").glob("*index"))


def test_tidelog_wire_codecs(example: Example) -> None:
    settings = {
        "plugins": example("tidelog_wire_codecs"),
        "listeners": "LINES://127.0.0.1:0",
        "listener.codec.map": "LINES:lines",
    }
    with broker_in_thread(settings) as running:
        host, _, port = running.broker.listeners["LINES"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
            connection.sendall(b"how many?\nand n")
            assert connection.recv(100) == b"0 topics\n"
            connection.sendall(b"ow?\n")
            assert connection.recv(100) == b"0 topics\n"


async def test_tidelog_group_coordinators(example: Example) -> None:
    settings = {"plugins": example("tidelog_group_coordinators"), "coordinator": "volatile"}
    async with running_broker(settings, clock=FakeClock()) as broker:
        await broker.topics.ensure("t")
        await broker.coordinator.prepare_groups()
        broker.coordinator.offsets.commit(OffsetCommit("group", [OffsetToCommit("t", 0, 5)]))
        fetched = broker.coordinator.offsets.fetch(OffsetFetch("group", {"t": [0]}))
        assert fetched["t"][0] == CommittedOffset(5, commit_timestamp_ms=broker.clock())
        assert [topic.name for topic in broker.topics] == ["t"]


async def test_tidelog_partition_assignors(example: Example) -> None:
    settings = {
        "plugins": example("tidelog_partition_assignors"),
        "coordinator": "memory",
        "group.consumer.assignors": "range,first-takes-all",
    }
    async with running_broker(settings) as broker:
        topic = await broker.topics.ensure("t")
        assigned = []
        for member_id in ("b", "a"):
            joined = await broker.coordinator.consumer_groups.heartbeat(
                ConsumerGroupHeartbeat(
                    "group",
                    member_id,
                    member_epoch=0,
                    rebalance_timeout_ms=1_000,
                    topic_names=frozenset("t"),
                    server_assignor="first-takes-all",
                    owned={},
                )
            )
            assigned.append(joined.assignment)
        assert assigned == [{topic.topic_id.bytes: frozenset([0])}, {}]
        described = broker.coordinator.consumer_groups.describe("group")
        assert described.assignor == "first-takes-all"


async def test_tidelog_background_tasks(example: Example, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    plugin = example("tidelog_background_tasks")
    async with running_broker({"plugins": plugin}) as broker:
        await broker.topics.ensure("t")
        task = broker.plugins.background_tasks(broker)[-1]
        assert isinstance(task, PeriodicTask)
        assert (task.name, task.interval_ms, task.jitter_ms) == ("count-topics", 60_000, 1_000)
        await task.run()
        assert broker.tasks.statistics()["count-topics"].failures == 0
    ready, *counted, ended = [record for record in caplog.records if record.name == plugin]
    assert ready.message == "the broker is about to serve"
    assert vars(counted[-1])["topics"] == 1
    assert ended.message == "the broker has served its last request"


async def test_tidelog_event_listeners(example: Example) -> None:
    plugin = example("tidelog_event_listeners")
    async with running_broker({"plugins": plugin}) as broker:
        names: set[str] = sys.modules[plugin].inventory.names
        for name in ("a", "b"):
            await broker.topics.ensure(name)
        await broker.topics.delete("a")
        assert names == {"b"}


def test_tidelog_commands(example: Example) -> None:
    _, plugins = configure({"plugins": example("tidelog_commands")})
    (command,) = [command for command in plugins.commands() if command.name == "greet"]
    assert CliRunner().invoke(command, ["Ada"]).output == "hello Ada\n"
