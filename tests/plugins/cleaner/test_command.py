"""`tidelog cleaner run`: the logs of a stopped broker are compacted."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from tidelog.kernel.cli.main import main, tidelog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import broker_in_thread, running_broker


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a stopped broker with two topics, each with ten values of one key."""
    trio.run(fill, tmp_path)
    return tmp_path


async def fill(data: Path | str) -> None:
    async with running_broker({"storage": "file", "log.dirs": str(data)}) as broker:
        for name in ("prices", "orders"):
            topic = await broker.topics.create(TopicSpec(name, 1, config={"cleanup.policy": "compact"}))
            for _ in range(10):
                topic.partitions[0].log.append_nowait(make_batch([b"x" * 1000], keys=[b"k"]))


def sizes(data: Path) -> dict[str, int]:
    """Bytes of each topic's log."""
    return {
        name: sum(file.stat().st_size for file in data.glob(f"{name}-0/*.log"))
        for name in ("prices", "orders")
    }


def cleaner_run(data: Path | str, *arguments: str) -> tuple[int, str]:
    """The exit code and the output."""
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


@pytest.mark.parametrize(
    ("name", "hint"), [("price", " (did you mean prices?)"), ("x", ""), ("__consumer_offsets", "")]
)
def test_run_names_a_topic_that_is_not_there(data: Path, name: str, hint: str) -> None:
    whole = sizes(data)
    message = f"Error: There is no topic {name!r} in these directories{hint}.\n"
    assert cleaner_run(data, "orders", name) == (1, message)
    assert sizes(data) == whole


def test_run_names_topics_without_anything_to_compact(data: Path) -> None:
    trio.run(create, data, "clicks", {"cleanup.policy": "delete"})
    trio.run(create, data, "views", {"cleanup.policy": "delete,compact"})
    trio.run(create, data, "logs", {"cleanup.policy": ""})
    assert cleaner_run(data, "clicks", "logs", "views", "clicks") == (
        0,
        "clicks has nothing to compact; its cleanup.policy is delete.\n"
        "logs has nothing to compact; its cleanup.policy is empty.\n"
        "views has nothing to compact; its cleanup.policy is delete,compact.\n"
        "0 log(s) compacted: 0 of 0 bytes are left.\n",
    )


def test_run_takes_a_topic_that_is_named_twice_once(data: Path) -> None:
    code, output = cleaner_run(data, "prices", "prices")
    assert (code, output.startswith("1 log(s) compacted: ")) == (0, True), output


async def create(data: Path, name: str, config: dict[str, str], batches: int = 0) -> None:
    """Create a topic with so many segments, whose records are old, on a broker that is stopped then."""
    async with running_broker({"storage": "file", "log.dirs": str(data)}) as broker:
        topic = await broker.topics.create(TopicSpec(name, 1, config=config))
        for _ in range(batches):
            topic.partitions[0].log.append_nowait(make_batch([b"x"], keys=[b"k"], timestamps=1))
            await topic.partitions[0].log.roll()


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_run_deletes_nothing(data: Path, policy: str) -> None:
    """Retention is for the broker: who compacts by hand may want to keep what is there."""
    settings = {"cleanup.policy": policy, "retention.ms": "1", "min.compaction.lag.ms": str(2**62)}
    trio.run(create, data, "old", settings, 3)
    logs = sorted(data.glob("old-0/*.log"))
    assert len(logs) == 4
    code, output = cleaner_run(data)
    assert code == 0, output
    assert [file.name for file in sorted(data.glob("old-0/*.log"))] == [file.name for file in logs]
    assert not [*data.glob("old-0/*.deleted")]


def test_run_compacts_what_is_old_enough_to_be_deleted(data: Path) -> None:
    trio.run(create, data, "old", {"cleanup.policy": "compact,delete", "retention.ms": "1"}, 3)
    code, output = cleaner_run(data, "old")
    assert (code, output.startswith("1 log(s) compacted: ")) == (0, True), output
    (log, active) = sorted(data.glob("old-0/*.log"))
    assert (log.name, active.name) == (f"{0:020}.log", f"{3:020}.log")
    assert log.stat().st_size == len(make_batch([b"x"], keys=[b"k"]))


@pytest.mark.parametrize("there", [True, False])
def test_run_refuses_a_directory_that_no_broker_has_used(
    tmp_path: Path, there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    if there:
        data.mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["cleaner", "run", "--set", f"log.dirs={data}"])
    assert ended.value.code == 2
    assert f"no broker has used {data}: there is no meta.properties; " in capsys.readouterr().err
    assert [*tmp_path.rglob("*")] == ([data] if there else [])


def test_run_refuses_a_log_that_is_damaged(data: Path) -> None:
    (log,) = data.glob("prices-0/*.log")
    content = bytearray(log.read_bytes())
    content[61:66] = b"\xff" * 5
    log.write_bytes(content)
    code, output = cleaner_run(data)
    assert code == 1
    assert "1 log(s) compacted: " in output
    assert output.endswith("Error: Not compacted: prices-0; the lines above say why.\n")
    assert log.read_bytes() == bytes(content)


def test_run_names_logs_for_which_no_process_could_be_started(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refused)
    code, output = cleaner_run(data)
    *_, done, failed = output.splitlines()
    assert (code, done) == (1, "0 log(s) compacted: 0 of 0 bytes are left.")
    assert sorted(re.findall(r"\w+-0", failed)) == ["orders-0", "prices-0"]


def test_run_names_logs_in_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    """What is in the other one is compacted."""
    roots = [tmp_path / "one", tmp_path / "two"]
    places = ",".join(map(str, roots))
    trio.run(fill, places)
    lost = next(root for root in roots if not (root / "__cluster_metadata-0").exists())
    names = sorted(folder.name for folder in lost.glob("*-0"))
    lost.rename(tmp_path / "away")
    lost.write_bytes(b"")
    code, output = cleaner_run(places)
    assert code == 1
    assert "1 log(s) compacted: " in output
    assert names
    assert output.endswith(f"Error: Not compacted: {names[0]}; the lines above say why.\n")


def test_run_is_refused_beside_a_running_broker(tmp_path: Path) -> None:
    with broker_in_thread({"storage": "file", "log.dirs": str(tmp_path)}):
        with pytest.raises(SystemExit) as ended:
            main(["cleaner", "run", "--set", f"log.dirs={tmp_path}"])
        assert ended.value.code == 2
