"""`tidelog groups` against tidelog and against Apache Kafka, with groups that real consumers use."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, Producer

from tests.deadlines import DEADLINE_S, wait_until
from tests.kernel.cli.running import tidelog_in_process
from tidelog.plugins.client import BlockingClient, GroupOffset, NewTopic, TopicPartition, or_raise

RECORDS = 10
FIRST_TIME = 1_700_000_000_000


@attrs.frozen
class Shop:
    """A topic with ten records in one of two partitions, a second apart, and a group that read five."""

    bootstrap: str
    topic: str
    group: str

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return tidelog_in_process("groups", command, "--bootstrap-server", self.bootstrap, *arguments)

    def succeeded(self, command: str, *arguments: str) -> str:
        done = self.run(command, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def json_of(self, command: str, *arguments: str) -> Any:
        return json.loads(self.succeeded(command, "--json", *arguments))

    def failed(self, command: str, *arguments: str, code: int = 1) -> str:
        done = self.run(command, *arguments)
        assert (done.returncode, done.stdout) == (code, "")
        return done.stderr

    def after_reset(self, *arguments: str) -> list[int | None]:
        """Set offsets; the committed ones of both partitions as the broker has them then."""
        self.succeeded("reset", self.group, *arguments)
        return self.committed()

    def committed(self) -> list[int | None]:
        with BlockingClient(self.bootstrap) as client:
            places = [TopicPartition(self.topic, index) for index in range(2)]
            found = client.committed_offsets(self.group, places)
            return [None if found[place].offset < 0 else found[place].offset for place in places]

    def member(self) -> Consumer:
        """A consumer of the group that has its partitions."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "client.id": "till",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([self.topic])

        def is_assigned() -> bool:
            consumer.poll(0.1)
            return len(consumer.assignment()) == 2

        wait_until(is_assigned, "a member has its partitions")
        return consumer


@pytest.fixture
def shop(real_broker: str) -> Shop:
    made = Shop(real_broker, f"orders-{uuid.uuid4().hex[:12]}", f"shop-{uuid.uuid4().hex[:12]}")
    with BlockingClient(real_broker) as client:
        or_raise(client.create_topics([NewTopic(made.topic, 2)]))
        or_raise(client.list_offsets([TopicPartition(made.topic, index) for index in range(2)]))
    producer = Producer({"bootstrap.servers": real_broker})
    for number in range(RECORDS):
        producer.produce(made.topic, b"%d" % number, partition=0, timestamp=FIRST_TIME + 1000 * number)
    producer.flush(DEADLINE_S)
    with BlockingClient(real_broker) as client:
        or_raise(client.commit_offsets(made.group, {TopicPartition(made.topic, 0): GroupOffset(5)}))
    return made


def test_a_group_is_listed_and_described_with_its_lag(shop: Shop) -> None:
    listed = {each["group_id"]: each for each in shop.json_of("list")}
    assert (listed[shop.group]["type"], listed[shop.group]["state"]) == ("classic", "Empty")
    assert shop.group not in shop.run("list", "--state", "Stable", "--state", "PreparingRebalance").stdout
    (found,) = shop.json_of("describe", shop.group)
    assert (found["state"], found["lag"], found["members"]) == ("Empty", 5, [])
    assert found["offsets"] == [
        {"topic": shop.topic, "partition": 0, "committed": 5, "end": 10, "lag": 5, "member_id": None}
    ]
    printed = shop.succeeded("describe", shop.group).splitlines()
    assert printed[0].endswith("classic, Empty, 0 members, coordinator 1, lag 5")
    assert printed[2].split() == [shop.topic, "0", "5", "10", "5", "-", "-"]


def test_members_are_described_with_what_is_assigned_to_them(shop: Shop) -> None:
    consumer = shop.member()
    try:
        (found,) = shop.json_of("describe", shop.group)
        (member,) = found["members"]
        assert (member["client_id"], member["instance_id"]) == ("till", None)
        assert member["partitions"] == [{"topic": shop.topic, "partition": index} for index in range(2)]
        assert [each["member_id"] for each in found["offsets"]] == [member["member_id"]] * 2
        assert [each["committed"] for each in found["offsets"]] == [5, None]
        printed = shop.succeeded("describe", shop.group, "--members")
        assert f"{shop.topic}-0, {shop.topic}-1" in printed
    finally:
        consumer.close()


def test_a_group_that_is_used_is_not_changed(shop: Shop) -> None:
    consumer = shop.member()
    try:
        assert shop.failed("reset", shop.group, "--topic", shop.topic, "--to-earliest") == (
            f"tidelog: Group '{shop.group}' has 1 member (till): stop it first, then its offsets can be "
            "changed.\n"
        )
        assert "has members: stop its consumers first" in shop.failed("delete", shop.group)
        assert "a member of group" in shop.failed("delete-offsets", shop.group, "--topic", f"{shop.topic}:0")
    finally:
        consumer.close()
    assert shop.committed() == [5, None]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 0]),
        (["--to-offset", "7"], [7, 0]),
        (["--to-offset", "99"], [10, 0]),
        (["--to-datetime", "2023-11-14T22:13:23Z"], [3, 0]),
        (["--to-datetime", "2023-11-14T22:13:23.001"], [4, 0]),
        (["--to-datetime", "2023-11-14T23:13:23+01:00"], [3, 0]),
        (["--to-datetime", "1969-12-31T00:00:00Z"], [0, 0]),
        (["--to-datetime", "2100-01-01"], [10, 0]),
        (["--by-duration", "36500d"], [0, 0]),
        (["--by-duration", "PT1S"], [10, 0]),
    ],
    ids=str,
)
def test_offsets_are_set(shop: Shop, arguments: list[str], expected: list[int]) -> None:
    assert shop.after_reset("--topic", shop.topic, *arguments) == expected


