"""The fixtures of pytest, in runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S


def run(folder: Path, tests: str, *options: str, ini: str = "") -> subprocess.CompletedProcess[str]:
    folder.joinpath("test_shop.py").write_text(tests)
    folder.joinpath("pytest.ini").write_text(f"[pytest]\n{ini}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", *options]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def test_fixtures_and_marker_give_servers(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import pytest

pytestmark = pytest.mark.kafka({"num.partitions": 4, "log.cleaner.enable": "false"})


def test_own(kafka):
    kafka.produce("orders", "tea")
    assert len(kafka.records("orders")) == 1
    assert len(kafka.admin.describe_topics(["orders"])["orders"].partitions) == 4


@pytest.mark.kafka({"num.partitions": 2}, topics={"letters": 3}, files=True)
def test_marked(kafka):
    kafka.produce("orders", "tea")
    assert kafka.topics() == ["letters", "orders"]
    assert len(kafka.admin.describe_topics(["orders"])["orders"].partitions) == 2
    kafka.kill()
    kafka.start()
    assert len(kafka.records("orders")) == 1


seen = set()


@pytest.mark.parametrize("number", range(2))
def test_shared(kafka_session, number):
    seen.add(kafka_session.bootstrap)
    assert len(seen) == 1


def test_several(kafka_factory):
    one, other = kafka_factory(), kafka_factory(topics=["orders"], files=True)
    assert one.bootstrap != other.bootstrap
    assert (one.topics(), other.topics()) == ([], ["orders"])
    other.restart()


def test_ini(kafka_session):
    kafka_session.produce("orders", "tea")
    assert len(kafka_session.admin.describe_topics(["orders"])["orders"].partitions) == 7
""",
        ini="kafka_settings =\n    num.partitions=7\n",
    )
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    assert "warning" not in done.stdout


def test_failure_shows_what_was_asked_last(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
from tidelog.client import Producer


def test_fails(kafka):
    with Producer(kafka.bootstrap, client_id="shop") as producer:
        producer.send_and_wait("orders", b"tea")
    assert kafka.records("orders") == []
""",
    )
    assert "1 failed" in done.stdout
    assert "last requests to Kafka at 127.0.0.1:" in done.stdout
    assert "of shop: ProduceRequest(" in done.stdout


def test_wrong_marker_and_wrong_ini_key_are_named(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import pytest

@pytest.mark.kafka({}, settings={})
def test_twice(kafka): pass

@pytest.mark.kafka({"num.partitons": 1})
def test_unknown(kafka): pass
""",
    )
    assert "the marker kafka has one mapping of settings" in done.stdout
    assert "num.partitons" in done.stdout
    assert "2 errors" in done.stdout
    done = run(tmp_path, "def test_ini(kafka): pass", ini="kafka_settings = oops")
    assert "kafka_settings: 'oops' is not of the form KEY=VALUE" in done.stdout


def test_plugin_imports_nothing_before_a_fixture_is_asked_for() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import tidelog.testing.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['tidelog', 'tidelog.testing', 'tidelog.testing.pytest_plugin']\n"


SHARED_BY_PROCESSES = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_one(kafka, kafka_session, number):
    kafka.produce("orders", str(number))
    assert [each.value for each in kafka.records("orders")] == [str(number).encode()]
    kafka_session.produce(f"orders-{number}", "tea")
"""
BLOCKING_FIXTURE_IN_ASYNC_TEST = """
    config = kafka.config_for("aiokafka")
    async with AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait("orders", b"tea")
    async with AsyncKafkaServer(topics=["letters"]) as other:
        await other.produce("letters", "a")
        assert len(await other.wait_for_records("letters", 1)) == 1
    assert [each.value for each in kafka.records("orders")] == [b"tea"]
"""
ASYNCIO = f"""
import pytest
from aiokafka import AIOKafkaProducer
from tidelog.testing import AsyncKafkaServer

@pytest.mark.asyncio
async def test_asyncio(kafka):
{BLOCKING_FIXTURE_IN_ASYNC_TEST}
"""
ANYIO = """
import pytest
from tidelog.testing import AsyncKafkaServer

@pytest.fixture
async def broker():
    async with AsyncKafkaServer(topics=["orders"]) as kafka:
        yield kafka

@pytest.mark.anyio
async def test_anyio(broker, kafka, anyio_backend_name):
    await broker.produce("orders", anyio_backend_name)
    assert [each.value for each in await broker.records("orders")] == [anyio_backend_name.encode()]

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param
"""
TRIO = """
import pytest
from tidelog.testing import AsyncKafkaServer

@pytest.fixture
async def broker():
    async with AsyncKafkaServer(topics=["orders"]) as kafka:
        yield kafka

async def test_trio(broker, kafka):
    await broker.produce("orders", "tea")
    assert [each.value for each in await broker.records("orders")] == [b"tea"]
"""
UNITTEST = """
import unittest
from tidelog.testing import AsyncKafkaServer, KafkaServer

class Blocking(unittest.TestCase):
    def setUp(self):
        self.kafka = self.enterContext(KafkaServer(topics=["orders"]))

    def test_blocking(self):
        self.kafka.produce("orders", "tea")
        self.assertEqual(len(self.kafka.records("orders")), 1)

class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.kafka = await self.enterAsyncContext(AsyncKafkaServer(topics=["orders"]))

    async def test_async(self):
        await self.kafka.produce("orders", "tea")
        self.assertEqual(len(await self.kafka.records("orders")), 1)
"""


@pytest.mark.parametrize(
    ("tests", "options", "passed"),
    [
        pytest.param(SHARED_BY_PROCESSES, ("-n", "2"), 6, id="pytest-xdist"),
        pytest.param(ASYNCIO, (), 1, id="pytest-asyncio"),
        pytest.param(ANYIO, (), 2, id="anyio"),
        pytest.param(TRIO, ("-o", "trio_mode=true"), 1, id="pytest-trio"),
        pytest.param(UNITTEST, (), 2, id="unittest"),
    ],
)
def test_servers_serve_the_tests_of_other_frameworks(
    tmp_path: Path, tests: str, options: tuple[str, ...], passed: int
) -> None:
    done = run(tmp_path, tests, *options)
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr
    assert "failed" not in done.stdout
    assert "error" not in done.stdout
