"""From a request to offsets, and whether what is left of a plan can still be read."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator
from contextlib import contextmanager

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.spark_sink.load.errors import LoadFailed, client_error_text
from tidelog.plugins.spark_sink.load.plan import LoadPlan, chunks_of
from tidelog.plugins.spark_sink.load.request import LoadRequest
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source.log_offsets import LogOffsets
from tidelog.plugins.spark_sink.source.options import SourceOptions

log = logging.getLogger(__name__)


@contextmanager
def log_offsets(options: SourceOptions) -> Generator[LogOffsets]:
    """Yield the lookups of offsets; errors of the client and of options become sentences.

    Raises:
        LoadFailed: no broker answered, or a topic or partition does not exist.
    """
    lookups = LogOffsets(options)
    try:
        yield lookups
    except ClientError as error:
        raise LoadFailed(client_error_text(error)) from error
    except InvalidOption as error:
        text = str(error)
        raise LoadFailed(f"{text[:1].upper()}{text[1:]}.") from error
    finally:
        lookups.close()


def make_plan(
    request: LoadRequest, options: SourceOptions, task_records: int, chunk_records: int
) -> LoadPlan:
    """Fix the offsets that a request means now.

    Raises:
        LoadFailed: there is no such topic, nothing in the range, or the range is not there (any more).
    """
    with log_offsets(options) as lookups:
        partitions = lookups.partitions()
        if not partitions:
            raise LoadFailed(
                f"No topic matches the pattern {request.pattern!r}: `tidelog topics list` lists them."
            )
        # Before their offsets: were one created again meanwhile, its id would not be that of the plan.
        topic_ids = _topic_ids(lookups, {each.topic for each in partitions})
        starts, stops = lookups.resolve(options.start), lookups.resolve(options.end)
        earliest, latest = lookups.earliest(partitions), lookups.latest()
        ranges: list[OffsetRange] = []
        for partition in sorted(starts.keys() & stops.keys() & earliest.keys() & latest.keys()):
            start, stop = starts[partition], stops[partition]
            _check_range(request, partition, start, stop, latest[partition])
            start = _readable_start(partition, start, earliest[partition], options)
            if start < stop:
                ranges.append(OffsetRange(partition, start, stop))
        if not ranges:
            raise LoadFailed(_nothing(request, sorted({each.topic for each in partitions})))
        topic_ids = {topic: topic_ids[topic] for topic in sorted({each.partition.topic for each in ranges})}
    return LoadPlan(
        request.identity(), topic_ids, task_records, chunks_of(ranges, task_records, chunk_records)
    )


def check_plan(plan: LoadPlan, remaining: Collection[int], options: SourceOptions) -> None:
    """Check that what remains of a plan can be read.

    Raises:
        LoadFailed: a topic is gone or was created again, or offsets were deleted, unless deleted ones are to
            be skipped.
    """
    ranges = plan.partitions(remaining)
    with log_offsets(options) as lookups:
        _check_topics(lookups, plan)
        earliest = lookups.earliest(ranges.keys())
        for partition, left in ranges.items():
            _readable_start(partition, left.start, earliest.get(partition, left.start), options)


def check_topics(plan: LoadPlan, options: SourceOptions) -> None:
    """Check that what was just read, by offsets, is of the topics of the plan: ids never come back.

    Raises:
        LoadFailed: a topic is gone or was created again since the plan was made.
    """
    with log_offsets(options) as lookups:
        _check_topics(lookups, plan)


def _check_topics(lookups: LogOffsets, plan: LoadPlan) -> None:
    existing = {each.topic for each in lookups.partitions()}
    for topic, planned in plan.topic_ids.items():
        found = lookups.topic_id(topic)
        # Brokers before Apache Kafka 2.8 have no ids.
        is_other = None not in (found, planned) and str(found) != planned
        if topic not in existing or is_other:
            raise LoadFailed(
                f"Topic {topic!r} is not the one that the load began with: it was deleted"
                f"{' and created again' * is_other}. Begin again with --overwrite, or load into another "
                "directory."
            )


def _check_range(request: LoadRequest, partition: TopicPartition, start: int, stop: int, end: int) -> None:
    # Of times only the order counts: a partition may have nothing between them.
    if "--to-offsets" in request.limits and stop > end:
        raise LoadFailed(
            f"{partition} ends at offset {end}, so nothing can be loaded up to {stop} (--to-offsets)."
        )
    if start > stop and request.limits.keys() & {"--from-offsets", "--to-offsets"}:
        raise LoadFailed(f"{partition} would be loaded from offset {start} to {stop}, which is below it.")


def _readable_start(partition: TopicPartition, start: int, earliest: int, options: SourceOptions) -> int:
    if start >= earliest:
        return start
    gone = f"offsets {start} to {earliest - 1} of {partition} were deleted, by retention or on request"
    if options.fail_on_data_loss:
        raise LoadFailed(f"{gone[:1].upper()}{gone[1:]}. With --skip-deleted the load does without them.")
    log.warning("%s: they are skipped", gone)
    return earliest


def _nothing(request: LoadRequest, topics: list[str]) -> str:
    limits = " and ".join(f"{name} {request.limit_text(name)}" for name in sorted(request.limits))
    where = (
        f"topic {topics[0]} has" if len(topics) == 1 else f"{len(topics)} topics ({', '.join(topics)}) have"
    )
    return f"There is nothing to load: {where} no records" + (f" with {limits}." if limits else ".")


def _topic_ids(lookups: LogOffsets, topics: Collection[str]) -> dict[str, str | None]:
    found = {topic: lookups.topic_id(topic) for topic in sorted(topics)}
    return {topic: None if topic_id is None else str(topic_id) for topic, topic_id in found.items()}