def test_offsets_are_shifted_within_the_log(shop: Shop) -> None:
    here = ["--topic", f"{shop.topic}:0"]
    assert shop.after_reset(*here, "--shift-by", "-2") == [3, None]
    assert shop.after_reset("--all-topics", "--shift-by", "4") == [7, None]
    assert shop.after_reset(*here, "--shift-by", "-100") == [0, None]
    assert shop.after_reset(*here, "--shift-by", "100") == [10, None]
    refused = shop.failed("reset", shop.group, "--topic", shop.topic, "--shift-by", "1")
    assert f"{shop.topic}-1 cannot be shifted: the group has committed nothing there" in refused


def test_a_dry_run_shows_and_changes_nothing(shop: Shop) -> None:
    printed = shop.json_of("reset", shop.group, "--topic", shop.topic, "--to-latest", "--dry-run")
    assert printed == [
        {"topic": shop.topic, "partition": 0, "before": 5, "after": 10, "set": False},
        {"topic": shop.topic, "partition": 1, "before": None, "after": 0, "set": False},
    ]
    assert shop.committed() == [5, None]


def test_exported_offsets_are_set_again(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    exported = shop.succeeded("export", shop.group)
    assert exported == f"{shop.group},{shop.topic},0,5\n"
    file.write_text(exported)
    shop.succeeded("reset", shop.group, "--all-topics", "--to-earliest")
    assert shop.after_reset("--from-file", str(file)) == [5, None]
    # As Kafka's own tool writes for one group.
    file.write_text(f"{shop.topic},0,2\n\n{shop.topic},1,0\n")
    assert shop.after_reset("--from-file", str(file)) == [2, 0]
    file.write_text(f"another,{shop.topic},0,5\n")
    assert "has no offset for group" in shop.failed("reset", shop.group, "--from-file", str(file))
    file.write_bytes(f"\ufeff{shop.group},{shop.topic},0,3\r\n".encode())
    assert shop.after_reset("--from-file", str(file)) == [3, 0]
    for content in (b"\xff\xfe\x00", b'"' + b"x" * 200_000):
        file.write_bytes(content)
        refused = shop.failed("reset", shop.group, "--from-file", str(file))
        assert "is not what `tidelog groups export` writes" in refused
    file.write_text(f"{shop.topic},0,5\n{shop.topic},first,5\n")
    assert "Line 2 of" in shop.failed("reset", shop.group, "--from-file", str(file))


def test_offsets_and_groups_are_deleted(shop: Shop) -> None:
    assert shop.failed("delete", "no-such-group-at-all").startswith("tidelog: There is no group")
    assert shop.succeeded("delete", "no-such-group-at-all", "--if-exists") == ""
    assert shop.after_reset("--topic", shop.topic, "--to-earliest") == [0, 0]
    deleted = shop.succeeded("delete-offsets", shop.group, "--topic", f"{shop.topic}:0")
    assert deleted == f"Deleted the offset of {shop.topic}-0.\n"
    assert shop.committed() == [None, 0]
    assert shop.json_of("delete", shop.group) == [{"group": shop.group, "deleted": True}]
    assert f"There is no group '{shop.group}'" in shop.failed("describe", shop.group)


def test_a_group_that_does_not_exist_gets_offsets(shop: Shop) -> None:
    fresh = attrs.evolve(shop, group=f"fresh-{uuid.uuid4().hex[:12]}")
    assert fresh.after_reset("--topic", shop.topic, "--to-latest") == [10, 0]
    other = attrs.evolve(shop, group=f"other-{uuid.uuid4().hex[:12]}")
    assert "has no committed offsets" in other.failed("reset", other.group, "--all-topics", "--to-latest")


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--topic", "t"], "Say where to, in one way"),
        (["--topic", "t", "--to-latest", "--to-offset", "0"], "Say where to, in one way"),
        (["--to-latest"], "Say which partitions"),
        (["--to-latest", "--topic", "t", "--all-topics"], "Say which partitions"),
        (["--from-file", __file__, "--topic", "t"], "A file names the partitions itself"),
        (["--to-latest", "--topic", "t:x"], "is not of the form TOPIC"),
        (["--to-latest", "--topic", "t:-1"], "is not of the form TOPIC"),
        (["--to-latest", "--topic", ":0"], "is not of the form TOPIC"),
        (["--topic", "t", "--to-datetime", "yesterday"], "is no time such as"),
        (["--topic", "t", "--by-duration", "P"], "is no duration such as"),
        (["--topic", "t", "--by-duration", ""], "is no duration such as"),
        (["--topic", "t", "--to-offset", "-1"], "-1"),
    ],
    ids=str,
)
def test_wrong_usage_is_explained(shop: Shop, arguments: list[str], complaint: str) -> None:
    assert complaint in shop.failed("reset", shop.group, *arguments, code=2)


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
def test_topics_and_partitions_that_do_not_exist_are_named(shop: Shop) -> None:
    there = ["reset", shop.group, "--to-latest", "--topic"]
    assert "There is no topic 'nowhere'" in shop.failed(*there, "nowhere")
    assert "has 2 partitions, there is no 2" in shop.failed(*there, f"{shop.topic}:0,2")
    assert f"Did you mean '{shop.group}'" in shop.failed("describe", shop.group + "x")
    assert shop.committed() == [5, None]
