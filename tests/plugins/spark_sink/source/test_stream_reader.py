"""Streaming queries as Spark calls them, over tidelog and over Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import attrs
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from tests.deadlines import wait_until
from tests.plugins.spark_sink.queries import Query, Topic, new_topic, ranges, source, values
from tidelog.plugins.client import GroupOffset, NewTopic, or_raise
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.errors import DataLost
from tidelog.plugins.spark_sink.source.stream_reader import StreamReader


@pytest.fixture
def topic(real_broker: str) -> Iterator[Topic]:
    """A topic with two partitions: a0 to a4 and b0 to b2."""
    with new_topic(real_broker, 2) as topic:
        topic.produce(0, [f"a{index}" for index in range(5)])
        topic.produce(1, [f"b{index}" for index in range(3)])
        yield topic


@pytest.fixture
def tidelog_topic(shared_tidelog: str) -> Iterator[Topic]:
    """A topic of tidelog with one partition: a0 to a9, each in a batch of its own."""
    with new_topic(shared_tidelog) as topic:
        for index in range(10):
            topic.produce(0, [f"a{index}"])
        yield topic


def topic_ids(topic: Topic) -> dict[str, str]:
    """The id of the topic as the broker has it, by its name."""
    return {topic.name: str(topic.client.metadata([topic.name]).topics[topic.name].topic_id)}


def test_a_query_reads_from_its_start_and_goes_on_where_it_was(topic: Topic) -> None:
    with Query(topic, startingOffsets="earliest") as query:
        assert values(query.next_rows()) == ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"]
        assert not query.plan(), "nothing is new"
        topic.produce(1, ["b3"])
        assert query.next_rows() == [(1, 3, b"b3")]
    assert [list(json.loads(each)) for each in query.log] == [
        ["$start", topic.name, "$topics"],
        [topic.name, "$topics"],
    ]
    assert json.loads(query.log[-1]) == {topic.name: {"0": 5, "1": 4}, "$topics": topic_ids(topic)}


def test_a_query_begins_with_what_comes_unless_told_otherwise(topic: Topic) -> None:
    with Query(topic) as query:
        assert query.next_rows() == []
        topic.produce(0, ["new"])
        assert values(query.next_rows()) == ["new"]


def test_the_first_micro_batch_is_repeated_from_where_it_began(topic: Topic) -> None:
    """Spark does not store where it began, and asks again: the ends of the logs have changed meanwhile."""
    with Query(topic) as query:
        query.reader.initialOffset()
        topic.produce(0, ["a5"])
        assert values(query.next_rows()) == ["a5"]
    topic.produce(0, ["a6"])
    with Query(topic, query.log) as again:
        assert again.start_of(0) == {topic.name: {"0": 7, "1": 3}, "$topics": topic_ids(topic)}
        assert values(again.read(0)) == ["a5"]
        assert values(again.next_rows()) == ["a6"]


def test_an_empty_first_micro_batch_can_be_repeated(topic: Topic) -> None:
    with Query(topic) as query:
        assert query.next_rows() == []
    topic.produce(0, ["a5"])
    with Query(topic, query.log) as again:
        assert again.read(0) == []
        assert values(again.next_rows()) == ["a5"]


def test_a_checkpoint_of_sparks_own_source_is_continued(topic: Topic) -> None:
    log = [json.dumps({topic.name: {"1": 2, "0": 4}})]
    with Query(topic, log) as query:
        assert values(query.next_rows()) == ["a4", "b2"]


@pytest.mark.parametrize(
    ("option", "first"),
    [
        ({"startingOffsets": '{"T": {"0": 3, "1": -1}}'}, ["a3", "a4"]),
        ({"startingOffsets": '{"T": {"0": -2, "1": 2}}'}, ["a0", "a1", "a2", "a3", "a4", "b2"]),
        ({"startingTimestamp": 1002}, ["a2", "a3", "a4", "b2"]),
        ({"startingOffsetsByTimestamp": '{"T": {"0": 1004, "1": 0}}'}, ["a4", "b0", "b1", "b2"]),
        (
            {"startingTimestamp": 1004, "startingOffsetsByTimestampStrategy": "latest"},
            ["a4"],
        ),
        ({"startingTimestamp": 1001, "startingOffsets": "latest"}, ["a1", "a2", "a3", "a4", "b1", "b2"]),
    ],
)
def test_a_query_begins_where_its_options_say(
    topic: Topic, option: dict[str, str | int], first: list[str]
) -> None:
    given: dict[str, Any] = {
        name: str(value).replace('"T"', f'"{topic.name}"') for name, value in option.items()
    }
    with Query(topic, **given) as query:
        assert values(query.next_rows()) == first


def test_max_offsets_per_trigger_is_shared_out_by_how_much_there_is(topic: Topic) -> None:
    topic.produce(0, [f"a{index}" for index in range(5, 15)])
    with Query(topic, startingOffsets="earliest", maxOffsetsPerTrigger=6) as query:
        batches = query.rest()
    assert [len(batch) for batch in batches] == [6, 6, 6]
    assert sorted(row for batch in batches for row in batch) == sorted(
        [(0, index, f"a{index}".encode()) for index in range(15)]
        + [(1, index, f"b{index}".encode()) for index in range(3)]
    )


def test_available_now_ends_at_what_was_there_when_it_began(topic: Topic) -> None:
    options: dict[str, Any] = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 3,
        "minOffsetsPerTrigger": 3,
    }
    with Query(topic, available_now=True, **options) as query:
        topic.produce(0, ["too late"])
        batches = query.rest()
        assert sum(len(batch) for batch in batches) == 8
        assert len(batches) >= 3
    with Query(topic, query.log, available_now=True, **options) as later:
        assert [values(batch) for batch in later.rest()] == [["too late"]]


def test_partitions_that_are_added_are_read_from_their_start(topic: Topic) -> None:
    with Query(topic, maxOffsetsPerTrigger=2) as query:
        query.next_rows()
        topic.grow(3)
        topic.produce(2, ["c0", "c1", "c2"])
        assert values(query.next_rows()) == ["c0", "c1"]
        assert values(query.next_rows()) == ["c2"]
        assert json.loads(query.log[-1])[topic.name] == {"0": 5, "1": 3, "2": 3}


def test_topics_that_match_the_pattern_later_are_read(topic: Topic) -> None:
    with Query(topic, subscribePattern=f"{topic.name[2:]}(-later)?$") as query:
        assert query.next_rows() == []
        with (
            new_topic(topic.bootstrap, name=f"{topic.name}-later") as later,
            new_topic(topic.bootstrap, name=f"{topic.name}-never") as other,
        ):
            later.produce(0, ["late"])
            other.produce(0, ["other"])
            assert values(query.next_rows()) == ["late"]


def test_assigned_partitions_alone_are_read(topic: Topic) -> None:
    with Query(topic, assign=f'{{"{topic.name}": [1]}}', startingOffsets="earliest") as query:
        assert values(query.next_rows()) == ["b0", "b1", "b2"]


def test_a_batch_is_read_by_as_many_tasks_as_the_options_ask_for(topic: Topic) -> None:
    topic.produce(0, [f"a{index}" for index in range(5, 12)])
    with Query(topic, startingOffsets="earliest", minPartitions=5) as query:
        assert len(query.next_rows()) == 15
        assert ranges(query.tasks(0)) == [(0, 0, 3), (0, 3, 6), (0, 6, 9), (0, 9, 12), (1, 0, 3)]
    with Query(topic, query.log, maxRecordsPerPartition=5) as query:
        assert ranges(query.tasks(0)) == [(0, 0, 4), (0, 4, 8), (0, 8, 12), (1, 0, 3)]
        assert len(query.read(0)) == 15


def test_offsets_of_finished_micro_batches_are_committed_for_the_group(topic: Topic) -> None:
    group = f"group-of-{topic.name}"
    finished = {topic.partition(0): GroupOffset(5), topic.partition(1): GroupOffset(3)}
    with Query(topic, startingOffsets="earliest", kafka__group__id=group) as query:
        query.plan()
        query.read()
        assert topic.client.committed_offsets(group) == {}
        assert not query.plan(), "Spark plans again when the last micro-batch has ended"
        assert topic.client.committed_offsets(group) == finished
        or_raise(topic.client.commit_offsets(group, {topic.partition(0): GroupOffset(1)}))
        query.plan()
        query.reader.commit(json.loads(query.log[0]))
        assert topic.client.committed_offsets(group)[topic.partition(0)] == GroupOffset(1), "once is enough"
        topic.produce(0, ["a5"])
        query.plan()
        query.reader.commit(json.loads(query.log[1]))
        assert topic.client.committed_offsets(group)[topic.partition(0)] == GroupOffset(6)


def test_read_committed_reads_up_to_the_first_open_transaction(topic: Topic) -> None:
    partition = topic.partition(0)
    producer = topic.client.init_transactions(f"id-of-{topic.name}")
    for end, value in (
        (topic.client.abort_transaction, "no"),
        (topic.client.commit_transaction, "yes"),
    ):
        producer.begin_transaction()
        topic.produce_in(producer, 0, [value])
        end(producer)
    producer.begin_transaction()
    topic.produce_in(producer, 0, ["open"])
    topic.produce(0, ["behind"])
    options: dict[str, Any] = {"startingOffsets": f'{{"{topic.name}": {{"0": 5, "1": -1}}}}'}
    with Query(topic, kafka__isolation__level="read_committed", **options) as query:
        assert values(query.next_rows()) == ["yes"]
        assert not query.plan()
        topic.client.commit_transaction(producer)
        wait_until(query.plan, "the end of the transaction")
        assert values(query.read()) == ["open", "behind"]
    with Query(topic, **options) as query:
        assert values(query.next_rows()) == ["no", "yes", "open", "behind"]
    assert or_raise(topic.client.list_offsets([partition]))[partition].offset == 12


def test_an_unknown_topic_is_an_error_that_names_it(topic: Topic) -> None:
    with (
        Query(topic, subscribe="no-such-topic") as query,
        pytest.raises(ErrorResponse, match=r"'no-such-topic'.*does it exist"),
    ):
        query.plan()


def test_offsets_above_the_end_of_the_log_fail_the_query_or_are_left_out(topic: Topic) -> None:
    options: dict[str, Any] = {
        "startingOffsets": f'{{"{topic.name}": {{"0": 99, "1": 1}}}}',
        "fetchOffset__numRetries": 1,
    }
    with Query(topic, **options) as query:
        query.plan()
        message = rf"the offset of {topic.name}-0 has changed from 99 to 5\..*failOnDataLoss"
        with pytest.raises(DataLost, match=message):
            query.read()
    with Query(topic, query.log, failOnDataLoss=False, **options) as query:
        assert values(query.read(0)) == ["b1", "b2"]


def test_deleted_records_fail_the_query_or_are_left_out(topic: Topic) -> None:
    with Query(topic, startingOffsets="earliest") as query:
        query.plan()
        topic.delete_records(0, before=3)
        with pytest.raises(
            DataLost, match=rf"offsets 0 to 2 of {topic.name}-0 .*begins at offset 3.*failOnDataLoss"
        ):
            query.read()
    with Query(topic, query.log, failOnDataLoss=False) as query:
        assert values(query.read(0)) == ["a3", "a4", "b0", "b1", "b2"]


def made_again(topic: Topic) -> AbstractContextManager[Topic]:
    """Another topic of that name, with as many records and more: n0 to n6."""
    topic.delete()
    return filled(new_topic(topic.bootstrap, 2, name=topic.name))


@contextmanager
def filled(creation: AbstractContextManager[Topic]) -> Generator[Topic]:
    with creation as made:
        made.produce(0, [f"n{index}" for index in range(7)])
        yield made


def test_a_topic_that_is_deleted_fails_the_query(topic: Topic) -> None:
    with Query(topic, startingOffsets="earliest", fetchOffset__numRetries=1) as query:
        query.next_rows()
        topic.delete()
        with pytest.raises(DataLost, match="was deleted"):
            query.plan()


@pytest.mark.parametrize("planned", [0, 1], ids=["before the first micro-batch", "between two"])
def test_a_topic_that_is_made_again_fails_the_query_or_is_read_from_its_start(
    topic: Topic, planned: int
) -> None:
    with (
        Query(topic, startingOffsets="earliest") as query,
        Query(topic, query.log, startingOffsets="earliest", failOnDataLoss=False) as patient,
    ):
        assert query.start_of(0) == patient.start_of(0)
        for _ in range(planned):
            query.next_rows()
        with made_again(topic) as again:
            with pytest.raises(DataLost, match=f"topic '{topic.name}' was deleted and created again"):
                query.plan()
            assert values(patient.next_rows()) == [f"n{index}" for index in range(7)]
            assert not patient.plan(), "nothing is new"
            again.produce(1, ["n7"])
            assert values(patient.next_rows()) == ["n7"]
            with Query(topic, query.log) as repeated:
                assert len(repeated.read(planned)) == 7


def test_a_topic_that_is_made_again_behind_a_plan_is_not_read_for_it(topic: Topic) -> None:
    options: dict[str, Any] = {"startingOffsets": "earliest", "minPartitions": 2}
    small: dict[str, Any] = {"startingOffsets": "earliest"}
    for given in (options, small):
        with (
            Query(topic, **given) as query,
            Query(topic, query.log, failOnDataLoss=False, **given) as patient,
        ):
            query.plan()
            with made_again(topic):
                with pytest.raises(DataLost, match=r"offsets 0 to \d of .* deleted and created again"):
                    query.read()
                assert patient.read() == []
                assert values(patient.next_rows()) == [f"n{index}" for index in range(7)]
                topic.produce(0, ["a", "b"])


def test_a_checkpoint_without_ids_of_topics_is_taken_over(topic: Topic) -> None:
    log = [json.dumps({topic.name: {"0": 5, "1": 2}})]
    with Query(topic, log) as query:
        assert values(query.next_rows()) == ["b2"]
        assert json.loads(query.log[-1])["$topics"] == topic_ids(topic)
        assert not query.plan()
    log = [json.dumps({topic.name: {"0": 5, "1": 3}})]
    with Query(topic, log, fetchOffset__numRetries=1) as query:
        assert not query.plan(), "a micro-batch for the ids alone would be empty"
        with made_again(topic):
            assert query.plan(), "it is compared with nothing"
            with pytest.raises(DataLost, match=f"offset of {topic.name}-1 has changed from 3 to 0"):
                query.read()


def test_a_stored_position_can_be_copied_into_an_option(topic: Topic) -> None:
    with Query(topic, startingOffsets="earliest", maxOffsetsPerTrigger=4) as query:
        query.next_rows()
    with Query(topic, startingOffsets=query.log[0]) as later:
        assert len(later.next_rows()) == 5


def test_a_deleted_topic_of_a_pattern_fails_the_query_or_is_forgotten(shared_tidelog: str) -> None:
    with new_topic(shared_tidelog) as stays, new_topic(shared_tidelog) as goes:
        goes.produce(0, ["gone"])
        options: dict[str, Any] = {
            "subscribePattern": f"{stays.name}|{goes.name}",
            "startingOffsets": "earliest",
        }
        with Query(stays, **options) as query:
            query.plan()
            goes.delete()
            stays.produce(0, ["stays"])
            query.plan()
            with pytest.raises(DataLost, match=f"partition {goes.name}-0 is gone"):
                query.read()
        with Query(stays, query.log, failOnDataLoss=False, **options) as query:
            assert values(query.read()) == ["stays"]


def test_a_log_that_is_shorter_than_the_plan_is_data_loss_after_a_while(tidelog_topic: Topic) -> None:
    log = [json.dumps({tidelog_topic.name: {"0": 8}}), json.dumps({tidelog_topic.name: {"0": 15}})]
    options: dict[str, Any] = {"kafkaConsumer__pollTimeoutMs": 300, "kafka__fetch__max__wait__ms": 50}
    message = r"offsets 10 to 14 .* its log ends at offset 10\..* set the option failOnDataLoss to false"
    with Query(tidelog_topic, log, **options) as query, pytest.raises(DataLost, match=message):
        query.read()
    with Query(tidelog_topic, log, failOnDataLoss=False, **options) as query:
        assert values(query.read()) == ["a8", "a9"]


def test_get_default_read_limit_is_what_the_options_say(tidelog_topic: Topic) -> None:
    def limit(**options: int) -> object:
        data_source = source(tidelog_topic, **options)
        return data_source.streamReader(data_source.schema()).getDefaultReadLimit()

    assert limit() == ReadAllAvailable()
    assert limit(maxOffsetsPerTrigger=7) == ReadMaxRows(7)
    assert limit(minOffsetsPerTrigger=7) == ReadMinRows(7)
    assert limit(minOffsetsPerTrigger=7, maxOffsetsPerTrigger=9) == ReadMaxRows(9)


def test_a_query_warns_once_of_options_without_effect(
    tidelog_topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    data_source = source(tidelog_topic, kafka__check__crcs="true")
    reader = data_source.streamReader(data_source.schema())
    assert not caplog.messages
    for _ in range(3):
        reader.getDefaultReadLimit()
    (message,) = caplog.messages
    assert message.endswith(": kafka.check.crcs")


@attrs.define
class Clock:
    """A time in seconds that a test sets."""

    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_min_offsets_per_trigger_waits_for_so_many_or_so_long(tidelog_topic: Topic) -> None:
    clock = Clock()
    with Query(tidelog_topic, minOffsetsPerTrigger=3, maxTriggerDelay="20s") as query:
        query.reader = StreamReader(query.reader.options, clock)
        assert query.next_rows() == []
        tidelog_topic.produce(0, ["x"])
        assert query.plan(), "no batch was made for a long time"
        tidelog_topic.produce(0, ["y"])
        clock.now_s += 19
        assert not query.plan()
        clock.now_s += 1
        assert values(query.next_rows()) == ["y"]
        tidelog_topic.produce(0, ["z0", "z1", "z2"])
        assert values(query.next_rows()) == ["z0", "z1", "z2"]


def test_report_latest_offset_has_the_ends_of_the_logs(tidelog_topic: Topic) -> None:
    with Query(tidelog_topic, startingOffsets="earliest", maxOffsetsPerTrigger=4) as query:
        assert query.reader.reportLatestOffset() is None
        query.plan()
        assert query.reader.reportLatestOffset() == {tidelog_topic.name: {"0": 10}}


def test_initial_offset_is_an_error_without_all_partitions(topic: Topic) -> None:
    wanted = f'{{"{topic.name}": {{"0": 1, "7": 1}}}}'
    message = rf"missing: {topic.name}-1; not in the query: {topic.name}-7"
    with Query(topic, startingOffsets=wanted) as query, pytest.raises(InvalidOption, match=message):
        query.plan()


def test_initial_offset_is_an_error_without_a_record_of_that_time(topic: Topic) -> None:
    message = r"no record of .* has the timestamp 5000 of startingTimestamp"
    with Query(topic, startingTimestamp=5000) as query, pytest.raises(InvalidOption, match=message):
        query.plan()


def test_an_internal_topic_is_never_read(shared_tidelog: str) -> None:
    with new_topic(shared_tidelog) as topic:
        or_raise(topic.client.commit_offsets("a-group", {topic.partition(0): GroupOffset(0)}))
        with Query(topic, subscribePattern="consumer_offsets", startingOffsets="earliest") as query:
            assert query.start_of(0) == {}
        or_raise(topic.client.create_topics([NewTopic(f"{topic.name}-consumer_offsets")]))
