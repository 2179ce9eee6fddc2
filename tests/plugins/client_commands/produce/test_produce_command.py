"""`tidelog produce` against tidelog and against Apache Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugins.client_commands.piped import Shell
from tidelog.client import Consumer, ConsumerRecord, TopicPartition


@pytest.fixture
def shell(real_broker: str) -> Shell:
    return Shell(real_broker)


def records(shell: Shell, topic: str = "", **options: object) -> list[ConsumerRecord]:
    """All records, in the order of partitions."""
    with Consumer(shell.bootstrap, **options) as consumer:  # type: ignore[arg-type]
        name = topic or shell.topic
        places = [TopicPartition(name, index) for index in consumer.partitions_for(name)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        found: list[ConsumerRecord] = []
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += consumer.poll(0.1)
        return sorted(found, key=lambda record: (record.partition, record.offset))


def test_values_are_arguments_or_lines(shell: Shell) -> None:
    assert shell.produce(shell.topic, "a cup of tea", "") == "2 records sent, 12 bytes of values.\n"
    assert shell.produce(shell.topic, "-q", given=b"one\ntwo\r\n\nlast") == ""
    assert [each.value for each in records(shell)] == [
        b"a cup of tea", b"", b"one", b"two\r", b"", b"last",
    ]  # fmt: skip


def test_files_are_read_by_lines_or_whole(shell: Shell, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\nb\n")
    second.write_bytes(b"\x00\xff\n")
    shell.produce(shell.topic, "--file", str(first), "--file", "-", given=b"c\n")
    shell.produce(shell.topic, "--file", str(second), "--whole-files")
    assert [each.value for each in records(shell)] == [b"a", b"b", b"c", b"\x00\xff\n"]


def test_keys_headers_timestamps_and_delimiters_are_given(shell: Shell) -> None:
    shell.produce(
        *(shell.topic, "-K", r"\t", "-D", r"\x1e", "-H", "source=till", "-H", "none"),
        *("--timestamp", "2023-11-14T22:13:20Z", "-z", "lz4"),
        given=b"k1\tv\t1\x1ek2\tv\n2",
    )
    shell.produce(shell.topic, "v3", "-k", "k3")
    first, second, third = sorted(records(shell), key=lambda record: bytes(record.key))
    assert (first.key, first.value, first.timestamp_ms) == (b"k1", b"v\t1", 1_700_000_000_000)
    assert first.headers == (("source", b"till"), ("none", None))
    assert (second.key, second.value, third.key, third.value) == (b"k2", b"v\n2", b"k3", b"v3")


def test_nulls_are_written(shell: Shell) -> None:
    shell.produce(shell.topic, "-K", ":", "-Z", given=b"k:\n:v\n")
    shell.produce(shell.topic, "--tombstone", "--key", "k")
    assert sorted((str(each.key), str(each.value)) for each in records(shell)) == [
        ("None", "b'v'"), ("b'k'", "None"), ("b'k'", "None"),
    ]  # fmt: skip


def test_encodings_are_binary(shell: Shell) -> None:
    for encoding, text in (("hex", "00ff"), ("base64", "AP8="), ("int16", "255"), ("json", '{"a": 1}')):
        shell.produce(shell.topic, text, "--value-format", encoding)
    assert [each.value for each in records(shell)] == [b"\0\xff", b"\0\xff", b"\0\xff", b'{"a": 1}']
    refused = shell.refused("produce", shell.topic, "--value-format", "int8", "300", "7", "x")
    assert refused.splitlines() == [
        "tidelog: argument 1: the value is no int8: 300 is no int8",
        "tidelog: argument 3: the value is no int8: invalid literal for int() with base 10: 'x'",
        "1 record sent, 1 bytes of values, 2 failed.",
        "tidelog: 2 records were not sent.",
    ]


def test_json_records_say_all_of_a_record(shell: Shell) -> None:
    lines = [
        {
            "topic": shell.topic,
            "key": "k",
            "value": "é",
            "headers": [{"key": "h", "value": "a"}, {"key": "h", "value": None}],
            "timestamp": 1_700_000_000_000,
            "partition": 0,
        },
        {"topic": shell.topic, "value": None, "key_base64": "/w==", "headers": {"n": 1}, "timestamp": -1},
        {"topic": shell.topic, "value": {"a": [1]}},
    ]
    shell.produce("--format", "json", given="\n".join(map(json.dumps, lines)).encode())
    first, second, third = records(shell)
    assert (first.key, first.value, first.timestamp_ms) == (b"k", "é".encode(), 1_700_000_000_000)
    assert first.headers == (("h", b"a"), ("h", None))
    assert (second.key, second.value, second.headers) == (b"\xff", None, (("n", b"1"),))
    assert (third.key, third.value) == (None, b'{"a":[1]}')


def test_wrong_json_is_named_and_the_rest_is_sent(shell: Shell) -> None:
    given = (
        b'{\n[]\n{"key": "a"}\n{"value": "b", "vlaue": 1}\n{"value": 1, "partition": "x"}\n{"value": "c"}\n'
    )
    refused = shell.refused("produce", shell.topic, "--format", "json", given=given)
    reasons = [
        "it is no JSON", "it is no JSON object", "it has no value", "'vlaue' is no field", "the partition is",
    ]  # fmt: skip
    for line, reason in zip(refused.splitlines(), reasons, strict=False):
        assert reason in line
    assert "tidelog: standard input, record 2: " in refused
    assert [each.value for each in records(shell)] == [b"c"]


def test_errors_of_brokers_are_reported_for_each_record(shell: Shell) -> None:
    refused = shell.refused("produce", shell.topic, "-p", "7", given=b"a\nb\n")
    assert refused.count("there is no 7") == 2
    assert refused.endswith(
        "0 records sent, 0 bytes of values, 2 failed.\ntidelog: 2 records were not sent.\n"
    )
    stopped = shell.refused("produce", shell.topic, "-q", "--stop-on-error", "-K:", given=b"a\nk:b\n")
    assert stopped.endswith("1 record was not sent.\n")
    assert records(shell) == []


def test_many_errors_are_counted_and_few_printed(shell: Shell) -> None:
    refused = shell.refused("produce", shell.topic, "-K", ":", given=b"x\n" * 1000)
    assert refused.count("it has no key") == 20
    assert "1000 failed" in refused


def test_places_are_printed(shell: Shell) -> None:
    done = shell.run("produce", shell.topic, "--offsets", "a", "b", "-q")
    assert done.out == f"{shell.topic}\t0\t0\n{shell.topic}\t0\t1\n".encode()


def test_a_transaction_is_all_or_nothing(shell: Shell) -> None:
    shell.produce(shell.topic, "--transactional-id", shell.topic, given=b"k:a\nk:b\n")
    refused = shell.refused(
        "produce", shell.topic, "--transactional-id", shell.topic, "-K:", given=b"k:c\nd\nk:e\n"
    )
    assert "Nothing was sent: the transaction was aborted." in refused
    found = records(shell, isolation_level="read_committed")
    assert [each.value for each in found] == [b"k:a", b"k:b"]


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
def test_wrong_usage_is_explained(shell: Shell) -> None:
    for arguments, reason in (
        ((), "Name the topic"),
        (("t", "--tombstone"), "--tombstone is one record with --key"),
        (("t", "v", "--file", "-"), "not both"),
        (("t", "-D", ""), "--delimiter is not empty"),
        (("t", "-D", r"\xg"), "two hexadecimal digits"),
        (("t", "-X", "nonsense=1"), "nonsense"),
        (("t", "-X", "batch.size=-1"), "batch_size is -1"),
        (("t", "--timestamp", "noon"), "is no time"),
        (("t", "-k", "x", "--key-format", "int8"), "it is no int8"),
        (("t", "-H", "=x"), "NAME=VALUE"),
    ):
        assert reason in shell.refused("produce", *arguments, code=2)


def test_without_a_broker_nothing_is_read() -> None:
    refused = Shell("127.0.0.1:1").refused("produce", "t", given=b"a\n")
    assert refused.startswith("tidelog: No broker answers at 127.0.0.1:1 (")


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
def test_rate_paces_records(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("tidelog.plugins.client_commands.produce.record_sender.time.sleep", slept.append)
    monkeypatch.setattr("tidelog.plugins.client_commands.produce.record_sender.time.monotonic", lambda: 100.0)
    shell.produce(shell.topic, "--rate", "4", "a", "b", "c")
    assert slept == [0.0, 0.25, 0.5]
