"""`tidelog topics` against tidelog and against Apache Kafka."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deadlines import wait_until
from tests.plugins.client_commands.topics.running import on_terminal, tidelog, topics
from tidelog.kernel.cli import main
from tidelog.plugins.client import BlockingClient, NewRecord, NewTopic, TopicPartition, or_raise
from tidelog.plugins.client_commands.topics.failures import NAME_RULE

KAFKA_ID = r"[A-Za-z0-9_-]{22}"

# What lies between the command and the person looks the same whichever broker answers.
once = pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)


@pytest.fixture
def name() -> str:
    """A topic name that no other test uses."""
    return f"orders-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(real_broker: str) -> Iterator[BlockingClient]:
    """To prepare topics, and to look at what became of them."""
    with BlockingClient(real_broker) as connected:
        yield connected


def created(client: BlockingClient, name: str, partitions: int = 1, **configs: str) -> str:
    """A topic that is there, also by the broker's own metadata."""
    or_raise(client.create_topics([NewTopic(name, partitions, config=configs)]))
    or_raise(client.list_offsets([TopicPartition(name, index) for index in range(partitions)]))
    return name


def succeeded(bootstrap: str, command: str, *arguments: str) -> str:
    """What a command prints that must succeed and must not complain."""
    done = topics(bootstrap, command, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def failed(bootstrap: str, command: str, *arguments: str) -> str:
    """What a command complains that must fail and must not print anything."""
    done = topics(bootstrap, command, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def json_of(bootstrap: str, command: str, *arguments: str) -> Any:
    return json.loads(succeeded(bootstrap, command, "--json", *arguments))


def test_create_command_creates_a_topic_with_the_given_options(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    printed = succeeded(
        real_broker, "create", name, "--partitions", "3", "--replication-factor", "1",
        "--config", "max.message.bytes=2000", "--config", "segment.bytes=2000000",
    )  # fmt: skip
    assert printed == f"Created topic {name} with 3 partitions.\n"
    or_raise(client.list_offsets([TopicPartition(name, 2)]))
    assert len(client.metadata([name]).topics[name].partitions) == 3
    produced = TopicPartition(name, 0)
    assert client.produce(produced, [NewRecord(bytes(1000))]).base_offset == 0


@once
def test_create_command_prints_json_with_the_defaults_of_the_broker(real_broker: str, name: str) -> None:
    told = json_of(real_broker, "create", name)
    assert re.fullmatch(KAFKA_ID, told.pop("id"))
    assert told == {"name": name, "partitions": 1, "replication_factor": 1, "created": True}


def test_create_command_refuses_an_existing_topic_unless_if_not_exists(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name, 2)
    said = failed(real_broker, "create", name)
    assert said == f"tidelog: Topic '{name}' exists already. With --if-not-exists this is no error.\n"
    printed = succeeded(real_broker, "create", name, "--if-not-exists", "--partitions", "7")
    assert printed == f"Topic {name} exists already with 2 partitions; it stays as it is.\n"


@once
def test_create_command_with_validate_only_creates_nothing(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    printed = succeeded(real_broker, "create", name, "--validate-only", "--partitions", "2")
    assert printed == f"Topic {name} could be created with 2 partitions; it was not.\n"
    assert name not in client.metadata().topics
    said = failed(real_broker, "create", name, "--validate-only", "--replication-factor", "3")
    assert said.startswith(f"tidelog: Topic '{name}' cannot be created: ")


def test_create_command_refuses_an_illegal_name_with_the_naming_rule(real_broker: str) -> None:
    assert failed(real_broker, "create", "a/b") == f"tidelog: 'a/b' is no topic name. {NAME_RULE}\n"


def test_create_command_gives_the_reason_of_the_broker_for_a_colliding_name(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, f"{name}.eu")
    said = failed(real_broker, "create", f"{name}_eu")
    assert said.startswith(f"tidelog: Topic '{name}_eu' cannot be created: ")
    assert "colli" in said


def test_a_wrong_configuration_is_refused(real_broker: str, name: str) -> None:
    said = failed(real_broker, "create", name, "--config", "max.mesage.bytes=5")
    assert said.startswith(f"tidelog: Topic '{name}' cannot have this configuration: ")
    assert "max.mesage.bytes" in said
    assert said.endswith("`tidelog config` lists the keys.\n")


def test_list_shows_topics_by_name(real_broker: str, client: BlockingClient, name: str) -> None:
    created(client, f"{name}-b", 2)
    created(client, f"{name}-a")
    lines = succeeded(real_broker, "list").splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS"]
    assert [line.split() for line in lines if line.startswith(name)] == [
        [f"{name}-a", "1"],
        [f"{name}-b", "2"],
    ]
    told = [topic for topic in json_of(real_broker, "list") if topic["name"].startswith(name)]
    assert [topic["partitions"] for topic in told] == [1, 2]
    assert all(re.fullmatch(KAFKA_ID, topic["id"]) and not topic["internal"] for topic in told)


@once
def test_list_shows_what_the_broker_keeps_for_itself_only_when_asked(
    real_broker: str, client: BlockingClient
) -> None:
    if "__consumer_offsets" not in client.metadata().topics:
        created(client, "__consumer_offsets")
    assert "__consumer_offsets" not in succeeded(real_broker, "list")
    lines = succeeded(real_broker, "list", "--all").splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "INTERNAL"]
    (line,) = (line for line in lines if line.startswith("__consumer_offsets "))
    assert line.split()[2] == "yes"


def test_describe_shows_partitions_and_their_offsets(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name, 2, **{"max.message.bytes": "100000"})
    client.produce(TopicPartition(name, 1), [NewRecord(b"x")] * 5)
    head, header, *rows, configuration = succeeded(real_broker, "describe", name).splitlines()
    assert re.fullmatch(rf"{name}  id {KAFKA_ID}, replication factor 1", head)
    assert header.split() == ["PARTITION", "LEADER", "REPLICAS", "ISR", "EARLIEST", "LATEST", "SPAN"]
    assert [row.split() for row in rows] == [
        ["0", "1", "1", "1", "0", "0", "0"],
        ["1", "1", "1", "1", "0", "5", "5"],
    ]
    assert configuration == "configuration: max.message.bytes=100000"


def test_describe_command_prints_json_with_offsets_and_configs(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name, 1, **{"max.message.bytes": "100000"})
    client.produce(TopicPartition(name, 0), [NewRecord(b"x")] * 3)
    (told,) = json_of(real_broker, "describe", name)
    assert re.fullmatch(KAFKA_ID, told["id"])
    assert (told["name"], told["internal"], told["replication_factor"]) == (name, False, 1)
    (partition,) = told["partitions"]
    assert partition.pop("leader_epoch") >= 0
    assert partition == {
        "partition": 0,
        "leader": 1,
        "replicas": [1],
        "isr": [1],
        "earliest_offset": 0,
        "latest_offset": 3,
        "span": 3,
    }
    assert told["config"]["max.message.bytes"] == "100000"
    assert told["config"]["segment.bytes"] == "1073741824"
    assert told["own_config"] == ["max.message.bytes"]


@once
def test_describe_command_shows_existing_topics_and_fails_for_missing_ones(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name)
    done = topics(real_broker, "describe", f"{name}x", name, "no/name")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{name}  id ")
    assert sorted(done.stderr.splitlines()) == [
        f"tidelog: 'no/name' is no topic name. {NAME_RULE}",
        f"tidelog: There is no topic '{name}x'. Did you mean '{name}'?",
    ]
    assert f"{name}x" not in client.metadata().topics, "asking must not create it"


def test_delete_command_deletes_existing_topics_and_fails_for_missing_ones(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, f"{name}-a")
    created(client, f"{name}-b")
    done = topics(real_broker, "delete", f"{name}-a", "zzz", f"{name}-b")
    assert (done.returncode, done.stdout) == (1, f"Deleted topic {name}-a.\nDeleted topic {name}-b.\n")
    assert done.stderr == (
        "tidelog: There is no topic 'zzz'. `tidelog topics list` lists those there are. With --if-exists "
        "this is no error.\n"
    )
    # Apache Kafka applies a change soon after it is acknowledged.
    wait_until(
        lambda: not {f"{name}-a", f"{name}-b"} & set(client.metadata().topics), "the topics are not there"
    )


@once
def test_delete_command_with_if_exists_accepts_a_missing_topic(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    assert succeeded(real_broker, "delete", name, "--if-exists") == ""
    created(client, name)
    told = json_of(real_broker, "delete", name, "zzz", "--if-exists")
    assert told == [{"name": name, "deleted": True}, {"name": "zzz", "deleted": False}]


@once
def test_delete_command_asks_for_confirmation_on_a_terminal(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name)
    code, seen = on_terminal(real_broker, "delete", name, typed="n\n")
    assert code == 1
    assert f"Delete topic {name} with all its records? [y/N]: " in seen
    assert "tidelog: Nothing was deleted.\n" in seen
    code, seen = on_terminal(real_broker, "delete", name, typed="y\n")
    assert code == 0
    assert seen.endswith(f"Deleted topic {name}.\n")


@once
def test_delete_command_with_yes_does_not_ask_for_confirmation(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name)
    assert on_terminal(real_broker, "delete", name, "--yes") == (0, f"Deleted topic {name}.\n")


@once
def test_describe_command_prints_tables_on_a_terminal(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name, 2)
    code, seen = on_terminal(real_broker, "describe", name)
    assert code == 0
    assert "───" in seen
    assert name in seen


@pytest.mark.parametrize("command", ["list", "create", "describe", "delete"])
def test_help_of_every_topics_command_names_the_broker_that_is_asked(command: str) -> None:
    done = tidelog("topics", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--bootstrap-server HOST:PORT" in done.stdout
    assert "default: 127.0.0.1:9092" in " ".join(done.stdout.split())


WRONG_USAGE = [
    (("describe",), "Missing argument 'NAME...'."),
    (("create",), "Missing argument 'NAME'."),
    (("frobnicate",), "No such command 'frobnicate'"),
    (("create", "x", "--partitions", "0"), "0 is not in the range x>=1"),
    (("create", "x", "--config", "oops"), "'oops' is not of the form KEY=VALUE."),
    (("create", "x", "--config", "a=1", "--config", "a=2"), "a is given more than once."),
    (("list", "--timeout", "0"), "0.0 is not in the range x>0"),
    (
        ("list", "--bootstrap-server", "localhost"),
        "'localhost' is no broker address: it has the form host:port",
    ),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG_USAGE)
def test_topics_commands_report_wrong_usage_in_one_sentence_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["topics", *arguments])
    seen = capsys.readouterr()
    assert (raised.value.code, seen.out) == (2, "")
    assert words in seen.err
    assert seen.err.count("\n") == 1


def test_alter_command_changes_configs_and_partitions(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name, partitions=1, **{"flush.ms": "5000"})
    told = succeeded(
        real_broker, "alter", name, "--config", "max.message.bytes=4321", "--delete-config", "flush.ms",
        "--partitions", "3",
    )  # fmt: skip
    assert told == f"Topic {name} was changed.\n"

    def described() -> tuple[object, int]:
        (topic,) = json_of(real_broker, "describe", name)
        return topic["own_config"], len(topic["partitions"])

    # Apache Kafka's broker learns of the change after its controller has answered.
    wait_until(lambda: described() == (["max.message.bytes"], 3), "the changes are described")


def test_alter_command_with_validate_only_changes_nothing(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    created(client, name)
    asked = json_of(
        real_broker, "alter", name, "--config", "flush.ms=9", "--partitions", "2", "--validate-only"
    )
    assert asked == {"name": name, "altered": False}
    (described,) = json_of(real_broker, "describe", name)
    assert (described["own_config"], len(described["partitions"])) == ([], 1)


def test_alter_command_reports_a_missing_topic_and_refused_values(
    real_broker: str, client: BlockingClient, name: str
) -> None:
    missing = failed(real_broker, "alter", name, "--config", "flush.ms=9")
    assert f"There is no topic {name!r}." in missing
    created(client, name)
    assert "cannot have this configuration" in failed(real_broker, "alter", name, "--config", "flush.ms=-9")
    assert "cannot be changed" in failed(real_broker, "alter", name, "--partitions", "1")


@once
@pytest.mark.parametrize(
    "arguments", [(), ("--config", "a=1", "--delete-config", "a"), ("--config", "a"), ("--partitions", "0")]
)
def test_alter_command_refuses_missing_or_invalid_options(
    real_broker: str, name: str, arguments: tuple[str, ...]
) -> None:
    done = topics(real_broker, "alter", name, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
