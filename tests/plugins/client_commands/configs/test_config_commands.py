"""`tidelog configs` against tidelog and against Apache Kafka."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import wait_until
from tests.kernel.cli.running import tidelog_in_process
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise


class Configs:
    """The commands with one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return tidelog_in_process("configs", command, "--bootstrap-server", self.bootstrap, *arguments)

    def succeeded(self, command: str, *arguments: str) -> str:
        done = self.run(command, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def keys(self, *arguments: str) -> dict[str, Any]:
        """What `describe` shows, by key."""
        done = self.run("describe", "--json", *arguments)
        assert done.returncode == 0
        return {each["name"]: each for each in json.loads(done.stdout)}

    def failed(self, command: str, *arguments: str, code: int = 1) -> str:
        done = self.run(command, *arguments)
        assert (done.returncode, done.stdout) == (code, "")
        return done.stderr


@pytest.fixture
def configs(real_broker: str) -> Configs:
    return Configs(real_broker)


@pytest.fixture
def topic(real_broker: str) -> str:
    name = f"orders-{uuid.uuid4().hex[:12]}"
    with BlockingClient(real_broker) as client:
        or_raise(client.create_topics([NewTopic(name, 1)]))
        or_raise(client.list_offsets([TopicPartition(name, 0)]))
    return name


def test_keys_of_a_topic_are_set_shown_and_deleted(configs: Configs, topic: str) -> None:
    checked = configs.succeeded("alter", "topic", topic, "--set", "retention.ms=5000", "--validate-only")
    assert checked == f"The configuration of topic '{topic}' could be changed so; it was not.\n"
    assert "retention.ms" not in configs.keys("topic", topic)
    changed = configs.succeeded(
        "alter", "topic", topic, "--set", "retention.ms=5000", "--append", "cleanup.policy=compact"
    )
    assert changed == f"The configuration of topic '{topic}' was changed.\n"
    wait_until(lambda: "retention.ms" in configs.keys("topic", topic), "the key is shown")
    found = configs.keys("topic", topic)
    assert (found["retention.ms"]["value"], found["retention.ms"]["source"]) == ("5000", "topic")
    assert found["cleanup.policy"]["value"] == "delete,compact"
    assert "segment.ms" not in found
    assert configs.keys("topic", topic, "--all")["segment.ms"]["source"] == "default"
    printed = configs.succeeded("describe", "topic", topic).splitlines()
    assert ["retention.ms", "5000", "topic"] in [line.split() for line in printed]
    configs.succeeded(
        "alter", "topic", topic, "--delete", "retention.ms", "--subtract", "cleanup.policy=compact"
    )
    wait_until(lambda: "retention.ms" not in configs.keys("topic", topic), "the key is gone")


def test_keys_of_a_file_are_set(configs: Configs, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "topic.properties"
    file.write_text("# Both\nretention.ms=6000\nretention.bytes = 7000\n")
    configs.succeeded("alter", "topic", topic, "--set-file", str(file), "--set", "segment.ms=8000")
    keys = configs.keys("topic", topic)
    found = [keys[name]["value"] for name in ("retention.ms", "retention.bytes", "segment.ms")]
    assert found == ["6000", "7000", "8000"]
    twice = ["--set-file", str(file), "--set", "retention.ms=1"]
    assert "retention.ms is in --set and" in configs.failed("alter", "topic", topic, *twice, code=2)
    file.write_text("retention.ms=1\nretention.ms=2\n")
    assert "is set twice" in configs.failed("alter", "topic", topic, "--set-file", str(file), code=2)


def test_keys_of_all_brokers_and_of_one_are_set(configs: Configs) -> None:
    configs.succeeded("alter", "cluster", "--set", "log.retention.ms=77777777")
    try:
        wait_until(
            lambda: configs.keys("broker", "1").get("log.retention.ms", {}).get("source") == "cluster",
            "the broker has the value of all brokers",
        )
        assert configs.keys("cluster")["log.retention.ms"]["value"] == "77777777"
        configs.succeeded("alter", "broker", "1", "--set", "log.retention.ms=66666666")
        wait_until(
            lambda: configs.keys("broker", "1")["log.retention.ms"]["source"] == "broker",
            "the broker has a value of its own",
        )
    finally:
        configs.succeeded("alter", "broker", "1", "--delete", "log.retention.ms")
        configs.succeeded("alter", "cluster", "--delete", "log.retention.ms")
    assert configs.keys("broker", "1", "--all")["node.id"]["is_read_only"]


def test_keys_of_a_group_are_set(configs: Configs) -> None:
    group = f"shop-{uuid.uuid4().hex[:12]}"
    configs.succeeded("alter", "group", group, "--set", "consumer.session.timeout.ms=50000")
    wait_until(lambda: "consumer.session.timeout.ms" in configs.keys("group", group), "the key is shown")
    assert configs.keys("group", group)["consumer.session.timeout.ms"]["source"] == "group"


def test_what_a_broker_refuses_is_explained(configs: Configs, topic: str) -> None:
    refused = configs.failed("alter", "topic", topic, "--set", "retention.ms=soon")
    assert refused.startswith(f"tidelog: Topic '{topic}' cannot have this configuration: ")
    assert "retention.ms" in refused
    assert "There is no topic 'nowhere'" in configs.failed("describe", "topic", "nowhere")
    assert "There is no topic 'nowhere'" in configs.failed(
        "alter", "topic", "nowhere", "--set", "segment.ms=9"
    )


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["describe", "topic"], "Which topic?"),
        (["describe", "broker", "first"], "named by its node id"),
        (["describe", "broker"], "named by its node id"),
        (["describe", "cluster", "all"], "has no name"),
        (["describe", "user", "alice"], "'user' is not one of"),
        (["alter", "topic", "orders"], "Say what is to be changed"),
        (["alter", "topic", "orders", "--set", "a=1", "--delete", "a"], "in two ways at once"),
        (["alter", "topic", "orders", "--set", "a"], "KEY=VALUE"),
        (
            ["alter", "broker", "1", "--set", "ssl.key.password=x"],
            "see the arguments of a process: put it into",
        ),
        (["alter", "broker", "1", "--set-file", "/no/such"], "does not exist"),
    ],
    ids=str,
)
def test_wrong_usage_is_explained(configs: Configs, arguments: list[str], complaint: str) -> None:
    command, *rest = arguments
    assert complaint in configs.failed(command, *rest, code=2)
