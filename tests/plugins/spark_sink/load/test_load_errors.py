"""`tidelog load`: what is wrong is one sentence, before Spark starts, and leaves no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from click.testing import CliRunner

from tests.kernel.cli.running import tidelog
from tests.peers import free_port
from tests.plugins.spark_sink.load.running import arguments
from tests.plugins.spark_sink.queries import Topic, new_topic
from tidelog.kernel.errors import TidelogError
from tidelog.plugins.spark_sink.load.command import load
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.execution import request_of
from tidelog.plugins.spark_sink.load.plan import LoadPlan
from tidelog.plugins.spark_sink.load.planning import check_plan, check_topics, make_plan
from tidelog.plugins.spark_sink.load.times import iso_time, timestamp_ms
from tidelog.plugins.spark_sink.source.options import SourceOptions

DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("from_time", "to_time", "from_offsets", "to_offsets")),
    **dict.fromkeys(("partition_by", "select"), ()),
    "write_options": {},
    "source_options": {},
    "command_config": {},
    "conf": {},
    "file_format": "parquet",
    "no_headers": False,
}


@pytest.fixture(scope="module")
def topic(shared_tidelog: str) -> Iterator[Topic]:
    """Offsets 3 to 9 in the first partition, whose timestamps begin with 1003; nothing in the second one."""
    with new_topic(shared_tidelog, 2) as topic:
        topic.produce(0, [str(index) for index in range(10)])
        topic.delete_records(0, 3)
        yield topic


def offsets(topic: Topic, first: int, second: int = 0) -> str:
    """The value of a flag."""
    return f'{{"{topic.name}": {{"0": {first}, "1": {second}}}}}'


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            lambda topic: ["--from-time", "2020-01-01"],
            "has no records with --from-time 2020-01-01T00:00:00Z.",
        ),
        (lambda topic: ["--to-time", "01000"], "has no records with --to-time 1970-01-01T00:00:01Z."),
        (lambda topic: ["--from-offsets", offsets(topic, 10)], "There is nothing to load: topic"),
        (
            lambda topic: ["--from-offsets", offsets(topic, 1)],
            "Offsets 1 to 2 of {topic}-0 were deleted, by retention or on request. With --skip-deleted",
        ),
        (
            lambda topic: ["--to-offsets", offsets(topic, 11)],
            "{topic}-0 ends at offset 10, so nothing can be loaded up to 11 (--to-offsets).",
        ),
        (
            lambda topic: ["--from-offsets", offsets(topic, 8), "--to-offsets", offsets(topic, 5)],
            "{topic}-0 would be loaded from offset 8 to 5, which is below it.",
        ),
        (
            lambda topic: ["--to-offsets", offsets(topic, 2)],
            "{topic}-0 would be loaded from offset 3 to 2, which is below it.",
        ),
        (
            lambda topic: ["--from-offsets", '{"other": {"0": 1}}'],
            "The option --from-offsets has to have all partitions of the query and no others",
        ),
    ],
)
def test_load_of_a_range_that_is_not_there(
    topic: Topic, tmp_path: Path, flags: Callable[[Topic], list[str]], message: str
) -> None:
    with pytest.raises(TidelogError) as raised:
        load.main(arguments(topic, tmp_path / "t", *flags(topic)), standalone_mode=False)
    assert message.format(topic=topic.name) in str(raised.value)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("by_pattern", [False, True])
def test_load_refuses_a_topic_that_was_deleted_and_made_again(shared_tidelog: str, by_pattern: bool) -> None:
    with new_topic(shared_tidelog) as made, new_topic(shared_tidelog) as other:
        for each in (made, other):
            each.produce(0, ["a", "b"])
        names = (made.name, other.name)
        request = request_of(
            {
                **DEFAULTS,
                "topics": () if by_pattern else names,
                "pattern": "|".join(names) if by_pattern else None,
            }
        )
        options = request.parsed(shared_tidelog, skip_deleted=False)
        plan = make_plan(request, options, 10, 10)

        def check_rest(plan: LoadPlan, options: SourceOptions) -> None:
            check_plan(plan, [0], options)

        checks = (check_topics, check_rest)
        for check in checks:
            check(plan, options)
        without_ids = attrs.evolve(plan, topic_ids=dict.fromkeys(plan.topic_ids))
        made.delete()
        message = (
            "is not the one that the load began with: it was deleted" if by_pattern else "does not exist"
        )
        for check in checks:
            with pytest.raises(LoadFailed, match=message):
                check(plan, options)
        with new_topic(shared_tidelog, name=made.name):
            made.produce(0, ["c", "d", "e"])
            for check in checks:
                with pytest.raises(
                    LoadFailed, match=f"Topic '{made.name}' is not .* and created again. .* directory\\.$"
                ):
                    check(plan, options)
                check(without_ids, options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["no-such-topic"], "Topic 'no-such-topic' does not exist. `tidelog topics list` lists the topics."),
        (["--pattern", "^no-such"], "No topic matches the pattern '^no-such': `tidelog topics list`"),
    ],
)
def test_load_of_a_topic_that_is_not_there(
    shared_tidelog: str, tmp_path: Path, given: list[str], message: str
) -> None:
    flags = ["--into", str(tmp_path / "t"), "--bootstrap-server", shared_tidelog]
    with pytest.raises(TidelogError) as raised:
        load.main([*given, *flags], standalone_mode=False)
    assert message in str(raised.value)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "Name topics, or a --pattern of their names."),
        (["t", "--pattern", "t"], "Name topics, or a --pattern of their names."),
        (
            ["t", "--from-time", "1000000", "--from-offsets", "earliest"],
            "Give one of --from-time and --from-",
        ),
        (["t", "--to-time", "1000000", "--to-offsets", "latest"], "Give one of --to-time and --to-offsets."),
        (
            ["t", "--from-time", "2026-02-01", "--to-time", "2026-01-31"],
            "--from-time 2026-02-01T00:00:00Z is not before --to-time 2026-01-31T00:00:00Z.",
        ),
        (["t", "--from-time", "yesterday"], "'yesterday' is no time since 1970, such as 2026-01-31, "),
        (["t", "--task-records", "0"], "0 is not in the range x>=1."),
        (["t", "--chunk-records", "0"], "0 is not in the range x>=1."),
        (["t", "--from-offsets", "latest"], "the option --from-offsets cannot be latest (-1)"),
        (["t", "--to-offsets", "earliest"], "the option --to-offsets cannot be earliest (-2)"),
        (["t", "--to-offsets", "5"], "the option --to-offsets has to be like"),
        (
            ["t", "--option", "startingOffsets=latest"],
            "--option cannot set startingOffsets: use --from-offsets",
        ),
        (["t", "--option", "kafka.fetch.min.byte=1"], "the nearest one is kafka.fetch.min.bytes."),
        (["t", "--option", "kafka.isolation.level=all"], "kafka.isolation.level has to be one of"),
        (["t", "--option", "x"], "'x' is not of the form NAME=VALUE."),
        (["t", "--conf", "a=1", "--conf", "a=2"], "a is given more than once."),
        (["t", "--partition-by", "topic,topic"], "a column is named more than once."),
        (["t", "--into", "s3://bucket/x"], "has 's3://bucket/x', and the scheme s3 cannot be served: name a"),
        (["t", "--into", "file:///x"], "name the path alone, without the scheme file."),
        (["t", "--local-log-dir", "hdfs://host/x"], "the scheme hdfs cannot be served"),
        (["t", "--local-log-dir", "/no/such/folder"], "there is no directory /no/such/folder."),
        (["t", "--bootstrap-server", "host"], "host"),
        (["--pattern", "("], "subscribePattern has to be a regular expression"),
    ],
)
def test_load_refuses_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError) as raised:
        load.main(["--into", str(tmp_path / "t"), *given], standalone_mode=False)
    assert message in raised.value.format_message()
    assert raised.value.format_message().endswith(".")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "--into DIRECTORY ",
        "--from-time TIME ",
        "--from-offsets OFFSETS ",
        "--format FORMAT ",
        "[default: parquet]",
        "--partition-by COLUMNS ",
        "[default: topic,date]",
        "--task-records INTEGER RANGE ",
        "[default: 1000000; x>=1]",
        "[default: 4000000; x>=1]",
    ],
)
def test_the_help_names_values_and_defaults(text: str) -> None:
    shown = CliRunner().invoke(load, ["--help"]).output
    assert text in f"{' '.join(shown.split())} "


def test_load_without_a_broker_is_one_sentence_and_exit_code_1(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    flags = ["--option", "fetchOffset.numRetries=1", "--option", "kafka.default.api.timeout.ms=100"]
    done = tidelog("load", "t", "--into", str(tmp_path / "t"), "--bootstrap-server", address, *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"tidelog: No broker answers at {address}")
    assert done.stderr.endswith("--bootstrap-server names another address.\n")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("2026-01-31", 1769817600000),
        ("2026-01-31T12:30:00Z", 1769862600000),
        ("2026-01-31T12:30:00", 1769862600000),
        ("2026-01-31T13:30:00.250+01:00", 1769862600250),
        ("1769862600000", 1769862600000),
        ("1970-01-01", 0),
    ],
)
def test_timestamp_ms_reads_times(text: str, timestamp: int) -> None:
    assert timestamp_ms(text) == timestamp
    assert timestamp_ms(iso_time(timestamp)) == timestamp


@pytest.mark.parametrize("text", ["", "1969-12-31", "31.1.2026", "now", "-1", "1234"])
def test_timestamp_ms_refuses_other_texts(text: str) -> None:
    with pytest.raises(ValueError, match="is no time since 1970"):
        timestamp_ms(text)
