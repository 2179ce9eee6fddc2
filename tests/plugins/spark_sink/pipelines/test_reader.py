"""The source of pipelines, called as Spark calls it: it waits for news, and topics come and go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.peers import running_tidelog
from tests.plugins.spark_sink.queries import Topic, new_topic, planned_rows, stored, values
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.spark_sink.pipelines import reader as reader_module
from tidelog.plugins.spark_sink.pipelines.news_pipe import STOP, NewsSender
from tidelog.plugins.spark_sink.pipelines.reader import PipelineDataSource, PipelineReader


class Pipeline:
    """A query over topics, with the position that Spark would store."""

    def __init__(self, bootstrap: str, folder: Path, **options: str) -> None:
        given = {"startingOffsets": "earliest", "failOnDataLoss": "false", **options}
        source = PipelineDataSource(
            {"kafka.bootstrap.servers": bootstrap, "news": str(folder / "news"), **given}
        )
        reader = source.streamReader(source.schema())
        assert isinstance(reader, PipelineReader)
        self.reader = reader
        self.news = NewsSender(folder / "news")
        self.position: dict[str, Any] = stored(reader.initialOffset())

    def latest(self) -> dict[str, Any]:
        """Where the next micro-batch would end."""
        return stored(self.reader.latestOffset(self.position, self.reader.getDefaultReadLimit()))

    def next_values(self) -> list[str]:
        """The values of the next micro-batch, of which there may be none."""
        self.news.send()
        start, self.position = self.position, self.latest()
        if json.dumps(start) == json.dumps(self.position):
            return []
        return values(planned_rows(self.reader, start, self.position))

    def close(self) -> None:
        """Close its connections and its pipe."""
        self.reader.stop()
        self.news.close()


@pytest.fixture
def pipeline(shared_tidelog: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline with the options of the test's parameter, or over topics whose names begin with `tides`."""
    options: dict[str, str] = getattr(request, "param", {"topicsRegex": r"tides-\d+"})
    made = Pipeline(shared_tidelog, tmp_path, **options)
    with closing(made):
        yield made


def topic(bootstrap: str, name: str) -> Any:
    """A topic that is deleted when the block ends."""
    return new_topic(bootstrap, 1, name)


@pytest.mark.parametrize(
    "pipeline", [{"topics": "tides-7,tides-8"}, {"topicsRegex": r"tides-\d+"}], indirect=True
)
def test_topics_are_read_from_their_beginning_when_they_come(pipeline: Pipeline, shared_tidelog: str) -> None:
    assert pipeline.next_values() == []
    with topic(shared_tidelog, "tides-7") as first, topic(shared_tidelog, "not-tides-7") as other:
        first.produce(0, ["a"])
        other.produce(0, ["of another topic"])
        assert pipeline.next_values() == ["a"]
        with topic(shared_tidelog, "tides-8") as second:
            second.produce(0, ["b", "c"])
            assert pipeline.next_values() == ["b", "c"]
            second.delete()
        first.produce(0, ["d"])
        assert pipeline.next_values() == ["d"]
        first.delete()
        other.delete()


def test_a_topic_that_is_created_again_is_read_from_its_beginning(
    pipeline: Pipeline, shared_tidelog: str
) -> None:
    for number in range(2):
        with topic(shared_tidelog, "tides-1") as made:
            made.produce(0, [f"{number}-a", f"{number}-b"])
            assert pipeline.next_values() == [f"{number}-a", f"{number}-b"]
            made.delete()


def test_an_idle_pipeline_asks_the_broker_for_nothing(
    pipeline: Pipeline, shared_tidelog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_WAIT_S", 0)
    with topic(shared_tidelog, "tides-2") as made:
        made.produce(0, ["a"])
        assert pipeline.next_values() == ["a"]
        assert pipeline.next_values() == []
        made.produce(0, ["b"])

        def refuse(*_: object) -> Any:
            raise ClientError("there is to be no request")

        with monkeypatch.context() as patch:
            patch.setattr(pipeline.reader._ranges.log_offsets, "latest", refuse)  # pyright: ignore[reportPrivateUsage]
            assert pipeline.latest() == pipeline.position
            pipeline.news.send()
            with pytest.raises(ClientError):
                pipeline.latest()
        assert pipeline.next_values() == ["b"]
        made.delete()


def test_a_pipeline_that_stops_begins_nothing(pipeline: Pipeline, shared_tidelog: str) -> None:
    with topic(shared_tidelog, "tides-3") as made:
        made.produce(0, ["a"])
        pipeline.news.send(STOP)
        assert pipeline.next_values() == []
        made.delete()


def test_a_position_without_ids_of_topics_is_continued(pipeline: Pipeline, shared_tidelog: str) -> None:
    made: Topic
    with topic(shared_tidelog, "tides-4") as made:
        made.produce(0, ["a", "b"])
        pipeline.position = {"tides-4": {"0": 1}}
        assert pipeline.next_values() == ["b"]
        made.delete()


def test_the_files_of_the_broker_are_read_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_tidelog(tmp_path) as server, topic(server.bootstrap, "tides-5") as made:
        files = {"localLogDirs": str(server.data_dir), "prefetchOffsets": "0"}
        pipeline = Pipeline(server.bootstrap, tmp_path, topics="tides-5", **files)
        with closing(pipeline), monkeypatch.context() as patch:
            patch.setattr("tidelog.plugins.spark_sink.source.reading.BlockingDriver", None)
            for number in range(3):
                made.produce(0, [f"{number}-a", f"{number}-b"])
                assert pipeline.next_values() == [f"{number}-a", f"{number}-b"]
