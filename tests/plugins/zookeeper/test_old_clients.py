"""Consumers and tools of Kafka 0.8 and 0.10, which find a broker and have their offsets in ZooKeeper."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from kazoo.exceptions import NoNodeError

from tests.clients.kcat import kcat
from tests.deadlines import DEADLINE_S
from tests.peers import (
    run_zookeeper_age_tool,
    running_tidelog,
    running_zookeeper,
    zookeeper_age_command,
)
from tests.plugins.zookeeper.observer import observing, wait_until, wait_until_there

pytestmark = pytest.mark.long

RELEASES = ("0.8.2.2", "0.10.2.2")


@attrs.frozen
class Cluster:
    """A broker that is registered at `connect`."""

    connect: str
    bootstrap: str

    def topics(self, command: str, *arguments: str) -> None:
        words = [
            sys.executable,
            "-m",
            "tidelog.kernel",
            "topics",
            command,
            "--bootstrap-server",
            self.bootstrap,
        ]
        subprocess.run([*words, *arguments], check=True, timeout=DEADLINE_S, capture_output=True)

    def produce(self, topic: str, partition: int, records: range) -> None:
        lines = "".join(f"{number}\n" for number in records)
        kcat(self.bootstrap, "-P", "-t", topic, "-p", str(partition), stdin=lines.encode())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    """A broker in a ZooKeeper."""
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        connect = f"{server.connect}/kafka"
        settings = {"zookeeper.connect": connect}
        with running_tidelog(tmp_path_factory.mktemp("tidelog"), settings=settings) as broker:
            yield Cluster(connect, broker.bootstrap)


@contextmanager
def console_consumer(
    release: str, cluster: Cluster, folder: Path, *arguments: str, **properties: str
) -> Generator[subprocess.Popen[str]]:
    """The old console consumer, which reads from the beginning."""
    file = folder / "consumer.properties"
    file.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in properties.items()))
    words = ["--zookeeper", cluster.connect, "--from-beginning", "--consumer.config", str(file), *arguments]
    command = zookeeper_age_command(release, "kafka.tools.ConsoleConsumer", words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as consumer:
        try:
            yield consumer
        finally:
            consumer.kill()


def read_all(consumer: subprocess.Popen[str]) -> list[int]:
    """What it reads until it ends by itself."""
    printed, _ = consumer.communicate(timeout=DEADLINE_S)
    assert consumer.returncode == 0
    return sorted(int(line) for line in printed.split())


@pytest.mark.parametrize("release", RELEASES)
def test_old_console_consumer_reads_everything(release: str, cluster: Cluster, tmp_path: Path) -> None:
    topic, group = f"read-{release}", f"group-{release}"
    cluster.topics("create", topic, "--partitions", "3")
    for partition in range(3):
        cluster.produce(topic, partition, range(100 * partition, 100 * partition + 100))
    words = ("--topic", topic, "--max-messages", "300")
    with console_consumer(release, cluster, tmp_path, *words, group_id=group) as consumer:
        assert read_all(consumer) == [*range(300)]
    checked = run_zookeeper_age_tool(
        release, "kafka.tools.ConsumerOffsetChecker", "--zookeeper", cluster.connect, "--group", group
    )
    rows = [line.split() for line in checked.splitlines()[1:]]
    assert rows == [[group, topic, str(number), "100", "100", "0", "none"] for number in range(3)]


@pytest.mark.parametrize("release", RELEASES)
def test_old_consumer_finds_new_topics_and_partitions(release: str, cluster: Cluster, tmp_path: Path) -> None:
    first, second = f"found-1-{release}", f"found-2-{release}"
    cluster.topics("create", first)
    cluster.produce(first, 0, range(10))
    words = ("--whitelist", rf"found-\d-{release}", "--max-messages", "30")
    group = f"finder-{release}"
    with (
        console_consumer(release, cluster, tmp_path, *words, group_id=group) as consumer,
        observing(cluster.connect) as observer,
    ):
        wait_until_there(observer, f"/consumers/{group}/owners/{first}/0")
        cluster.topics("create", second)
        cluster.topics("alter", first, "--partitions", "2")
        for name in (f"{second}/0", f"{first}/1"):
            wait_until_there(observer, f"/consumers/{group}/owners/{name}")
        cluster.produce(second, 0, range(10, 20))
        cluster.produce(first, 1, range(20, 30))
        assert read_all(consumer) == [*range(30)]


@pytest.mark.parametrize("release", RELEASES)
def test_old_consumers_of_one_group_share_the_partitions(
    release: str, cluster: Cluster, tmp_path: Path
) -> None:
    topic, group = f"shared-{release}", f"sharers-{release}"
    cluster.topics("create", topic, "--partitions", "4")
    with observing(cluster.connect) as observer:
        owners = f"/consumers/{group}/owners/{topic}"

        def shares() -> list[int]:
            """How many partitions each consumer owns."""
            if not observer.exists(owners):
                return []
            try:
                found = [observer.get(f"{owners}/{name}")[0] for name in observer.get_children(owners)]
            except NoNodeError:  # a rebalance has just begun
                return []
            return sorted(found.count(owner) for owner in {*found})

        one, two = tmp_path / "one", tmp_path / "two"
        one.mkdir()
        two.mkdir()
        timeouts = {"zookeeper_session_timeout_ms": "2000", "group_id": group}
        with console_consumer(release, cluster, one, "--topic", topic, **timeouts):
            wait_until(lambda: shares() == [4])
            with console_consumer(release, cluster, two, "--topic", topic, **timeouts):
                wait_until(lambda: shares() == [2, 2])
            # It was killed: its session expires first.
            wait_until(lambda: shares() == [4])


@pytest.mark.parametrize("release", [*RELEASES, "2.8.2"])
def test_old_topic_command_lists_and_describes(release: str, cluster: Cluster) -> None:
    topic = f"described-{release}"
    cluster.topics("create", topic, "--partitions", "2", "--config", "retention.ms=5")
    words = ("kafka.admin.TopicCommand", "--zookeeper", cluster.connect)
    assert topic in run_zookeeper_age_tool(release, *words, "--list").split()
    printed = run_zookeeper_age_tool(release, *words, "--describe", "--topic", topic)
    assert re.search(r"PartitionCount: ?2\tReplicationFactor: ?1\tConfigs: ?retention\.ms=5", printed)
    assert len(re.findall(r"Leader: 1\tReplicas: 1\tIsr: 1", printed)) == 2


def test_old_config_command_describes(cluster: Cluster) -> None:
    cluster.topics("create", "configured", "--config", "retention.ms=7")
    words = ("--zookeeper", cluster.connect, "--describe", "--entity-type", "topics", "--entity-name")
    printed = run_zookeeper_age_tool("0.10.2.2", "kafka.admin.ConfigCommand", *words, "configured")
    assert "retention.ms=7" in printed


def test_old_consumer_group_command_describes_a_group(cluster: Cluster, tmp_path: Path) -> None:
    cluster.topics("create", "grouped")
    cluster.produce("grouped", 0, range(5))
    words = ("--topic", "grouped", "--max-messages", "5")
    with console_consumer("0.10.2.2", cluster, tmp_path, *words, group_id="described") as consumer:
        assert read_all(consumer) == [*range(5)]
    described = ("--zookeeper", cluster.connect, "--describe", "--group", "described")
    printed = run_zookeeper_age_tool("0.10.2.2", "kafka.admin.ConsumerGroupCommand", *described)
    assert re.search(r"grouped +0 +5 +5 +0 ", printed)
