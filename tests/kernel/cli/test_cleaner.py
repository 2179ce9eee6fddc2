"""`tidelog cleaner run`: the logs of a stopped broker are compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from click.testing import CliRunner

from tidelog.kernel.cli.main import main, tidelog
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import broker_in_thread, running_broker
from tidelog.kernel.topics import NewTopic

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a stopped broker with two topics, each with ten values of one key."""
    trio.run(fill, tmp_path)
    return tmp_path


async def fill(tmp_path: Path) -> None:
    async with running_broker({"storage": "file", "log.dirs": str(tmp_path)}) as broker:
        for name in ("prices", "orders"):
            topic = await broker.topics.create(NewTopic(name, 1, config={"cleanup.policy": "compact"}))
            for _ in range(10):
                topic.partitions[0].append_nowait(make_batch([b"x" * 1000], keys=[b"k"]))


def sizes(data: Path) -> dict[str, int]:
    """Bytes of each topic's log."""
    return {
        name: sum(file.stat().st_size for file in data.glob(f"{name}-0/*.log"))
        for name in ("prices", "orders")
    }


def cleaner_run(data: Path, *arguments: str) -> tuple[int, str]:
    words = ["cleaner", "run", "--set", f"log.dirs={data}", "--set", "log.level=warning", *arguments]
    result = CliRunner().invoke(tidelog, words)
    return result.exit_code, result.output


def test_run_compacts_all_logs_or_those_of_some_topics(data: Path) -> None:
    whole = sizes(data)
    code, output = cleaner_run(data, "prices")
    assert (code, output.startswith("1 log(s) compacted: ")) == (0, True), output
    assert sizes(data)["prices"] < whole["prices"] / 5
    assert sizes(data)["orders"] == whole["orders"]
    code, output = cleaner_run(data)
    assert (code, output.startswith("1 log(s) compacted: ")) == (0, True), output
    assert sizes(data)["orders"] < whole["orders"] / 5
    assert cleaner_run(data) == (0, "0 log(s) compacted: 0 of 0 bytes are left.\n")


def test_run_names_a_topic_that_is_not_there(data: Path) -> None:
    assert cleaner_run(data, "price") == (1, "Error: There is no topic 'price' in these directories.\n")


def test_run_refuses_a_log_that_is_damaged(data: Path) -> None:
    (log,) = data.glob("prices-0/*.log")
    content = bytearray(log.read_bytes())
    content[61:66] = b"\xff" * 5
    log.write_bytes(content)
    code, output = cleaner_run(data)
    assert code == 1
    assert "could not be compacted" in output


def test_run_is_refused_beside_a_running_broker(tmp_path: Path) -> None:
    with broker_in_thread({"storage": "file", "log.dirs": str(tmp_path)}):
        with pytest.raises(SystemExit) as ended:
            main(["cleaner", "run", "--set", f"log.dirs={tmp_path}"])
        assert ended.value.code == 2
