"""What has to hold after a crash, whatever it came into."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from uuid import UUID

from tests.crash.core import Core
from tests.crash.history import Expected, ExpectedLog
from tests.crash.logs import batches_of, contents_of, ends_of, key_of, partitions_of
from tests.metadata_changes import allocate_producer_ids
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.batch import NO_PRODUCER_ID, BatchHeader, parse_header, stamp_offset
from tidelog.kernel.records.control import decode_marker
from tidelog.kernel.testing import make_batch
from tidelog.kernel.topics import Topic


async def check_start(core: Core, expected: Expected, *, power_was_lost: bool) -> None:
    """Start on what a crash left: all that was promised is there, and nothing that never was."""
    await core.open()
    check_topics(core, expected)
    for partition in partitions_of(core):
        log = expected.logs.get(key_of(partition), ExpectedLog())
        check_log(partition, log, power_was_lost=power_was_lost)
        check_epochs(partition, log)
        check_transactions(partition)


async def check_second_start(core: Core) -> None:
    """Another crash, with nothing done in between: the next start finds everything as it is."""
    before = contents_of(core), ends_of(core)
    core.abandon()
    await core.open()
    assert (contents_of(core), ends_of(core)) == before


async def check_going_on(core: Core, expected: Expected, *, power_was_lost: bool) -> None:
    """Producers go on where they were, new topics can be made, and after a clean stop all of it is there."""
    for partition in partitions_of(core):
        check_retries_are_known(partition)
        log = expected.logs.get(key_of(partition), ExpectedLog())
        if not power_was_lost or nothing_was_lost(log):
            retry(partition, log)
    (producer_id,) = await allocate_producer_ids(core.metadata, 1)
    assert producer_id not in expected.producer_ids
    for name in expected.deleted_names - {topic.name for topic in core.topics}:
        topic = await core.create(name, 2)
        assert all(partition.log.log_end_offset == 0 for partition in topic.partitions)
    for partition in partitions_of(core):
        for number in range(8):
            partition.append_nowait(make_batch([bytes([number]) * 600], timestamps=core.clock()))
        await partition.flush()
    before = contents_of(core), ends_of(core)
    await core.close()
    await core.open()
    assert core.storage.clean_start
    assert (contents_of(core), ends_of(core)) == before
    core.abandon()


def check_topics(core: Core, expected: Expected) -> None:
    """All topics that were promised, none that was deleted."""
    there = {topic.name: topic for topic in core.topics}
    for name, promised in expected.topics.items():
        if not promised.settled:
            continue
        assert name in there, f"topic {name} is gone"
        assert there[name].topic_id == promised.topic_id
        assert len(there[name].partitions) == promised.partitions
    for name, topic in there.items():
        assert name in expected.topics, f"topic {name} was deleted and is back"
        check_identity(topic, expected, expected.topics[name].topic_id)


def check_identity(topic: Topic, expected: Expected, promised: UUID) -> None:
    """A topic whose creation was not acknowledged is new, and not an earlier one of its name."""
    known = {topic_id for topic_id, _ in expected.logs}
    assert topic.topic_id == promised or topic.topic_id not in known, f"{topic.name} is an earlier topic"


def check_log(partition: UnifiedLog, log: ExpectedLog, *, power_was_lost: bool) -> None:
    """The log is what was appended, in order, and all of it up to what was promised.

    Beyond that, a loss of power may take the end of any segment. That leaves a gap before the next one, as in
    Apache Kafka: no offset is given out twice, and what did reach the disk is kept.
    """
    store = partition.store
    promised = log.durable if power_was_lost else log.end
    assert store.log_end_offset >= promised, "what was promised is lost"
    assert log.start_least <= store.log_start_offset <= log.start_most
    found = batches_of(store)
    if log.marker_under_way and found and found[-1] not in log.batches and is_marker(found[-1]):
        found.pop()
    bases = [view.base_offset for view in store.segments()]
    assert any(is_part_of(found, timeline, bases, promised) for timeline in log.timelines), told(found, log)


def is_marker(batch: bytes) -> bool:
    """Whether a batch ends a transaction."""
    return parse_header(batch).is_control


def is_part_of(
    found: Sequence[bytes], timeline: Sequence[bytes], bases: Sequence[int], whole_to: int
) -> bool:
    """Whether `found` is `timeline` from some segment on: whole below an offset, then with short segments."""
    expected = [batch for batch in timeline if parse_header(batch).base_offset >= bases[0]]
    by_segment: list[tuple[list[bytes], list[bytes]]] = [([], []) for _ in bases]
    for side, batches in enumerate((found, expected)):
        for batch in batches:
            by_segment[bisect_right(bases, parse_header(batch).base_offset) - 1][side].append(batch)
    for there, appended in by_segment:
        if there != appended[: len(there)]:
            return False
        missing = appended[len(there) :]
        if missing and parse_header(missing[0]).base_offset < whole_to:
            return False
    return True


def told(found: Sequence[bytes], log: ExpectedLog) -> str:
    """Both sides of a comparison, short enough to read."""
    there = [parse_header(batch).base_offset for batch in found]
    appended = [[parse_header(batch).base_offset for batch in timeline] for timeline in log.timelines]
    return f"batches at {there}, appended were {appended}"


def check_epochs(partition: UnifiedLog, log: ExpectedLog) -> None:
    """Who asks where an epoch ended is told so, and the epoch that clients know has not fallen."""
    assert partition.leader_epoch >= log.leader_epoch
    for batch in batches_of(partition.store):
        header = parse_header(batch)
        if header.base_offset >= partition.log_start_offset:
            assert partition.epochs.epoch_for(header.base_offset) == header.leader_epoch


def check_transactions(partition: UnifiedLog) -> None:
    """Committed readers are kept from what is undecided, and told of all that was aborted."""
    store = partition.store
    undecided: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    for batch in batches_of(store):
        header = parse_header(batch)
        if header.is_transactional and not header.is_control:
            undecided.setdefault(header.producer_id, header.base_offset)
        elif header.is_control and header.producer_id in undecided:
            first = undecided.pop(header.producer_id)
            if is_abort(batch, header):
                aborted.append((header.producer_id, first, header.base_offset))
    known = store.aborted_transactions(store.log_start_offset, store.log_end_offset, wait=True)
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in known] == aborted
    assert partition.last_stable_offset == min([*undecided.values(), partition.high_watermark])


def is_abort(batch: bytes, header: BatchHeader) -> bool:
    """Whether a marker says that the transaction was aborted."""
    marker = decode_marker(batch, header)
    return marker is not None and not marker.commit


def check_retries_are_known(partition: UnifiedLog) -> None:
    """A producer whose answer got lost sends its last batch again: it is not appended again."""
    newest: dict[int, bytes] = {}
    for batch in batches_of(partition.store):
        header = parse_header(batch)
        if header.producer_id != NO_PRODUCER_ID and not header.is_control:
            newest[header.producer_id] = batch
    end = partition.log_end_offset
    for batch in newest.values():
        again = bytearray(batch)
        stamp_offset(again, 0, 0)
        assert (
            partition.append_nowait(again, in_transaction=True).base_offset == parse_header(batch).base_offset
        )
    assert partition.log_end_offset == end


def nothing_was_lost(log: ExpectedLog) -> bool:
    """Whether all that was acknowledged was durable too."""
    unanswered = log.batches[len(log.batches) - len(log.outstanding) :]
    return log.durable >= (parse_header(unanswered[0]).base_offset if unanswered else log.end)


def retry(partition: UnifiedLog, log: ExpectedLog) -> None:
    """A producer that was not answered sends its batches again: each is there once."""
    for batch in log.outstanding:
        result = partition.append_nowait(bytearray(batch), in_transaction=True)
        found = [parse_header(there) for there in batches_of(partition.store)]
        same = [header.base_offset for header in found if header.crc == parse_header(batch).crc]
        assert same == [result.base_offset]
