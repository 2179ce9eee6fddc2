"""`tidelog load` without Spark: from its flags to what writes its files, and what it prints."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.plugins.spark_sink.load.loads import Lines
from tests.plugins.spark_sink.load.running import arguments
from tests.plugins.spark_sink.queries import Topic, new_topic
from tests.secured_brokers import secured_tidelog
from tests.tables import for_each
from tidelog.client import Producer
from tidelog.plugins.client import BlockingClient, NewTopic, or_raise
from tidelog.plugins.spark_sink.load import spark
from tidelog.plugins.spark_sink.load.command import load
from tidelog.plugins.spark_sink.load.directory import LoadDirectory
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.execution import request_of
from tidelog.plugins.spark_sink.load.planning import check_plan, make_plan
from tidelog.plugins.spark_sink.load.request import LoadRequest


class FakeSpark:
    """Stands for the session and what writes with it; keeps what it was made with."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sessions: list[tuple[Mapping[str, str], Path]] = []
        self.made: list[dict[str, Any]] = []
        fake = self

        class Chunks(Lines):
            def __init__(self, session: str, request: LoadRequest, bootstrap: str, task_records: int) -> None:
                assert session == "session"
                fake.made.append(
                    {"request": request, "bootstrap": bootstrap, "task_records": task_records, "options": {}}
                )

            def read_with(self, **options: str) -> None:
                fake.made[-1]["options"] |= options

        @contextmanager
        def session(given: Mapping[str, str], log: Path) -> Generator[str]:
            self.sessions.append((given, log))
            yield "session"

        patch.setattr(spark, "spark_session", session)
        patch.setattr(spark, "SparkChunks", Chunks)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    return FakeSpark(monkeypatch)


@pytest.fixture(scope="module")
def topic(shared_tidelog: str) -> Iterator[Topic]:
    """Offsets 3 to 9 in the first partition, 0 to 4 in the second one; nothing in the third one."""
    with new_topic(shared_tidelog, 3) as topic:
        topic.produce(0, [str(index) for index in range(10)])
        topic.produce(1, [str(index) for index in range(5)])
        topic.delete_records(0, 3)
        yield topic


