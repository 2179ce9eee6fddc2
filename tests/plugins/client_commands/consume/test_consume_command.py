"""`tidelog consume` against tidelog and against Apache Kafka."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import COMMAND, clean_environment
from tests.plugins.client_commands.piped import Shell
from tests.tables import for_each
from tidelog.client import Admin, NewTopic, Producer, TopicPartition

FIRST_TIME = 1_700_000_000_000


class Orders(Shell):
    """A topic of two partitions: ten records a second apart in the first one, one in the other."""

    def fill(self) -> None:
        with Admin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(self.topic, 2, config={"retention.ms": "-1"})])
        with Producer(self.bootstrap) as producer:
            for number in range(10):
                value = json.dumps({"number": number, "items": [{"name": f"dish {number}"}]}).encode()
                producer.send(
                    self.topic,
                    value,
                    b"key %d" % number,
                    partition=0,
                    timestamp_ms=FIRST_TIME + 1000 * number,
                    headers=[("table", b"%d" % (number % 3)), ("null", None)],
                )
            producer.send(self.topic, None, b"\xff", partition=1, timestamp_ms=FIRST_TIME)

    def numbers(self, *arguments: str) -> list[int]:
        """Of the records of the first partition."""
        lines = self.consume(f"{self.topic}:0", *arguments).splitlines()
        return [json.loads(line)["number"] for line in lines]


@pytest.fixture(scope="module")
def filled() -> dict[str, Orders]:
    return {}


@pytest.fixture
def orders(real_broker: str, filled: dict[str, Orders]) -> Orders:
    if real_broker not in filled:
        filled[real_broker] = Orders(real_broker)
        filled[real_broker].fill()
    return filled[real_broker]


def test_it_reads_from_the_beginning_to_the_end(orders: Orders) -> None:
    assert orders.numbers() == list(range(10))
    assert orders.consume(f"{orders.topic}:1") == b"\n"
    assert len(orders.consume(orders.topic).splitlines()) == 11
    assert len(orders.consume("--pattern", f"{orders.topic[:-1]}.").splitlines()) == 11


@for_each(
    ("arguments", "numbers"),
    [
        (("-o", "7"), [7, 8, 9]),
        (("-o", "-2"), [8, 9]),
        (("-o", "-100", "-n", "1"), [0]),
        (("-o", "100"), []),
        (("--since", "2023-11-14T22:13:28Z"), [8, 9]),
        (("--since", str(FIRST_TIME + 8500)), [9]),
        (("--since", "1h"), []),
        (("--until", str(FIRST_TIME + 2000)), [0, 1]),
        (("--since", str(FIRST_TIME + 1000), "--until", str(FIRST_TIME + 3000)), [1, 2]),
        (("--until-offset", "3"), [0, 1, 2]),
        (("--until-offset", "3", "--follow"), [0, 1, 2]),
        (("-n", "4", "--follow"), [0, 1, 2, 3]),
        (("--isolation-level", "read_committed", "-o", "-1"), [9]),
    ],
)
def test_the_range_is_chosen(orders: Orders, arguments: tuple[str, ...], numbers: list[int]) -> None:
    assert orders.numbers(*arguments) == numbers


@for_each(
    ("arguments", "numbers"),
    [
        (("--grep", "dish [38]"), [3, 8]),
        (("--grep-key", "^key 4$"), [4]),
        (("--grep-header", "table=2"), [2, 5, 8]),
        (("--grep-header", "chair"), []),
        (("--where", "value.number > 7"), [8, 9]),
        (("--where", "value.number >= 2", "--where", "value.number != 3", "--where", "offset < 5"), [2, 4]),
        (("--where", 'value.items[0].name == "dish 5"'), [5]),
        (("--where", "value.items[0].name =~ [67]$"), [6, 7]),
        (("--where", "value.items[1].name"), []),
        (("--where", "key == key 1"), [1]),
        (("--where", "headers.table == 1", "-n", "2"), []),
        (("--where", 'headers.table == "1"', "-n", "2"), [1, 4]),
        (("--where", "value.number", "--where", "timestamp <= 1700000002000"), [1, 2]),
        (("--where", "value.number < x"), []),
    ],
)
def test_records_are_filtered(orders: Orders, arguments: tuple[str, ...], numbers: list[int]) -> None:
    assert orders.numbers(*arguments) == numbers


def test_formats_are_printed(orders: Orders) -> None:
    place = ("-o", "3", "-n", "1")
    printed = orders.consume(f"{orders.topic}:0", *place, "-f", r"%t/%p/%o %k %K %S %h %T %D %%\n")
    assert printed.decode() == (
        f"{orders.topic}/0/3 key 3 5 44 table=0,null 1700000003000 2023-11-14T22:13:23.000Z %\n"
    )
    line = orders.consume(f"{orders.topic}:0", *place, "--format", "json", "--value-format", "json")
    assert json.loads(line) == {
        "topic": orders.topic,
        "partition": 0,
        "offset": 3,
        "timestamp": 1_700_000_003_000,
        "key": "key 3",
        "value": {"number": 3, "items": [{"name": "dish 3"}]},
        "headers": [{"key": "table", "value": "0"}, {"key": "null", "value": None}],
    }
    other = orders.consume(f"{orders.topic}:1", "--format", "json")
    assert json.loads(other)["key_base64"] == "/w=="
    null = ("--null", "NULL", "-f", r"%k:%v %S\n", "--key-format")
    assert orders.consume(f"{orders.topic}:1", *null, "hex") == b"ff:NULL -1\n"
    assert orders.consume(f"{orders.topic}:1", *null, "int8") == b"-1:NULL -1\n"
    assert orders.consume(f"{orders.topic}:1", "--null", "-", "-D", r"\0") == b"-\0"


def test_what_is_no_such_thing_is_reported_and_the_rest_printed(orders: Orders) -> None:
    done = orders.run("consume", orders.topic, "--key-format", "int8", "-f", r"%k\n")
    assert (done.code, done.out) == (1, b"-1\n")
    assert f"tidelog: {orders.topic}-0, offset 0: the key is no int8: it has 5 bytes" in done.errors
    assert done.errors.endswith("tidelog: 10 records were not printed.\n")


def test_a_pipe_of_both_copies_every_record(orders: Orders) -> None:
    copy = Shell(orders.bootstrap)
    with Admin(orders.bootstrap) as admin:
        admin.create_topics([NewTopic(copy.topic, 2, config={"retention.ms": "-1"})])
    lines = orders.consume(orders.topic, "--format", "json")
    copy.produce(copy.topic, "--format", "json", given=lines)

    def content(shell: Shell) -> list[Any]:
        found = [json.loads(line) for line in shell.consume(shell.topic, "--format", "json").splitlines()]
        for each in found:
            del each["topic"]
        return sorted(found, key=lambda each: (each["partition"], each["offset"]))

    assert content(copy) == content(orders)


def test_a_group_continues_where_it_was(orders: Orders) -> None:
    group = ("--group", f"group of {orders.topic}", "-n")
    first = orders.consume(orders.topic, *group, "4").splitlines()
    second = orders.consume(orders.topic, *group, "100").splitlines()
    assert (len(first), len(second)) == (4, 7)
    assert sorted(first + second) == sorted(orders.consume(orders.topic).splitlines())
    with Admin(orders.bootstrap) as admin:
        committed = admin.committed_offsets(group[1])
    assert {str(place): each.offset for place, each in committed.items()} == {
        str(TopicPartition(orders.topic, 0)): 10,
        str(TopicPartition(orders.topic, 1)): 1,
    }


class Following:
    """A process that follows a topic."""

    def __init__(self, bootstrap: str, *arguments: str) -> None:
        # Where the tests run in the background SIGINT is ignored, which the process would inherit.
        inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            [*COMMAND, "consume", "-b", bootstrap, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(),
        )
        signal.signal(signal.SIGINT, inherited)

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def following(orders: Orders) -> Iterator[Following]:
    reader = Following(orders.bootstrap, f"{orders.topic}:0", "-o", "-1", "--follow", "-f", r"%o\n")
    yield reader
    if reader.process.poll() is None:
        reader.process.kill()
    reader.process.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
def test_ctrl_c_ends_what_follows(following: Following) -> None:
    assert following.line() == b"9\n"
    following.process.send_signal(signal.SIGINT)
    printed, complained = following.process.communicate(timeout=DEADLINE_S)
    assert (printed, complained.strip()) == (b"", b"")
    assert following.process.returncode == 130


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
def test_a_reader_that_goes_away_ends_it_silently(following: Following, orders: Orders) -> None:
    assert following.line() == b"9\n"
    assert following.process.stdout is not None
    following.process.stdout.close()
    orders.produce(orders.topic, "-p", "0", '{"number": 10}')
    assert following.process.wait(DEADLINE_S) == 1
    assert following.process.stderr is not None
    assert following.process.stderr.read() == b""
    following.process.stdout = None


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
def test_wrong_usage_is_explained(orders: Orders) -> None:
    topic = orders.topic
    for arguments, reason in (
        ((), "Name topics, or a --pattern"),
        ((topic, "--pattern", "x"), "Name topics, or a --pattern"),
        (("--pattern", "("), "no regular expression"),
        ((topic, "-o", "noon"), "neither earliest nor latest"),
        ((topic, "-o", "1", "--since", "1h"), "in one way"),
        ((topic, "-o", "1", "-g", "g"), "tidelog groups reset"),
        ((topic, "-f", "csv"), "neither value nor json"),
        ((topic, "-f", "%x"), "%x is no field"),
        ((topic, "-f", "%v%"), "a single %"),
        ((topic, "--grep", "("), "no regular expression"),
        ((topic, "--where", "price > 5"), "no condition such as"),
        ((topic, "-X", "nonsense=1"), "nonsense"),
    ):
        assert reason in orders.refused("consume", *arguments, code=2)
    assert "There is no topic 'nowhere'" in orders.refused("consume", "nowhere")
    assert "there is no 7" in orders.refused("consume", f"{topic}:7")
    assert "No topic matches 'x'" in orders.refused("consume", "--pattern", "x")
