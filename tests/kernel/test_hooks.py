"""Every hook does what docs/hooks.md says: each test uses the page's own example as a plugin."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest
import trio
import trio.testing
from click.testing import CliRunner

from tests.deadlines import DEADLINE_S
from tests.docs.examples import example_of_hook, examples_of_hook, module_of
from tests.docs.packages import copy_installed, write_installed
from tests.kernel.plugins.distributions import import_folder
from tests.log_cleanup import run_policies
from tests.plugins.protocol_kafka.against_kafka.asking import Asker
from tests.plugins.protocol_kafka.interception.produced import send, stored
from tidelog.kernel.config import Config, topic_config
from tidelog.kernel.errors import (
    ConfigError,
    InvalidTopicConfig,
    PluginError,
    PolicyViolation,
    StorageError,
)
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.metadata import MetadataImage
from tidelog.kernel.plugins import configure
from tidelog.kernel.records.batch import iter_batches, parse_header
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.authorizer import Authorizer, Subject
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.seams.partition import AppendResult, Isolation
from tidelog.kernel.seams.quotas import ClientQuotaType
from tidelog.kernel.seams.requests import AclOperation, Principal, ResourceType
from tidelog.kernel.seams.sasl import SaslContext, SaslMechanism
from tidelog.kernel.seams.storage import region_bytes
from tidelog.kernel.seams.tasks import LifespanTask
from tidelog.kernel.stores import open_stores
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.authorizer import AccessRule, AuthorizerConformance
from tidelog.kernel.testing.broker import broker_in_thread, new_broker, running_broker
from tidelog.kernel.testing.cleanup import CleanupPolicyConformance
from tidelog.kernel.testing.compression import CompressionCodecConformance
from tidelog.kernel.testing.indexes import IndexFormatConformance
from tidelog.kernel.testing.sasl import SECRETS, SaslMechanismConformance, Tokens
from tidelog.kernel.testing.suites import suites_of
from tidelog.plugins.client import BlockingClient, ClientSettings, NewTopic, PluginApi, TrioClient
from tidelog.plugins.client.errors import UnsupportedByBroker
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.push_telemetry import PushTelemetryRequest

Example = Callable[[str], str]
T = TypeVar("T")


@pytest.fixture
def example(tmp_path: Path) -> Generator[Example]:
    """Makes a module of the page's example for a hook; gives the module's name."""
    with import_folder(tmp_path) as folder:

        def make(hook: str) -> str:
            folder.module(f"example_{hook}", example_of_hook(hook))
            return f"example_{hook}"

        yield make


PACKAGED = (
    "tidelog_storage_backends",
    "tidelog_index_formats",
    "tidelog_cleanup_policies",
    "tidelog_compression_codecs",
    "tidelog_background_tasks",
    "tidelog_event_listeners",
    "tidelog_request_stages",
    "tidelog_kafka_apis",
    "tidelog_sinks",
)
"""Hooks whose examples are tested as packages of their own, which the broker finds without a setting."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distributions of all packaged examples, as pip installs them."""
    sources = [source for hook in PACKAGED for source in examples_of_hook(hook)]
    site = tmp_path_factory.mktemp("packages")
    return write_installed([(module_of(source), source) for source in sources], site)


@pytest.fixture
def installed(site: Path, tmp_path: Path) -> Generator[Example]:
    """Puts the distributions with a hook's examples on the import path; gives the first module's name."""
    with import_folder(tmp_path / "site"):

        def make(hook: str) -> str:
            modules = [module_of(source) for source in examples_of_hook(hook)]
            for module in modules:
                copy_installed(module, site, tmp_path / "site")
            return modules[0]

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


async def test_tidelog_storage_backends(installed: Example) -> None:
    plugin = installed("tidelog_storage_backends")
    async with running_broker({"storage": "counting"}) as broker:
        (partition,) = (await broker.topics.ensure("t")).partitions
        batch = make_batch([b"counted"])
        partition.log.append_nowait(batch)
        assert sys.modules[plugin].appended_bytes == {partition.topic_partition: len(batch)}
        assert partition.log.read(0, 10_000, Isolation.READ_UNCOMMITTED).size == len(batch)
        await broker.topics.delete("t")