def printed(topic: Topic, target: Path, *flags: str) -> str:
    """What a load prints on standard output."""
    done = CliRunner().invoke(load, arguments(topic, target, *flags), catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_a_load_says_what_it_has_done(
    topic: Topic, tmp_path: Path, fake: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, sizes = tmp_path / "t", ("--task-records", "2", "--chunk-records", "4")
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(LoadDirectory, "finish", lambda self: (_ for _ in ()).throw(LoadFailed("stopped")))
        with pytest.raises(LoadFailed, match="stopped"):
            printed(topic, target, *sizes)
    for file in sorted((target / "_tidelog_load" / "commits").iterdir())[1:]:
        file.unlink()
    text = printed(topic, target, *sizes)
    files = len(list(target.glob("topic=*/chunk-*")))
    size_bytes = sum(each.stat().st_size for each in target.glob("topic=*/chunk-*"))
    lines = text.splitlines()
    assert lines[0].startswith(
        f"Loaded 12 records of 1 topic (2 partitions) into {files} files with {size_bytes} bytes in {target}."
        " This start took "
    )
    assert lines[1:] == ["1 of 3 chunks were there from earlier starts."]
    assert printed(topic, target) == f"The load was already complete: 12 records in {files} files.\n"
    summary = json.loads(printed(topic, target, "--json"))
    assert summary.pop("seconds") >= 0
    assert summary == {
        "directory": str(target),
        "topics": 1,
        "partitions": 2,
        "records": 12,
        "files": files,
        "size_bytes": size_bytes,
        "chunks_before": 3,
        "chunks": 3,
    }


def test_numbers_of_one_and_of_none_are_in_words(topic: Topic, tmp_path: Path, fake: FakeSpark) -> None:
    with new_topic(topic.bootstrap, 1) as other:
        other.produce(0, ["a"])
        assert "Loaded 1 records of 1 topic (1 partition) into" in printed(other, tmp_path / "one")
        both = printed(topic, tmp_path / "both", other.name)
        assert "Loaded 13 records of 2 topics (3 partitions) into" in both
        assert len(both.splitlines()) == 1


def test_flags_reach_what_writes_the_files(
    topic: Topic, tmp_path: Path, fake: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    flags = ["--conf", "spark.master=local[1]", "--conf", "spark.sql.x=1", "--task-records", "7"]
    printed(topic, tmp_path / "t", *flags, "--skip-deleted", "--local-log-dir", "data")
    assert fake.sessions == [
        (
            {"spark.master": "local[1]", "spark.sql.x": "1"},
            tmp_path / "t" / "_tidelog_load" / "spark.log",
        )
    ]
    (made,) = fake.made
    assert made["bootstrap"] == topic.bootstrap
    assert made["task_records"] == 7
    assert made["options"] == {"failOnDataLoss": "false", "localLogDirs": str(tmp_path / "data")}
    assert made["request"].topics == (topic.name,)
    printed(topic, tmp_path / "u")
    assert fake.made[-1]["options"] == {"failOnDataLoss": "true"}
    printed(topic, tmp_path / "u")
    assert len(fake.made) == 2, "no Spark is started for a load that is complete"
    printed(topic, tmp_path / "u", "--overwrite")
    assert len(fake.made) == 3


GIVEN: dict[str, Any] = {
    "topics": ("b", "a", "b"),
    "pattern": None,
    "from_time": "5",
    "to_time": "6",
    "from_offsets": None,
    "to_offsets": None,
    "file_format": "orc",
    "partition_by": ("date",),
    "select": ("key",),
    "no_headers": True,
    "write_options": {"w": "1"},
    "source_options": {"s": "1"},
    "command_config": {},
    "conf": {"spark.sql.x": "1", "spark.master": "local"},
}


@for_each(
    ("changes", "expected"),
    [
        (
            {},
            LoadRequest(
                topics=("a", "b"),
                pattern=None,
                limits={"--from-time": "5", "--to-time": "6"},
                format="orc",
                partition_by=("date",),
                select=("key",),
                headers=False,
                write_options={"w": "1"},
                source_options={"s": "1"},
                settings={"spark.sql.x": "1"},
            ),
        ),
        (
            {
                "topics": (),
                "pattern": "x",
                "from_time": None,
                "to_time": None,
                "from_offsets": "earliest",
                "to_offsets": "latest",
                "no_headers": False,
            },
            LoadRequest(
                topics=(),
                pattern="x",
                limits={"--from-offsets": "earliest", "--to-offsets": "latest"},
                format="orc",
                partition_by=("date",),
                select=("key",),
                headers=True,
                write_options={"w": "1"},
                source_options={"s": "1"},
                settings={"spark.sql.x": "1"},
            ),
        ),
    ],
)
def test_request_of_flags(changes: dict[str, Any], expected: LoadRequest) -> None:
    assert request_of({**GIVEN, **changes}) == expected


def requested(topic: Topic, **changes: Any) -> LoadRequest:
    """A request for the topic."""
    none = dict.fromkeys(("from_time", "to_time", "from_offsets", "to_offsets"))
    return request_of({**GIVEN, **none, "topics": (topic.name,), "source_options": {}, **changes})


def offsets(topic: Topic, first: int, second: int = 0, third: int = 0) -> str:
    """The value of a flag."""
    return json.dumps({topic.name: {"0": first, "1": second, "2": third}})


def test_a_plan_has_what_is_there_now(topic: Topic) -> None:
    request = requested(topic)
    plan = make_plan(request, request.parsed(topic.bootstrap, skip_deleted=False), 100, 1000)
    assert plan.request == request.identity()
    assert plan.topic_ids.keys() == {topic.name}
    assert plan.task_records == 100
    assert [[str(each.partition)[-1:] for each in chunk] for chunk in plan.chunks] == [["0", "1"]]
    assert [(each.start, each.stop) for each in plan.chunks[0]] == [(3, 10), (0, 5)]


def test_deleted_records_are_skipped_on_request(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    request = requested(topic, from_offsets=offsets(topic, 1, 5))
    options = request.parsed(topic.bootstrap, skip_deleted=True)
    with caplog.at_level(logging.WARNING):
        plan = make_plan(request, options, 100, 1000)
        assert [(each.start, each.stop) for (each,) in plan.chunks] == [(3, 10)]
        topic_0 = (
            f"offsets 1 to 2 of {topic.name}-0 were deleted, by retention or on request: they are skipped"
        )
        assert caplog.messages == [topic_0]
        check_plan(plan, [0], options)
        assert caplog.messages == [topic_0], "what remains begins where the log does"
    ends = requested(topic, from_offsets=offsets(topic, 10, 5), to_offsets=offsets(topic, 10, 5))
    with pytest.raises(LoadFailed, match=r"There is nothing to load: .* with --from-offsets .* and --to-off"):
        make_plan(ends, ends.parsed(topic.bootstrap, skip_deleted=True), 100, 1000)


def test_an_empty_range_in_one_of_two_topics_leaves_that_topic_out_of_the_plan(topic: Topic) -> None:
    with new_topic(topic.bootstrap) as empty, new_topic(topic.bootstrap) as other:
        request = requested(topic, topics=(topic.name, empty.name))
        plan = make_plan(request, request.parsed(topic.bootstrap, skip_deleted=False), 100, 1000)
        assert plan.topic_ids.keys() == {topic.name}
        request = requested(topic, topics=(empty.name, other.name))
        names = ", ".join(sorted((empty.name, other.name)))
        with pytest.raises(LoadFailed) as raised:
            make_plan(request, request.parsed(topic.bootstrap, skip_deleted=False), 100, 1000)
        assert str(raised.value) == f"There is nothing to load: 2 topics ({names}) have no records."


def test_times_in_the_wrong_order_in_one_partition_leave_it_out(topic: Topic) -> None:
    """Of times only the order counts: a partition may have nothing between them."""
    request = requested(topic, from_time="1003", to_time="1005")
    plan = make_plan(request, request.parsed(topic.bootstrap, skip_deleted=False), 100, 1000)
    assert [(each.start, each.stop) for each in plan.chunks[0]] == [(3, 5), (3, 5)]
    late = requested(topic, from_time="1006", to_time="1008")
    plan = make_plan(late, late.parsed(topic.bootstrap, skip_deleted=False), 100, 1000)
    assert [(each.start, each.stop) for each in plan.chunks[0]] == [(6, 8)]


def test_a_load_logs_in_with_the_file_of_command_config(tmp_path: Path, fake: FakeSpark) -> None:
    with secured_tidelog(tmp_path) as broker:
        with BlockingClient(broker.plain) as client:
            or_raise(client.create_topics([NewTopic("tides", 1)]))
        with Producer(broker.plain) as producer:
            producer.send_and_wait("tides", b"x")
        given = ["tides", "--into", str(tmp_path / "t"), "--bootstrap-server", broker.bootstrap]
        done = CliRunner().invoke(
            load, [*given, "--command-config", broker.properties()], catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        assert "Loaded 1 records of 1 topic" in done.output
        other = [*given[:2], str(tmp_path / "u"), *given[3:]]
        assert CliRunner().invoke(load, other).exit_code != 0
