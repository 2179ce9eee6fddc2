"""Clients of others push what a subscription asks for, and `/metrics` has it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Generator

import attrs
import pytest
from confluent_kafka import Producer

from tests.clients.java_programs import java_command
from tests.deadlines import DEADLINE_S
from tests.docs.examples import examples_of, run_example_on
from tests.peers import NEWEST_KAFKA
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread
from tidelog.plugins.protocol_http.prometheus import prometheus_text

SETTINGS = {"plugins": "tidelog.plugins.client_metrics.plugin", "num.partitions": "1"}
(SUBSCRIBE,) = [example for example in examples_of("metrics.md") if example.language == "sh"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[ThreadedBroker]:
    """A broker with the subscription of docs/metrics.md, to be pushed soon."""
    with broker_in_thread(SETTINGS) as running:
        command = SUBSCRIBE.text.replace("10000", "100").replace(".*java.*", ".*(java|python).*")
        run_example_on(attrs.evolve(SUBSCRIBE, text=command), running.bootstrap, tmp_path_factory.mktemp("m"))
        yield running


def exported(broker: ThreadedBroker) -> dict[str, list[str]]:
    """The labels of the metrics of clients, by name."""
    found: dict[str, list[str]] = {}
    for line in prometheus_text(broker.broker.meters.collect()).decode().splitlines():
        match = re.fullmatch(r"(kafka_client_\w+)\{(.*)\} \S+", line)
        if match is not None:
            found.setdefault(match[1], []).append(match[2])
    return found


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def of_client(found: dict[str, list[str]], client: str) -> set[str]:
    return {name for name, labels in found.items() if any(f'client_id="{client}"' in each for each in labels)}


def test_librdkafka_pushes_its_metrics(broker: ThreadedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "rd"})
    producer.produce("t", b"tea")
    assert producer.flush(DEADLINE_S) == 0
    wait_until(lambda: of_client(exported(broker), "rd"))
    names = of_client(exported(broker), "rd")
    assert "kafka_client_producer_connection_creation_total" in names


def test_the_java_client_pushes_its_metrics(broker: ThreadedBroker) -> None:
    command = java_command("GoOn", NEWEST_KAFKA, [broker.bootstrap, "t"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as program:
        assert program.stdin is not None
        program.stdin.write("3\n")
        program.stdin.flush()
        wait_until(
            lambda: "kafka_client_producer_record_send_total" in of_client(exported(broker), "producer-1")
        )
        program.stdin.close()
        assert program.wait(DEADLINE_S) == 0
    assert len(of_client(exported(broker), "producer-1")) > 10
