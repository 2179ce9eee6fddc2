"""`tidelog zookeeper`, and the status file that it reads."""

from __future__ import annotations

import json
import os
from pathlib import Path

import attrs
import trio
from trio.testing import MockClock

from tests.kernel.cli.running import printed_json, tidelog
from tidelog.plugins.zookeeper.status import FILE_NAME, RegistrationStatus, publish_status, read_status

STATUS = RegistrationStatus("zoo:2181/k", "registered", "0x1f", 0, 3, 1, 2, "the connection was lost")


def write(tmp_path: Path, status: RegistrationStatus, process_id: int) -> None:
    content = {"pid": process_id, "zookeeper": attrs.asdict(status)}
    tmp_path.joinpath(FILE_NAME).write_text(json.dumps(content))


def test_zookeeper_shows_the_registration_of_a_running_broker(tmp_path: Path) -> None:
    write(tmp_path, STATUS, os.getpid())
    done = tidelog("zookeeper", "--set", f"log.dirs={tmp_path}", TZ="UTC")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["ZOOKEEPER", "STATE", "SINCE", "SESSION", "TOPICS"],
        ["zoo:2181/k", "registered", "1970-01-01", "00:00:00+00:00", "0x1f", "3"],
        ["ZooKeeper", "does", "not", "take", "1", "topics,", "which", "the", "broker's", "log", "names."],
        ["Last", "of", "2", "errors:", "the", "connection", "was", "lost"],
    ]
    shown = printed_json("zookeeper", "--json", "--set", f"log.dirs={tmp_path}")
    assert shown == attrs.asdict(STATUS)


def test_zookeeper_says_why_it_shows_nothing(tmp_path: Path) -> None:
    folder = f"log.dirs={tmp_path}"
    assert "zookeeper.connect is not set" in tidelog("zookeeper", "--set", folder).stdout
    configured = tidelog("zookeeper", "--set", folder, "--set", "zookeeper.connect=zoo:2181")
    assert configured.stdout == "No broker with this configuration runs on this machine.\n"
    tmp_path.joinpath(FILE_NAME).mkdir()
    refused = tidelog("zookeeper", "--set", folder)
    assert refused.returncode == 2
    assert "the status of the registration cannot be read" in refused.stderr


def test_read_status_reads_no_file_of_another_form(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    for content in (
        "",
        "[]",
        "{}",
        f'{{"pid": {os.getpid()}}}',
        f'{{"pid": {os.getpid()}, "zookeeper": {{}}}}',
    ):
        file.write_text(content)
        assert read_status(file) is None
    # That of a broker that was killed.
    write(tmp_path, STATUS, 2**22 + 1)
    assert read_status(file) is None


async def test_publish_status_follows_the_status_until_the_broker_stops(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    file = tmp_path / FILE_NAME
    status = RegistrationStatus("zoo:2181/k")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish_status, file, status)
        await trio.sleep(0.5)
        assert read_status(file) == status
        status.state = "registered"
        await trio.sleep(1)
        assert read_status(file) == status
        nursery.cancel_scope.cancel()
    assert not file.exists()