async def test_tidelog_storage_backends_encrypts_what_is_stored(installed: Example, tmp_path: Path) -> None:
    installed("tidelog_storage_backends")
    settings = {
        "storage": "encrypted",
        "encrypted.storage.key": "a secret",
        "log.dirs": str(tmp_path / "data"),
    }
    with pytest.raises(ConfigError, match=r"needs encrypted\.storage\.key: a password"):
        new_broker({**settings, "encrypted.storage.key": ""})
    values = [b"a", b"a plain value" * 10, b"another plain value" * 1000]
    async with running_broker(settings) as broker:
        (partition,) = (await broker.topics.ensure("t")).partitions
        for value in values:
            partition.log.append_nowait(make_batch([value]))
    (stored,) = [file.read_bytes() for file in (tmp_path / "data").rglob("t-0/*.log")]
    assert len(stored) > sum(map(len, values))
    assert b"plain" not in stored
    async with running_broker(settings) as broker:
        log = broker.topics.get("t").partitions[0].log
        found = log.read(0, 100_000, Isolation.READ_COMMITTED, wait=True)
        content = b"".join(map(region_bytes, found.regions))
        batches = [content_of for _, content_of in iter_batches(memoryview(content))]
        assert [
            record.value for each in batches for record in iter_records(each, parse_header(each))
        ] == values


async def test_tidelog_metadata_stores(example: Example, tmp_path: Path) -> None:
    settings = {
        "plugins": example("tidelog_metadata_stores"),
        "metadata": "json",
        "storage": "file",
        "log.dirs": str(tmp_path / "data"),
    }
    async with running_broker(settings) as broker:
        topic = await broker.topics.ensure("t")
        topic.partitions[0].log.append_as_leader(make_batch([b"kept"]))
    assert not (tmp_path / "data/__cluster_metadata-0").exists()
    async with running_broker(settings) as broker:
        (topic,) = broker.topics
        assert topic.partitions[0].log.log_end_offset == 1


async def test_tidelog_metadata_stores_have_to_fit_the_durability_of_the_storage(tmp_path: Path) -> None:
    settings = {"metadata": "memory", "storage": "file", "log.dirs": str(tmp_path / "data")}
    with pytest.raises(ConfigError, match="metadata = memory loses all topics"):
        new_broker(settings)
    broker = new_broker({"metadata": "kraft", "storage": "memory"})
    with pytest.raises(ConfigError, match="needs a storage with log directories"):
        await open_stores(broker.storage, broker.metadata)


async def test_tidelog_controllers(example: Example) -> None:
    settings = {"plugins": example("tidelog_controllers"), "controller": "few-partitions"}
    async with running_broker(settings) as broker:
        await broker.topics.create(TopicSpec("t", 99))
        with pytest.raises(StorageError, match="no more than 100 partitions"):
            await broker.topics.create(TopicSpec("u", 2))
        await broker.topics.create(TopicSpec("u", 1))
        with pytest.raises(StorageError, match="no more than 100 partitions"):
            await broker.topics.grow("u", 2)
        assert len([*broker.topics.partitions()]) == 100
    with pytest.raises(PluginError, match="There is no controller named 'remote'"):
        new_broker({"controller": "remote"})


async def test_tidelog_index_formats(installed: Example, tmp_path: Path) -> None:
    installed("tidelog_index_formats")
    settings = {
        "storage": "file",
        "log.index.format": "listed",
        "log.dirs": str(tmp_path / "data"),
    }
    async with running_broker(settings) as broker:
        (partition,) = (await broker.topics.ensure("t")).partitions
        partition.log.append_nowait(make_batch([b"found without a file"]))
        assert [header.base_offset for header in partition.log.store.headers(0)] == [0]
    assert list((tmp_path / "data/t-0").glob("*.log"))
    assert not list((tmp_path / "data/t-0").glob("*index"))


def loaded(hook: str, number: int = 0) -> ModuleType:
    """One of the page's examples for a hook as a module that no import finds."""
    module = ModuleType(f"example_{hook}_{number}")
    sys.modules[module.__name__] = module  # so that its objects can be pickled
    exec(examples_of_hook(hook)[number], vars(module))
    return module


