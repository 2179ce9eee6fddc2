"""docs/sinks.md: its sink is a package of its own, does what the page says, and survives being killed."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from tests.deadlines import DEADLINE_S
from tests.docs.examples import DOCS, Example, examples_of, run_example
from tests.docs.packages import install
from tests.kernel.cli.running import Serving, serving

PAGE = (DOCS / "sinks.md").read_text()
EXAMPLES = examples_of("sinks.md")
ADDRESS = "127.0.0.1:9092"
MOST_LINES = 120


PACKAGE = DOCS / "examples" / "parquet-sink"


def named(name: str) -> str:
    """The content of a file of the package that the page describes."""
    return (PACKAGE / name).read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all files of the page."""
    made = tmp_path_factory.mktemp("sinks_page")
    for example in EXAMPLES:
        if example.file_name is not None:
            run_example(example, made)
    for name in ("parquet_sink.py", "test_parquet_sink.py"):
        (made / name).write_text(named(name))
    return made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sink as a distribution of its own, installed by pip."""
    return install([("parquet_sink", named("parquet_sink.py"))], tmp_path_factory.mktemp("package"))


def start(folder: Path, site: Path, *settings: str) -> list[str]:
    """Arguments of `tidelog serve` for a broker with the page's sink, which finds it by itself."""
    table = ("topics=flights", f"path={folder / 'flights'}", "interval.ms=1", *settings)
    return [each for setting in table for each in ("--set", f"sinks.parquet.flights.{setting}")]


@pytest.fixture(scope="module")
def broker(folder: Path, site: Path) -> Iterator[Serving]:
    """A broker with the page's sink."""
    # Not the one of the page's file, of which `tidelog sinks` would show more than the page.
    data = folder / "elsewhere"
    data.mkdir()
    with serving(data, *start(folder, site), PYTHONPATH=str(site)) as running:
        yield running
        assert running.stop() == 0
    assert "ERROR" not in running.stderr


def address_of(broker: Serving) -> str:
    """Where the broker listens."""
    found: str = broker.ready["listeners"]["PLAINTEXT"]
    return found


@pytest.mark.parametrize("example", [item for item in EXAMPLES if item.file_name is None], ids=str)
def test_the_example_works(example: Example, folder: Path, broker: Serving) -> None:
    run_example(attrs.evolve(example, text=example.text.replace(ADDRESS, address_of(broker))), folder)


def test_the_sink_is_short() -> None:
    assert len(named("parquet_sink.py").splitlines()) < MOST_LINES


def test_every_file_of_the_page_is_python_or_toml() -> None:
    assert re.findall(r"^# (\S+\.\w+)$", PAGE, re.MULTILINE) == [
        "broker.toml",
    ]


def rows_in(folder: Path) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every record in the table."""
    if not any(folder.rglob("[0-9]*.parquet")):
        return []
    return [(int(row["partition"]), row["offset"], row["value"]) for row in pq.read_table(folder).to_pylist()]


@pytest.mark.long
def test_every_record_is_there_once_though_the_broker_is_killed(site: Path, tmp_path: Path) -> None:
    settings = (*start(tmp_path, site, "file.max.bytes=2000"), "--set", "num.partitions=2")
    sent = 0
    for round_number in range(4):
        with serving(tmp_path, *settings, PYTHONPATH=str(site)) as broker:
            producer = Producer({"bootstrap.servers": address_of(broker), "linger.ms": 1})
            for number in range(sent, sent + 500):
                producer.produce("flights", value=b"%d" % number, partition=number % 2)
            assert producer.flush(DEADLINE_S) == 0
            sent += 500
            # In the middle of the sink's work, at another point each time.
            deadline = time.monotonic() + DEADLINE_S
            while len(rows_in(tmp_path / "flights")) < sent - 400 + 100 * round_number:
                assert time.monotonic() < deadline
            broker.process.send_signal(signal.SIGKILL)
            broker.wait()
        broker.ready_file.unlink()
    with serving(tmp_path, *settings, PYTHONPATH=str(site)) as broker:
        assert broker.ready
        deadline = time.monotonic() + DEADLINE_S
        while len(rows_in(tmp_path / "flights")) < sent and time.monotonic() < deadline:
            time.sleep(0.05)
        assert broker.stop() == 0
    rows = sorted(rows_in(tmp_path / "flights"))
    assert [value for _, _, value in rows] == [
        b"%d" % number for partition in (0, 1) for number in range(partition, sent, 2)
    ]
    assert len(set(rows)) == sent
