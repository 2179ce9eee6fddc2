"""kcat in a group, and Apache Kafka's own tool that looks after groups."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.peers import run_kafka_tool

from .brokers import running_broker
from .kcat import kcat, kcat_command

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from .brokers import Broker

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUP = "readers"
PARTITIONS = 2
LINES = b"".join(b"value %d\n" % number for number in range(100))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that does not wait for more members before the first assignment."""
    settings = {"group.initial.rebalance.delay.ms": "0", "num.partitions": str(PARTITIONS)}
    with running_broker(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


def _groups(broker: Broker, *arguments: str, fails: bool = False) -> str:
    """What the tool prints; `fails` when it has to be refused."""
    ended = run_kafka_tool(GROUPS, ["--bootstrap-server", broker.bootstrap, *arguments])
    assert (ended.returncode != 0 or "Error" in ended.stdout) == fails, ended.stdout + ended.stderr
    return ended.stdout


def _produce(broker: Broker, topic: str) -> None:
    for partition in range(PARTITIONS):
        kcat(broker.bootstrap, "-P", "-t", topic, "-p", str(partition), stdin=LINES)


def _read_in_group(broker: Broker, topic: str) -> int:
    """How many records a member reads from where the group was left, up to the end."""
    settings = ["-X", "auto.offset.reset=earliest", "-e", "-q", "-f", "%p %o\n"]
    return len(kcat(broker.bootstrap, "-G", GROUP, *settings, topic).splitlines())


def _rows(told: str) -> list[dict[str, str]]:
    """A table of the tool: each row by the names of its columns."""
    lines = [line.split() for line in told.splitlines() if line.strip()]
    return [dict(zip(lines[0], row, strict=False)) for row in lines[1:]]


def _rows_after(told: str, first_column: str) -> list[dict[str, str]]:
    """The rows of the table that begins with that column, whatever is printed before it."""
    return _rows(told[told.index(first_column) :])


def test_a_group_is_listed_described_reset_and_deleted(broker: Broker, topic: str) -> None:
    _produce(broker, topic)
    assert _read_in_group(broker, topic) == 200
    assert _read_in_group(broker, topic) == 0
    (listed,) = _rows_after(_groups(broker, "--list", "--state", "--type"), "GROUP")
    assert (listed["GROUP"], listed["TYPE"], listed["STATE"]) == (GROUP, "Classic", "Empty")
    described = _rows_after(_groups(broker, "--describe", "--group", GROUP), "GROUP")
    assert {row["PARTITION"]: (row["CURRENT-OFFSET"], row["LAG"]) for row in described} == {
        "0": ("100", "0"),
        "1": ("100", "0"),
    }
    reset = ["--reset-offsets", "--group", GROUP, "--topic", f"{topic}:1", "--execute"]
    (moved,) = _rows_after(_groups(broker, *reset, "--shift-by", "-30"), "GROUP")
    assert (moved["PARTITION"], moved["NEW-OFFSET"]) == ("1", "70")
    assert _read_in_group(broker, topic) == 30
    forgotten = _groups(broker, "--delete-offsets", "--group", GROUP, "--topic", f"{topic}:0")
    assert "Successful" in forgotten
    assert _read_in_group(broker, topic) == 100
    assert "successful" in _groups(broker, "--delete", "--group", GROUP)
    assert GROUP not in _groups(broker, "--list").split()


@pytest.mark.long
def test_a_group_with_a_member_is_described_and_not_touched(broker: Broker, topic: str) -> None:
    _produce(broker, topic)
    with _member(broker, topic):
        members = _rows_after(_groups(broker, "--describe", "--group", GROUP, "--members"), "GROUP")
        assert [(row["CLIENT-ID"], row["#PARTITIONS"]) for row in members] == [("rdkafka", "2")]
        (state,) = _rows_after(_groups(broker, "--describe", "--group", GROUP, "--state"), "GROUP")
        assert state["STATE"] == "Stable"
        reset = ["--reset-offsets", "--group", GROUP, "--all-topics", "--to-earliest", "--execute"]
        assert "inactive" in _groups(broker, *reset, fails=True)
        assert "not empty" in _groups(broker, "--delete", "--group", GROUP, fails=True)


@contextmanager
def _member(broker: Broker, topic: str) -> Generator[None]:
    """A member that has read something."""
    command = kcat_command(broker.bootstrap, "-G", GROUP, "-u", "-X", "auto.offset.reset=earliest", topic)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as member:
        try:
            assert member.stdout is not None
            assert member.stdout.readline()
            yield
        finally:
            member.kill()