@pytest.mark.parametrize("policies", ["count", "delete,count"])
async def test_tidelog_cleanup_policies(installed: Example, policies: str) -> None:
    installed("tidelog_cleanup_policies")
    settings = {"cleanup.policy": policies, "segment.ms": "1", "retention.records": "3", "retention.ms": "-1"}
    async with running_broker() as broker:
        kept = await broker.topics.create(TopicSpec("kept", 1, config={"segment.ms": "1"}))
        counted = await broker.topics.create(TopicSpec("counted", 1, config=settings))
        for partition in (*kept.partitions, *counted.partitions):
            for number in range(8):
                partition.log.append_nowait(make_batch([b"x"], timestamps=broker.clock() + 10 * number))
        await run_policies(broker)
        starts = [topic.partitions[0].log.log_start_offset for topic in (kept, counted)]
        assert starts == [0, 5]
        with pytest.raises(InvalidTopicConfig, match=r"any of compact, .*did you mean count"):
            await broker.topics.create(TopicSpec("wrong", 1, config={"cleanup.policy": "cuont"}))


def kept_values(partition: UnifiedLog) -> list[bytes | None]:
    """The values of all records of a log."""
    values: list[bytes | None] = []
    offset = partition.log_start_offset
    while (found := partition.read(offset, 1, Isolation.READ_UNCOMMITTED, wait=True)).size:
        batch = b"".join(region_bytes(region) for region in found.regions)
        header = parse_header(batch)
        values += [record.value for record in iter_records(batch, header)]
        offset = header.next_offset
    return values


@pytest.mark.parametrize(
    ("policies", "values"), [("versions", b"bdefg"), ("delete,versions", b"defg"), ("delete", b"cdefg")]
)
async def test_tidelog_cleanup_policies_that_rewrite(
    installed: Example, policies: str, values: bytes, tmp_path: Path
) -> None:
    installed("tidelog_cleanup_policies")
    settings = {"storage": "file", "log.dirs": str(tmp_path / "data")}
    config = {
        "cleanup.policy": policies,
        "segment.ms": "1",
        "versions.per.key": "2",
        "retention.ms": "55",
    }
    clock = FakeClock()
    async with running_broker(settings, clock=clock) as broker:
        topic = await broker.topics.create(TopicSpec("t", 1, config=config))
        (partition,) = topic.partitions
        for number, key in enumerate(b"xyxxyxz"):
            batch = make_batch([b"abcdefg"[number : number + 1]], keys=[bytes([key])], timestamps=clock())
            partition.log.append_nowait(batch)
            clock.advance(10)
        await run_policies(broker)
        assert b"".join(value or b"" for value in kept_values(partition.log)) == values


class TestTidelogCleanupPolicies(CleanupPolicyConformance, plugin=loaded("tidelog_cleanup_policies")):
    """The example keeps the contract."""

    topic_settings = ({}, {"retention.records": "1"}, {"retention.records": "100"})


class TestTidelogCleanupPoliciesThatRewrite(
    CleanupPolicyConformance, plugin=loaded("tidelog_cleanup_policies", 1)
):
    """The example keeps the contract, and of each key at least the newest record."""

    keeps_newest = True
    topic_settings = ({}, {"versions.per.key": "1"})


class TestTidelogCompressionCodecs(CompressionCodecConformance, plugin=loaded("tidelog_compression_codecs")):
    """The example keeps the contract."""


