"""The twenty tests; what each of them needs of a server beside Kafka's protocol is a method of its kit."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions

from .kit import PATIENCE_S

if TYPE_CHECKING:
    from .kit import Kit

Scenario: TypeAlias = "Callable[[Kit], None]"
NINE_DAYS_MS: Final = 9 * 24 * 3600 * 1000
WEEK_MS: Final = 7 * 24 * 3600 * 1000
SHORTEST_SESSION_MS: Final = 6000
_MEMBER: Final = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "dying", "session.timeout.ms": 6000})
consumer.subscribe(["dying"])
while not consumer.assignment():
    consumer.poll(0.05)
print("joined", flush=True)
while True:
    consumer.poll(1)
"""


def until(condition: Callable[[], Any]) -> Any:
    """Ask again until something is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)
    return found


def a_record_is_written_and_read(kit: Kit) -> None:
    kit.create_topic("plain")
    kit.produce("plain", b"tea")
    assert kit.values("plain", 1) == [b"tea"]


def headers_and_timestamps_are_kept(kit: Kit) -> None:
    kit.create_topic("headers")
    producer = kit.producer(compression_type="gzip")
    now_ms = int(time.time() * 1000)
    producer.produce("headers", b"tea", b"table 7", 0, timestamp=now_ms, headers=[("waiter", b"Ada")])
    producer.flush(PATIENCE_S)
    consumer = kit.consumer("headers")
    consumer.assign([TopicPartition("headers", 0, 0)])
    (found,) = consumer.consume(1, PATIENCE_S)
    assert (found.key(), found.headers()) == (b"table 7", [("waiter", b"Ada")])
    assert found.timestamp()[1] == now_ms
    consumer.close()


def a_group_reads_and_commits(kit: Kit) -> None:
    kit.create_topic("committed")
    kit.produce("committed", b"tea", b"cake")
    consumer = kit.consumer("committing")
    consumer.subscribe(["committed"])
    assert len(consumer.consume(2, PATIENCE_S)) == 2
    consumer.commit(asynchronous=False)
    consumer.close()
    again = kit.consumer("committing")
    assert again.committed([TopicPartition("committed", 0)], PATIENCE_S)[0].offset == 2
    again.close()


def members_share_partitions(kit: Kit) -> None:
    kit.create_topic("shared", 2)
    members = [kit.consumer("sharing") for _ in range(2)]
    for each in members:
        each.subscribe(["shared"])

    def counts() -> list[int]:
        for each in members:
            each.poll(0.01)
        return [len(each.assignment()) for each in members]

    until(lambda: min(counts()) > 0)
    members.pop().close()
    partitions = kit.admin().list_topics("shared", PATIENCE_S).topics["shared"].partitions
    until(lambda: counts() == [len(partitions)])
    members[0].close()


def a_group_of_the_new_protocol_reads(kit: Kit) -> None:
    kit.create_topic("new")
    kit.produce("new", b"tea")
    consumer = kit.consumer("of-the-new-protocol", group_protocol="consumer")
    consumer.subscribe(["new"])
    (found,) = consumer.consume(1, PATIENCE_S)
    assert found.error() is None
    consumer.close()


def offsets_are_found_by_time(kit: Kit) -> None:
    kit.create_topic("times")
    producer = kit.producer()
    now_ms = int(time.time() * 1000)
    for timestamp_ms in (now_ms - 2000, now_ms - 1000):
        producer.produce("times", b"tea", partition=0, timestamp=timestamp_ms)
        producer.flush(PATIENCE_S)
    consumer = kit.consumer("times")
    (found,) = consumer.offsets_for_times([TopicPartition("times", 0, now_ms - 1500)], PATIENCE_S)
    assert found.offset == 1
    consumer.close()


def aborted_records_are_not_read(kit: Kit) -> None:
    kit.create_topic("transactions")
    producer = kit.producer(transactional_id="till")
    producer.init_transactions(PATIENCE_S)
    for value, end in ((b"never", producer.abort_transaction), (b"tea", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("transactions", value, partition=0)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)
    assert kit.values("transactions", 1) == [b"tea"]


def records_are_processed_exactly_once(kit: Kit) -> None:
    kit.create_topic("in")
    kit.create_topic("out")
    kit.produce("in", b"tea")
    consumer, producer = kit.consumer("pipeline"), kit.producer(transactional_id="pipeline")
    consumer.subscribe(["in"])
    producer.init_transactions(PATIENCE_S)
    (found,) = consumer.consume(1, PATIENCE_S)
    producer.begin_transaction()
    producer.produce("out", found.value(), partition=0)
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
    )
    producer.commit_transaction(PATIENCE_S)
    assert kit.values("out", 1) == [b"tea"]
    assert max(each.offset for each in consumer.committed([TopicPartition("in", 0)], PATIENCE_S)) == 1
    consumer.close()


def an_older_producer_is_fenced(kit: Kit) -> None:
    kit.create_topic("fenced")
    older, newer = (kit.producer(transactional_id="fenced") for _ in range(2))
    older.init_transactions(PATIENCE_S)
    older.begin_transaction()
    newer.init_transactions(PATIENCE_S)
    older.produce("fenced", b"tea", partition=0)
    refused: list[KafkaError] = []
    try:
        older.commit_transaction(PATIENCE_S)
    except KafkaException as error:
        refused.append(error.args[0])
    assert [each.fatal() for each in refused] == [True]


def topics_are_configured(kit: Kit) -> None:
    kit.create_topic("configured", 1, {"retention.ms": "1234"})
    resource = ConfigResource(ResourceType.TOPIC, "configured")
    (found,) = kit.admin().describe_configs([resource]).values()
    assert found.result(PATIENCE_S)["retention.ms"].value == "1234"
    (done,) = kit.admin().create_partitions([NewPartitions("configured", 3)]).values()
    done.result(PATIENCE_S)
    until(lambda: len(kit.admin().list_topics("configured", 5).topics["configured"].partitions) == 3)


def records_are_deleted(kit: Kit) -> None:
    kit.create_topic("deleted")
    kit.produce("deleted", b"tea", b"cake")
    (done,) = kit.admin().delete_records([TopicPartition("deleted", 0, 1)]).values()
    assert done.result(PATIENCE_S).low_watermark == 1


def a_topic_is_compacted(kit: Kit) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    kit.create_topic("compacted", 1, config)
    kit.produce("compacted", b"1", b"2", key=b"tea")
    kit.compact("compacted")
    assert kit.values("compacted", 1) == [b"2"]


def records_expire(kit: Kit) -> None:
    kit.create_topic("expired", 1, {"retention.ms": str(WEEK_MS)})
    producer = kit.producer()
    producer.produce("expired", b"tea", partition=0, timestamp=int(time.time() * 1000) - NINE_DAYS_MS)
    producer.flush(PATIENCE_S)
    kit.expire("expired")
    consumer = kit.consumer("expired")
    until(lambda: consumer.get_watermark_offsets(TopicPartition("expired", 0), PATIENCE_S) == (1, 1))
    consumer.close()


def a_member_that_died_leaves_its_group(kit: Kit) -> None:
    kit.create_topic("dying")
    command = [sys.executable, "-c", _MEMBER, kit.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as member:
        assert member.stdout is not None
        try:
            assert member.stdout.readline() == "joined\n"
        finally:
            member.kill()
    heir = kit.consumer("dying", session_timeout_ms=SHORTEST_SESSION_MS)
    heir.subscribe(["dying"])
    kit.pass_time(SHORTEST_SESSION_MS / 1000 + 1)
    until(lambda: heir.poll(0.01) or heir.assignment())
    heir.close()


def a_transaction_times_out(kit: Kit) -> None:
    kit.create_topic("overdue")
    producer = kit.producer(transactional_id="overdue", transaction_timeout_ms=3000)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("overdue", b"never", partition=0)
    producer.flush(PATIENCE_S)
    kit.pass_time(4)
    consumer = kit.consumer("overdue")
    # A marker follows the record.
    until(lambda: consumer.get_watermark_offsets(TopicPartition("overdue", 0), PATIENCE_S)[1] == 2)
    consumer.close()


def a_refused_record_is_sent_again(kit: Kit) -> None:
    kit.create_topic("refused")
    kit.refuse_produce(2)
    kit.produce("refused", b"tea")
    assert kit.values("refused", 1) == [b"tea"]


def a_lost_response_makes_no_duplicate(kit: Kit) -> None:
    kit.create_topic("lost")
    kit.lose_produce_response()
    kit.produce("lost", b"tea", enable_idempotence=True)
    kit.produce("lost", b"cake")
    assert kit.values("lost", 2) == [b"tea", b"cake"]


def a_slow_server_is_noticed(kit: Kit) -> None:
    kit.create_topic("slow")
    producer = kit.producer(message_timeout_ms=300)
    producer.list_topics("slow", PATIENCE_S)
    kit.delay_produce(2)
    errors: list[KafkaError | None] = []
    producer.produce("slow", b"tea", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(PATIENCE_S)
    assert errors == [KafkaError(KafkaError._MSG_TIMED_OUT)]


def records_survive_a_crash(kit: Kit) -> None:
    kit.create_topic("crashed")
    kit.produce("crashed", b"tea")
    kit.crash()
    assert kit.values("crashed", 1) == [b"tea"]


def what_was_asked_is_seen(kit: Kit) -> None:
    kit.create_topic("seen")
    before = len(kit.acks_of_produce())
    kit.produce("seen", b"tea", acks="all")
    assert kit.acks_of_produce()[before:] == [-1]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    a_record_is_written_and_read,
    headers_and_timestamps_are_kept,
    a_group_reads_and_commits,
    members_share_partitions,
    a_group_of_the_new_protocol_reads,
    offsets_are_found_by_time,
    aborted_records_are_not_read,
    records_are_processed_exactly_once,
    an_older_producer_is_fenced,
    topics_are_configured,
    records_are_deleted,
    a_topic_is_compacted,
    records_expire,
    a_member_that_died_leaves_its_group,
    a_transaction_times_out,
    a_refused_record_is_sent_again,
    a_lost_response_makes_no_duplicate,
    a_slow_server_is_noticed,
    records_survive_a_crash,
    what_was_asked_is_seen,
)
