"""A Kafka for the tests of an application, as such tests use it: with real clients."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer

from tests.deadlines import DEADLINE_S
from tidelog.client import Producer, TopicPartition, errors
from tidelog.kernel.errors import ConfigError
from tidelog.plugins.coordinator.keys import GROUP_INITIAL_REBALANCE_DELAY_MS
from tidelog.testing import KafkaServer

DAY_MS = 24 * 3600 * 1000


def consumed(kafka: KafkaServer, topic: str, count: int, **options: Any) -> list[bytes | None]:
    consumer = ConfluentConsumer(kafka.config_for("confluent", auto_offset_reset="earliest", **options))
    try:
        consumer.subscribe([topic])
        found = consumer.consume(count, timeout=DEADLINE_S)
        consumer.commit(asynchronous=False)
        return [each.value() for each in found]
    finally:
        consumer.close()


def members(kafka: KafkaServer, group: str) -> set[str]:
    found = kafka.groups().get(group)
    return set() if found is None else {each.member_id for each in found.members}


def test_server_serves_real_clients_and_shows_what_they_have_done() -> None:
    with KafkaServer(topics={"orders": 3}) as kafka:
        producer = ConfluentProducer(kafka.config_for("confluent", client_id="shop"))
        for number in range(5):
            producer.produce("orders", b"%d" % number, key=b"one")
        assert producer.flush(DEADLINE_S) == 0
        found = kafka.wait_for_records("orders", 5)
        assert [record.value for record in found] == [b"0", b"1", b"2", b"3", b"4"]
        assert consumed(kafka, "orders", 2, group_id="kitchen") == [b"0", b"1"]
        assert kafka.lag("kitchen") == kafka.lag("kitchen", "orders") == 3
        assert kafka.lag("kitchen", "other") == 0
        assert list(kafka.groups()) == ["kitchen"]
        (partition,) = {record.partition for record in found}
        assert kafka.committed("kitchen")[TopicPartition("orders", partition)] == 2
        assert kafka.topics() == ["orders"]
        assert {each.client_id for each in kafka.requests("Produce")} == {"shop"}
        # Else each new group waits for three seconds.
        assert kafka.broker.config[GROUP_INITIAL_REBALANCE_DELAY_MS] == 0


def test_a_setting_comes_before_what_a_server_has_for_applications() -> None:
    with KafkaServer({"group.initial.rebalance.delay.ms": 7}) as kafka:
        assert kafka.broker.config[GROUP_INITIAL_REBALANCE_DELAY_MS] == 7


def test_records_are_those_of_one_partition_or_of_committed_transactions_if_asked() -> None:
    with KafkaServer(topics={"orders": 2}) as kafka:
        kafka.produce("orders", "a", "key", partition=1, headers=[("h", b"1")])
        kafka.produce("orders", None, partition=0)
        with Producer(kafka.bootstrap, transactional_id="till") as producer:
            producer.begin_transaction()
            producer.send_and_wait("orders", b"never", partition=0)
            producer.abort_transaction()
        assert [record.value for record in kafka.records("orders", partition=1)] == [b"a"]
        assert [record.value for record in kafka.records("orders")] == [None, b"never", b"a"]
        assert [r.value for r in kafka.records("orders", isolation_level="read_committed")] == [None, b"a"]
        with pytest.raises(TimeoutError, match=r"waited 0 s for 4 records in 'orders': there are 3"):
            kafka.wait_for_records("orders", 4, timeout=0)


def test_clock_lets_records_expire_and_stamps_what_is_appended() -> None:
    with KafkaServer() as kafka:
        kafka.create_topic("orders")
        kafka.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
        kafka.produce("orders", "old")
        kafka.clock.advance(days=6)
        kafka.expire_now()
        assert len(kafka.records("orders")) == 1
        kafka.produce("orders", "new")
        kafka.clock.advance(days=1, hours=1)
        before = kafka.clock.now_ms
        kafka.produce("stamped", "x", timestamp_ms=1)
        assert before <= kafka.records("stamped")[0].timestamp_ms <= kafka.clock.now_ms
        # The segment has a record that is younger: it begins a new one by age, as in Kafka.
        kafka.clock.advance(days=7)
        kafka.expire_now()
        assert kafka.records("orders") == []
        with pytest.raises(ValueError, match="does not go back"):
            kafka.clock.advance(seconds=-1)


def test_clock_lets_offsets_and_tombstones_expire() -> None:
    with KafkaServer({"offsets.retention.check.interval.ms": 1000}, topics=["orders"]) as kafka:
        kafka.produce("orders", "tea")
        assert consumed(kafka, "orders", 1, group_id="kitchen") == [b"tea"]
        kafka.clock.advance(days=6)
        assert kafka.committed("kitchen")
        kafka.clock.advance(days=2)
        kafka.wait_until(lambda: not kafka.committed("kitchen"), "the offset to expire")

        settings = {"cleanup.policy": "compact", "delete.retention.ms": DAY_MS, "segment.ms": 1000}
        kafka.create_topic("prices", config=settings)
        for value in ("1", None):
            kafka.produce("prices", value, "tea")
        left: list[list[bytes | None]] = []
        for days in (0, 0.9, 2):
            kafka.clock.advance(days=days, seconds=5)
            # A further record, as the newest segment is not compacted.
            kafka.produce("prices", "2", "cake")
            kafka.compact_now("prices")
            left.append([each.value for each in kafka.records("prices") if each.key == b"tea"])
        assert left == [[None], [None], []]


def test_clock_lets_a_transaction_and_a_member_of_a_group_time_out() -> None:
    with KafkaServer(topics=["orders"]) as kafka:
        with Producer(kafka.bootstrap, transactional_id="till", transaction_timeout_ms=60_000) as producer:
            producer.begin_transaction()
            producer.send_and_wait("orders", b"never")
            kafka.clock.advance(minutes=2)
            kafka.wait_until(lambda: any(each.api == "Produce" for each in kafka.requests()))
            # An abort marker follows the record.
            end = TopicPartition("orders", 0)
            kafka.wait_until(lambda: kafka.admin.list_offsets([end])[end].offset == 2, "the abort")
            with pytest.raises(errors.ClientError):
                producer.commit_transaction()
        consumer = ConfluentConsumer(
            kafka.config_for("confluent", group_id="kitchen", session_timeout_ms=6000)
        )
        try:
            consumer.subscribe(["orders"])
            kafka.wait_until(lambda: consumer.poll(0.01) or members(kafka, "kitchen"), "a member")
            (member,) = members(kafka, "kitchen")
            kafka.clock.advance(minutes=1)
            kafka.wait_until(lambda: member not in members(kafka, "kitchen"), "the member's expiry")
        finally:
            consumer.close()


@pytest.mark.parametrize("folder", [None, "data"])
def test_compact_now_leaves_the_last_value_of_each_key(tmp_path: Path, folder: str | None) -> None:
    with KafkaServer(directory=folder and tmp_path / folder) as kafka:
        kafka.create_topic("prices", config={"cleanup.policy": "compact"})
        for value in ("1", "2", "3"):
            kafka.produce("prices", value, "tea")
        kafka.produce("prices", "5", "cake")
        kafka.compact_now("prices")
        assert [(r.key, r.value) for r in kafka.records("prices")] == [(b"tea", b"3"), (b"cake", b"5")]


def test_wait_until_clean_heeds_the_settings_of_each_topic() -> None:
    hour_ms = 3600 * 1000
    with KafkaServer() as kafka:
        for name, ratio in (("prices", 0.01), ("lazy", 1)):
            config = {
                "cleanup.policy": "compact",
                "segment.ms": hour_ms,
                "min.cleanable.dirty.ratio": ratio,
                "min.compaction.lag.ms": 0 if name == "prices" else 24 * hour_ms,
            }
            kafka.create_topic(name, config=config)
            kafka.produce(name, "1", "tea")
            kafka.produce(name, "2", "tea")
        kafka.clock.advance(hours=2)
        for name in ("prices", "lazy"):
            kafka.produce(name, "3", "cake")
        kafka.wait_until_clean()
        assert [record.value for record in kafka.records("prices")] == [b"2", b"3"]
        assert [record.value for record in kafka.records("lazy")] == [b"1", b"2", b"3"]
        kafka.wait_until_clean()


def test_compact_now_names_what_cannot_be_compacted() -> None:
    with KafkaServer(topics=["orders"]) as kafka:
        with pytest.raises(ValueError, match="no topic 'prices'"):
            kafka.compact_now("prices")
        with pytest.raises(ValueError, match=r"cleanup\.policy of 'orders' has no compact"):
            kafka.compact_now("orders")


def test_paused_server_answers_when_it_is_resumed() -> None:
    with KafkaServer(topics=["orders"]) as kafka, Producer(kafka.bootstrap) as producer:
        producer.send_and_wait("orders", b"before")
        kafka.pause()
        delivery = producer.send("orders", b"meanwhile")
        kafka.wait_until(lambda: kafka.faults.held, "a request that waits")
        assert not delivery.done()
        # The server's own questions are answered.
        assert [record.value for record in kafka.records("orders")] == [b"before"]
        kafka.resume()
        assert delivery.result(DEADLINE_S).offset == 1


def test_restarted_and_killed_servers_have_their_records_and_their_address(tmp_path: Path) -> None:
    with KafkaServer(directory=tmp_path / "data", topics=["orders"]) as kafka:
        address = kafka.bootstrap
        kafka.produce("orders", "first")
        kafka.restart()
        kafka.produce("orders", "second")
        assert not list(tmp_path.rglob(".kafka_cleanshutdown"))
        kafka.kill()
        assert not kafka.is_running
        assert not list(tmp_path.rglob(".kafka_cleanshutdown")), "it was not stopped"
        kafka.start()
        assert kafka.bootstrap == address
        assert [record.value for record in kafka.records("orders")] == [b"first", b"second"]
        kafka.stop()
        assert list(tmp_path.rglob(".kafka_cleanshutdown")), "it was stopped"


def test_killed_server_is_copied_again_if_a_file_was_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, copies = shutil.copytree, list[Path]()

    def copytree(source: Path, target: Path, *rest: Any) -> Path:
        copy(source, target, *rest)
        if rest:
            # A folder of that one.
            return target
        copies.append(target)
        if len(copies) == 1:
            # As a thread that renames a file does in the middle of a copy.
            (source / "renamed").write_text("late")
        return target

    with KafkaServer(directory=tmp_path / "data", topics=["orders"]) as kafka:
        kafka.produce("orders", "tea")
        monkeypatch.setattr(shutil, "copytree", copytree)
        kafka.kill()
        assert len(copies) == 2
        assert (copies[-1] / "renamed").read_text() == "late"
        kafka.start()
        assert [record.value for record in kafka.records("orders")] == [b"tea"]


def test_killed_server_is_copied_again_if_a_file_is_renamed_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rglob, looks = Path.rglob, list[Path]()

    def with_lost_file(folder: Path, pattern: str) -> list[Path]:
        looks.append(folder)
        found = list(rglob(folder, pattern))
        return [*found, folder / "renamed.tmp"] if len(looks) == 1 else found

    with KafkaServer(directory=tmp_path / "data", topics=["orders"]) as kafka:
        kafka.produce("orders", "tea")
        monkeypatch.setattr(Path, "rglob", with_lost_file)
        kafka.kill()
        assert len(looks) > 2
        kafka.start()
        assert [record.value for record in kafka.records("orders")] == [b"tea"]


def test_server_has_the_address_of_its_first_listener_and_the_one_that_clients_are_told() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://kafka.example:0",
    }
    with KafkaServer(settings) as kafka:
        assert kafka.bootstrap == kafka.broker.listeners["PLAINTEXT"]
        assert kafka.advertised == kafka.bootstrap.replace("127.0.0.1", "kafka.example")


def test_wrong_use_of_a_server_is_named() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitons"):
        KafkaServer({"num.partitons": 3}).start()
    kafka = KafkaServer()
    with pytest.raises(RuntimeError, match="does not run"):
        _ = kafka.bootstrap
    with kafka:
        with pytest.raises(RuntimeError, match="runs already"):
            kafka.start()
        with pytest.raises(RuntimeError, match=r"to restart a server it needs a directory"):
            kafka.restart()
        with pytest.raises(RuntimeError, match=r"to kill a server it needs a directory"):
            kafka.kill()
        with pytest.raises(ValueError, match="there is no client 'kcat'"):
            kafka.config_for("kcat")
        assert kafka.config_for("java", auto_offset_reset="latest") == {
            "bootstrap.servers": kafka.bootstrap,
            "auto.offset.reset": "latest",
        }
        assert kafka.config_for("aiokafka", group_id="g") == {
            "bootstrap_servers": kafka.bootstrap,
            "group_id": "g",
        }
    kafka.stop()


def test_server_needs_nothing_that_only_linux_has(tmp_path: Path) -> None:
    program = Path(__file__).with_name("without_linux.py")
    command = [sys.executable, str(program), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stdout) == (0, "1 [900000, 900000, 900000]\n"), done.stderr


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.long
def test_hundreds_of_servers_leave_nothing_behind() -> None:
    """In a process of its own, whose memory other tests do not use."""
    program = Path(__file__).with_name("hundreds_of_servers.py")
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=3 * DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["resident_bytes_one_by_one"] < 1 << 20, found
    assert found["resident_bytes"] < 1 << 20, found
    assert found["threads"] <= 2, found
    assert found["descriptors"] <= 0, found


def test_stopped_servers_leave_neither_threads_nor_files_open() -> None:
    def use() -> None:
        with KafkaServer(topics=["orders"]) as kafka:
            kafka.produce("orders", "x")
            assert len(kafka.records("orders")) == 1

    # The first one imports, and threads of workers stay for a second.
    use()
    threads, files = threading.active_count(), open_files()
    for _ in range(10):
        use()
    kept = [each.name for each in threading.enumerate() if each.name.startswith("tidelog")]
    assert not [name for name in kept if "kafka-server" in name or "client" in name]
    assert threading.active_count() <= threads + 2
    assert open_files() <= files