async def test_tidelog_compression_codecs(installed: Example) -> None:
    installed("tidelog_compression_codecs")
    config = {"compression.type": "bzip2", "compression.bzip2.level": "1"}
    async with running_broker() as broker:
        (partition,) = (await broker.topics.create(TopicSpec("t", 1, config=config))).partitions
        appended = partition.log.append_as_leader(make_batch([b"squeezed" * 1000] * 3))
        assert not isinstance(appended, AppendResult)
        assert (await appended).last_offset == 2
        found = partition.log.read(0, 10_000, Isolation.READ_UNCOMMITTED)
        batch = b"".join(map(region_bytes, found.regions))
        header = parse_header(batch)
        assert (header.codec, batch[61:65]) == (5, b"BZh1")
        assert [record.value for record in iter_records(batch, header)] == [b"squeezed" * 1000] * 3
        squeezed = partition.log.append_as_leader(bytearray(batch))
        kept = squeezed if isinstance(squeezed, AppendResult) else await squeezed
        again = partition.log.read(kept.base_offset, 10_000, Isolation.READ_UNCOMMITTED)
        # It is stored as it is.
        assert b"".join(map(region_bytes, again.regions))[61:] == batch[61:]


def test_a_compression_codec_with_an_id_that_is_taken_is_refused(example: Example, tmp_path: Path) -> None:
    plugin = example("tidelog_compression_codecs")
    source = Path(str(sys.modules.get(plugin, tmp_path / f"{plugin}.py")))
    other = source.read_text().replace('name = "bzip2"', 'name = "bz"').replace("bzip2.level", "bz.level")
    (tmp_path / "other_codec.py").write_text(other)
    with pytest.raises(PluginError, match="bzip2 and bz have the same id 5; block the plugin of one"):
        configure({"plugins": f"{plugin},other_codec"})
    (tmp_path / "third_codec.py").write_text(other.replace("id = 5", "id = 8"))
    with pytest.raises(PluginError, match="'bz' has the id 8: ids are 1 to 7"):
        configure({"plugins": "third_codec"})


class TestTidelogIndexFormats(IndexFormatConformance, plugin=loaded("tidelog_index_formats")):
    """What the page's example of an index format has to stand."""


