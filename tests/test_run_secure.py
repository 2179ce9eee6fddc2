"""`make run-secure`: what it prints gets clients in, and nothing else does."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator
from pathlib import Path

import pytest
from confluent_kafka import Producer as ConfluentProducer

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import tidelog_in_process
from tests.peers import free_port, run_kafka_tool
from tests.tls_certificates import written
from tidelog.client import Producer

SCRIPT = Path(__file__).parents[1] / "scripts" / "run_secure.py"
HEADINGS = ("Clients in Java", "librdkafka:", "Python ")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, list[str]]]:
    """The lines below each heading."""
    arguments = ["--port", str(free_port()), "--data", str(tmp_path_factory.mktemp("data"))]
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        out = process.stdout
        assert out is not None
        reader = threading.Thread(target=lambda: deque(map(lines.put, out), 0), daemon=True)
        reader.start()
        sections: dict[str, list[str]] = {}
        shown: list[str] = []
        while not sections.get(HEADINGS[-1]):
            try:
                line = lines.get(timeout=DEADLINE_S)
            except queue.Empty:
                process.kill()
                raise AssertionError("".join(shown)) from None
            shown.append(line)
            heading = next((each for each in HEADINGS if line.startswith(each)), None)
            if heading is not None:
                sections[heading] = []
            elif sections and line.startswith("  "):
                [*_, section] = sections.values()
                section.append(line.strip())
        yield sections
        process.terminate()
        assert process.wait(DEADLINE_S) == 0


def test_librdkafka_connects_with_what_is_printed(printed: dict[str, list[str]]) -> None:
    config = dict(line.split("=", 1) for line in printed["librdkafka:"])
    producer = ConfluentProducer(config)
    producer.produce("secured", b"x")
    assert producer.flush(30) == 0


def test_pythons_client_connects_with_what_is_printed(printed: dict[str, list[str]]) -> None:
    [line] = printed["Python "]
    with eval(line, {"Producer": Producer}) as producer:
        producer.send_and_wait("secured", b"x")


def test_javas_client_connects_with_what_is_printed(printed: dict[str, list[str]], tmp_path: Path) -> None:
    pairs = dict(line.split("=", 1) for line in printed["Clients in Java"])
    bootstrap = pairs.pop("bootstrap.servers")
    file = written(tmp_path / "p", "\n".join(f"{name}={value}" for name, value in pairs.items()).encode())
    connect = ["--bootstrap-server", bootstrap, "--command-config", file]
    made = run_kafka_tool("org.apache.kafka.tools.TopicCommand", [*connect, "--create", "--topic", "java"])
    assert made.returncode == 0, made.stdout + made.stderr


def test_commands_connect_with_javas_configuration(printed: dict[str, list[str]], tmp_path: Path) -> None:
    pairs = dict(line.split("=", 1) for line in printed["Clients in Java"])
    bootstrap = pairs.pop("bootstrap.servers")
    file = written(tmp_path / "p", "\n".join(f"{name}={value}" for name, value in pairs.items()).encode())
    listed = tidelog_in_process("topics", "list", "-b", bootstrap, "--command-config", file)
    assert (listed.returncode, listed.stderr) == (0, "")
    refused = tidelog_in_process("users", "list", "-b", bootstrap, "--command-config", file)
    assert "This principal may not see or change users" in refused.stderr