def test_tidelog_wire_codecs(example: Example) -> None:
    settings = {
        "plugins": example("tidelog_wire_codecs"),
        "listeners": "LINES://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,LAN://127.0.0.1:0",
        "listener.codec.map": "LINES:lines",
        "listener.security.protocol.map": "LAN:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    with broker_in_thread(settings) as running:
        listeners = running.broker.listeners
        assert running.bootstrap == f"{listeners['PLAINTEXT']},{listeners['LAN']}"
        host, _, port = listeners["LINES"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
            connection.sendall(b"how many?\nand n")
            assert connection.recv(100) == b"0 topics\n"
            connection.sendall(b"ow?\n")
            assert connection.recv(100) == b"0 topics\n"


async def test_tidelog_transports(example: Example) -> None:
    plugin = example("tidelog_transports")
    settings = {
        "plugins": plugin,
        "listeners": "METERED://127.0.0.1:0",
        "listener.security.protocol.map": "METERED:METERED",
    }
    async with running_broker(settings) as broker, TrioClient(broker.listeners["METERED"]) as client:
        await client.create_topics([NewTopic("t", partitions=1)])
        assert sys.modules[plugin].received["127.0.0.1"] > 50


async def test_tidelog_sasl_mechanisms(example: Example, tmp_path: Path) -> None:
    plugin, tokens = example("tidelog_sasl_mechanisms"), tmp_path / "tokens"
    tokens.write_text("right-for-alice-1 alice\nright-for-bob-22 bob\n\n")
    settings = {
        "plugins": plugin,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "TOKEN-FILE",
        "token.file": str(tokens),
    }
    async with running_broker(settings) as broker:
        authentication = broker.authentication_of("SASL_PLAINTEXT")
        assert authentication is not None
        mechanism = authentication.mechanisms["TOKEN-FILE"]

        class Suite(SaslMechanismConformance):
            replayable = True

            def mechanism(self) -> SaslMechanism:
                return mechanism

            def tokens(self, user: str, secret: str) -> Tokens:
                # Whose it is is in the file alone.
                yield secret.encode() if secret == SECRETS.get(user) else f"{user} {secret}".encode()

        for name, test in inspect.getmembers(Suite(), inspect.iscoroutinefunction):
            if name.startswith("test_"):
                await test()
        tokens.write_text("")
        assert isinstance(await Suite().log_in("alice", SECRETS["alice"]), str)
        tokens.unlink()
        with pytest.raises(ConfigError, match="cannot be used: FileNotFoundError"):
            broker.plugins.sasl_mechanism("TOKEN-FILE").create(
                SaslContext(broker.config, "SASL_PLAINTEXT", lambda: broker.image, broker.clock)
            )


async def test_tidelog_group_coordinators(example: Example) -> None:
    settings = {"plugins": example("tidelog_group_coordinators"), "coordinator": "volatile"}
    async with running_broker(settings, clock=FakeClock()) as broker:
        await broker.topics.ensure("t")
        await broker.coordinator.prepare_groups()
        broker.coordinator.offsets.commit(OffsetCommit("group", [OffsetToCommit("t", 0, 5)]))
        fetched = broker.coordinator.offsets.fetch(OffsetFetch("group", {"t": [0]}))
        topic_id = broker.topics.get("t").topic_id.bytes
        known = CommittedOffset(5, commit_timestamp_ms=broker.clock(), topic_id=topic_id)
        assert fetched["t"][0] == known
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
            begun = broker.coordinator.consumer_groups.heartbeat(
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
            assert not isinstance(begun, HeartbeatAnswer)
            assigned.append((await begun).assignment)
        assert assigned == [{topic.topic_id.bytes: frozenset([0])}, {}]
        described = broker.coordinator.consumer_groups.describe("group")
        assert described.assignor == "first-takes-all"


async def test_tidelog_sinks(installed: Example, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    plugin = installed("tidelog_sinks")
    settings = {"sinks": {"tally": {"flights": {"topics": "flights"}}}}
    async with running_broker(settings) as broker:
        for topic in ("flights", "planes"):
            (partition,) = (await broker.topics.ensure(topic)).partitions
            partition.log.append_nowait(make_batch([b"a", b"b"]))
            partition.log.append_nowait(make_batch([b"c"]))
        await trio.testing.wait_all_tasks_blocked()
        found = broker.sinks.statistics()["tally.flights"]
        assert (found.lag, found.read_batches, found.partitions) == (0, 2, 1)
    assert [record.message for record in caplog.records if record.name == plugin] == [
        "tally.flights: {'flights': 3}"
    ]


async def test_tidelog_background_tasks(installed: Example, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    plugin = installed("tidelog_background_tasks")
    async with running_broker() as broker:
        tasks = {task.name: task for task in broker.plugins.background_tasks(broker)}
        assert isinstance(tasks["closing-time"], LifespanTask)
        assert plugin not in {record.name for record in caplog.records}
        assert broker.tasks.statistics()["closing-time"].runs == 0
    assert [record.message for record in caplog.records if record.name == plugin] == [
        "the last request is answered"
    ]
    assert broker.tasks.statistics()["closing-time"].failures == 0


async def test_tidelog_event_listeners(installed: Example) -> None:
    plugin = installed("tidelog_event_listeners")
    async with running_broker() as broker:
        for name in ("a", "b"):
            await broker.topics.ensure(name)
        await broker.topics.delete("a")
        assert sys.modules[plugin].names == {"b"}


def test_tidelog_request_stages(
    installed: Example, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(importlib.import_module(installed("tidelog_request_stages")), "SLOW_SECONDS", 0.0)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    for client_id, code in (("viewer", ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ("editor", 0)):
        with (
            broker_in_thread() as running,
            BlockingClient(running.bootstrap, settings=ClientSettings(client_id=client_id)) as client,
        ):
            (created,) = client.request(CreateTopicsRequest(topics=[topic], timeout_ms=1000)).topics
            assert (created.name, created.error_code) == ("t", code)
            assert f"CreateTopics of {client_id} took" in caplog.text


async def test_tidelog_meters(example: Example) -> None:
    async with running_broker({"plugins": example("tidelog_meters")}) as broker:
        for name in ("t", "u"):
            await broker.topics.create(TopicSpec(name, 1))
        await broker.topics.delete("t")
        found = {family.name: family.samples for family in broker.meters.collect()}
    assert [value for value, _ in found["example_topic_changes_total"]] == [2, 1]


async def test_tidelog_interceptors(example: Example) -> None:
    clock, settings = (
        FakeClock(),
        {
            "plugins": example("tidelog_interceptors"),
            "interceptors.times.type": "arrival",
            "interceptors.times.arrival.header": "came",
        },
    )
    async with running_broker(settings, clock=clock) as broker:
        with pytest.raises(PolicyViolation, match="t is to have 13 partitions, 12 are allowed"):
            await broker.topics.create(TopicSpec("t", 13))
        await broker.topics.create(TopicSpec("t", 1))
        assert (await send(broker, make_batch([b"sent"]), topic="t")).error_code == 0
        refused = await send(broker, make_batch([b"sent", b""]), topic="t")
        assert refused.error_message == "record 1: an empty value says nothing"
        ((_, (record,)),) = stored(broker, "t")
        assert record.headers == (("came", str(clock()).encode()),)


async def test_tidelog_authorizers(example: Example, tmp_path: Path) -> None:
    settings = {"plugins": example("tidelog_authorizers"), "authorizer.class.name": "toml"}
    allow = example_of_hook("tidelog_authorizers").partition(":\n\n")[2].partition('"""')[0]
    deny = allow.replace("[[allow]]", "[[deny]]").replace('host = "*"', 'host = "192.0.2.7"')
    (tmp_path / "rules.toml").write_text(allow + deny)
    with pytest.raises(ConfigError, match=r"toml\.rules\.file = .* cannot be used"):
        new_broker(settings)
    authorization = new_broker({**settings, "toml.rules.file": tmp_path / "rules.toml"}).authorization
    assert authorization is not None
    billing, asked = (
        Principal("User", "billing"),
        (AclOperation.READ, ResourceType.TOPIC, "orders-eu", "Fetch"),
    )
    assert authorization.allows(Subject(billing, "192.0.2.6", "PLAINTEXT"), *asked)
    assert not authorization.allows(Subject(billing, "192.0.2.7", "PLAINTEXT"), *asked)
    with pytest.raises(PluginError, match="There is no authorizer named 'tolm'"):
        new_broker({**settings, "authorizer.class.name": "tolm"})


async def test_tidelog_quota_callbacks(example: Example) -> None:
    chosen = {"plugins": example("tidelog_quota_callbacks"), "client.quota.callback.class": "classes"}
    quotas = new_broker({**chosen, "quota.classes.batch.bytes": 100}).client_quotas
    assert quotas is not None
    quotas.load(MetadataImage())
    assert quotas.enforced == {ClientQuotaType.PRODUCE, ClientQuotaType.FETCH}
    of_class = quotas.account(ClientQuotaType.PRODUCE, Principal("User", "billing.batch"), "a")
    assert of_class is not None
    assert of_class.window_amount == 1000
    assert quotas.account(ClientQuotaType.PRODUCE, Principal("User", "web.online"), "a") is None
    with pytest.raises(PluginError, match="There is no quota callback named 'clases'"):
        new_broker({**chosen, "client.quota.callback.class": "clases"})


class TestTidelogAuthorizers(AuthorizerConformance):
    """The example keeps the contract."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.file = tmp_path / "rules.toml"

    def authorizer(self, rules: Sequence[AccessRule]) -> Authorizer:
        tables = "".join(map(toml_rule, rules))
        self.file.write_text(tables)
        return self.broken()

    def broken(self) -> Authorizer:
        if not self.file.exists():
            self.file.write_text('[[allow]]\nprincipal = "*"\n')
        authorizer: Authorizer = loaded("tidelog_authorizers").TomlRules(str(self.file))
        return authorizer


def toml_rule(rule: AccessRule) -> str:
    """The rule as the example reads it."""
    fields = {
        "principal": "*" if rule.principal is None else str(rule.principal),
        "host": rule.host or "*",
        "resource": rule.resource_type.name,
        "name": "*" if rule.name is None else rule.name + "*" * rule.is_prefix,
        "operations": ["*" if rule.operation is None else rule.operation.name],
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    return "\n".join([f"[[{'allow' if rule.allowed else 'deny'}]]", *lines, ""])


def test_tidelog_conformance_suites(example: Example) -> None:
    plugin = example("tidelog_conformance_suites")
    found = vars(suites_of(plugin))
    (name,) = [name for name in found if name.startswith("Test")]
    assert name == "TestFewSegments"
    assert issubclass(found[name], CleanupPolicyConformance)
    assert found[name].plugin is sys.modules[plugin]
    suite = found[name]()
    config = Config.from_mapping({}, suite.plugin.tidelog_config_keys())
    topics = [topic_config(config, settings) for settings in suite.topic_settings]
    (policy,) = suite.plugin.tidelog_cleanup_policies()
    suite.test_plan_can_be_carried_out(policy, topics)
    suite.test_plan_comes_to_an_end(policy, topics)


def test_tidelog_kafka_apis(installed: Example) -> None:
    plugin = installed("tidelog_kafka_apis")
    with broker_in_thread() as running, BlockingClient(running.bootstrap) as client:
        trio.from_thread.run(running.broker.topics.ensure, "t", trio_token=running.token)
        (partition,) = running.broker.topics.get("t").partitions
        trio.from_thread.run_sync(
            partition.log.append_as_leader, make_batch([b"a", b"b"]), trio_token=running.token
        )
        module = sys.modules[plugin]
        served = client.request(ApiVersionsRequest(client_software_name="tests", client_software_version="1"))
        assert ApiVersion(api_key=20_000, min_version=0, max_version=1) in served.api_keys
        (offered,) = module.tidelog_kafka_apis()
        declared = PluginApi(20_000, "TideLevel", module.TideLevelRequest, module.TideLevelResponse)
        for api in (offered, declared):
            for at_most in (0, None):
                for topic, code, levels in (("t", 0, [(0, 2)]), ("u", 3, [])):
                    request = module.TideLevelRequest(topic=topic)
                    answer = client.request(request, api=api, at_most=at_most)
                    found = [(each.partition, each.records) for each in answer.levels]
                    assert (answer.error_code, found) == (code, levels)
        with pytest.raises(
            TypeError, match="MetadataRequest is no request of TideLevel: that is TideLevelRequest"
        ):
            client.request(MetadataRequest(topics=[]), api=declared)
        absent = PluginApi(20_001, "EbbLevel", module.TideLevelRequest, module.TideLevelResponse)
        with pytest.raises(UnsupportedByBroker, match="EbbLevel"):
            client.request(module.TideLevelRequest(topic="t"), api=absent)


def test_tidelog_client_telemetry_receivers(example: Example, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    plugin = example("tidelog_client_telemetry_receivers")
    with broker_in_thread({"plugins": plugin}) as running, closing(Asker(running.bootstrap)) as asker:
        served = asker.ask(API_VERSIONS, 0, ApiVersionsRequest())
        assert {71, 72} <= {api.api_key for api in served.api_keys}
        get = GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16))
        found = asker.ask(GET_TELEMETRY_SUBSCRIPTIONS, 0, get)
        push = PushTelemetryRequest(
            client_instance_id=found.client_instance_id,
            subscription_id=found.subscription_id,
            terminating=False,
            compression_type=0,
            metrics=b"metrics",
        )
        assert asker.ask(PUSH_TELEMETRY, 0, push).error_code == 0
    assert "tests pushed 7 bytes" in caplog.messages


def test_tidelog_hookspecs(example: Example, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    plugin = example("tidelog_hookspecs")
    tmp_path.joinpath("polite.py").write_text(
        "from tidelog.kernel import hookimpl\n"
        "@hookimpl\n"
        "def tidelog_greetings():\n"
        "    return ['good morning']\n"
    )
    with broker_in_thread({"plugins": f"polite,{plugin}"}):
        assert "polite says good morning" in caplog.messages
    with pytest.raises(PluginError, match=r"The plugin polite .* unknown hook 'tidelog_greetings'"):
        configure({"plugins": "polite"})


def test_tidelog_commands(example: Example) -> None:
    _, plugins = configure({"plugins": example("tidelog_commands")})
    (command,) = [command for command in plugins.commands() if command.name == "greet"]
    assert CliRunner().invoke(command, ["Ada"]).output == "hello Ada\n"
