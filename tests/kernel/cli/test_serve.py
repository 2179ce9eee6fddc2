"""`tidelog serve`, as a real process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import serving, tidelog, write_plugin


def test_the_ready_file_tells_scripts_all_they_need(tmp_path: Path) -> None:
    with serving(tmp_path, "--set", "node.id=7") as broker:
        ready = broker.ready
        assert set(ready) == {"pid", "listeners", "ready_after_ms", "cluster_id", "node_id"}
        assert (ready["pid"], ready["node_id"]) == (broker.process.pid, 7)
        assert 0 < ready["ready_after_ms"] < 30_000
        assert len(ready["cluster_id"]) == 22
        host, _, port = ready["listeners"]["PLAINTEXT"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S):
            pass
        assert broker.stop() == 0
    assert not broker.ready_file.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_serve_prints_a_banner_with_the_address_and_how_to_stop(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        address = broker.ready["listeners"]["PLAINTEXT"]
        assert broker.stop(signal.SIGINT) == 0
    assert f"kcat -b {address} -L" in broker.stdout
    assert f"kill {broker.process.pid}" in broker.stdout
    assert "tidelog is ready after " in broker.stdout
    assert "INFO    cli.ready: ready listeners=PLAINTEXT://" in broker.stderr
    assert "\x1b[" not in broker.stdout + broker.stderr


def test_serve_with_log_format_json_prints_nothing_but_json_lines(tmp_path: Path) -> None:
    with serving(tmp_path, "--log-format", "json", "--set", "num.io.threads=8") as broker:
        ready = broker.ready
        assert broker.stop() == 0
    assert broker.stdout == ""
    events = [json.loads(line) for line in broker.stderr.splitlines()]
    (event,) = [event for event in events if event["message"] == "ready"]
    assert event["ready_after_ms"] == ready["ready_after_ms"]
    assert event["pid"] == broker.process.pid
    (warning,) = [event for event in events if event["level"] == "warning"]
    assert warning["message"].startswith("num.io.threads (--set) has no meaning here")


@pytest.mark.parametrize("abstract", [False, True], ids=["file", "abstract"])
def test_serve_notifies_the_service_manager_when_it_is_ready(tmp_path: Path, abstract: bool) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = f"tidelog-{os.getpid()}-{tmp_path.name}" if abstract else str(tmp_path / "notify")
        manager.bind("\0" + name if abstract else name)
        manager.settimeout(DEADLINE_S)
        with serving(tmp_path, NOTIFY_SOCKET="@" + name if abstract else name) as broker:
            state = manager.recv(4096).decode().splitlines()
            address = broker.ready["listeners"]["PLAINTEXT"]
            assert broker.stop() == 0
    assert state == ["READY=1", f"STATUS=listening on PLAINTEXT://{address}"]


def test_serve_without_its_service_manager_serves(tmp_path: Path) -> None:
    with serving(tmp_path, NOTIFY_SOCKET=str(tmp_path / "gone")) as broker:
        assert broker.ready
        assert broker.stop() == 0
    assert "the service manager at NOTIFY_SOCKET=" in broker.stderr


def test_serve_obeys_log_level(tmp_path: Path) -> None:
    with serving(tmp_path, "--log-level", "error") as broker:
        assert broker.ready
        assert broker.stop() == 0
    assert broker.stderr == ""


def test_a_ready_file_of_an_earlier_broker_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    (tmp_path / "ready.json").write_text('{"pid": 1}')
    with serving(tmp_path, "--set", "storage=fil") as broker:
        assert broker.wait() == 2
    with serving(tmp_path) as broker:
        while not (told := broker.ready) or told["pid"] == 1:
            assert broker.process.poll() is None
        assert broker.stop() == 0


def test_serve_reports_an_address_in_use_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serving(tmp_path, "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}") as broker:
            assert broker.wait() == 2
    assert broker.stdout == ""
    assert broker.stderr.count("\n") == 1
    assert broker.stderr.startswith("tidelog: ")
    assert str(port) in broker.stderr


def test_serve_reports_unusable_log_dirs_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with serving(tmp_path, "--set", f"log.dirs={tmp_path / 'file'}") as broker:
        assert broker.wait() != 0
    assert str(tmp_path / "file") in broker.stderr
    assert "Traceback" not in broker.stderr


def test_kafkas_own_server_properties_starts_a_broker(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=4\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        "controller.listener.names=CONTROLLER\nnum.io.threads=8\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    ready_file = tmp_path / "ready.json"
    with serving(
        tmp_path, "--set", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "--config", str(file)
    ) as broker:
        assert broker.ready["node_id"] == 4
        assert list(broker.ready["listeners"]) == ["PLAINTEXT"]
        assert broker.stop() == 0
    assert not ready_file.exists()
    assert "CONTROLLER://127.0.0.1:0 is not opened" in broker.stderr


STRANGER = """
    import logging
    from tidelog.kernel import ConfigKey, hookimpl
    from tidelog.kernel.config import string
    from tidelog.kernel.seams.tasks import PeriodicTask

    WORD = ConfigKey(name="stranger.word", type=string(), default="none", documentation="What it says.")

    @hookimpl
    def tidelog_config_keys():
        return [WORD]

    @hookimpl
    def tidelog_background_tasks(broker):
        async def say():
            logging.getLogger("stranger").info("the word is %s", broker.config[WORD])
            broker.request_stop()
        return [PeriodicTask("stranger", say, 1000)]
"""


def test_serve_loads_a_third_party_plugin_from_a_folder(tmp_path: Path) -> None:
    environment = write_plugin(tmp_path, "stranger", STRANGER)
    del environment["TIDELOG_PLUGINS"]
    file = tmp_path / "broker.toml"
    file.write_text('plugins = ["stranger"]\nstranger.word = "tide"\n')
    with serving(tmp_path, "--config", str(file), **environment) as broker:
        assert broker.wait() == 0
    assert "INFO    stranger: the word is tide" in broker.stderr


FAILING = """
    from tidelog.kernel import hookimpl

    @hookimpl
    def tidelog_background_tasks(broker):
        raise RuntimeError("no such moon")
"""


def test_serve_reports_a_plugin_that_fails_at_start_and_stops_cleanly(tmp_path: Path) -> None:
    with serving(tmp_path, **write_plugin(tmp_path, "moon", FAILING)) as broker:
        assert broker.wait() == 2
    assert broker.stderr == (
        "tidelog: The plugin moon failed in tidelog_background_tasks: RuntimeError: no such moon\n"
    )
    with serving(tmp_path) as broker:
        assert broker.ready
        assert broker.stop() == 0
    assert "unclean" not in broker.stderr


def test_serving_imports_neither_rich_nor_commands(tmp_path: Path) -> None:
    with serving(tmp_path, PYTHONPROFILEIMPORTTIME="1") as broker:
        assert broker.ready
        assert broker.stop() == 0
    imported = {
        line.rpartition("|")[2].strip() for line in broker.stderr.splitlines() if "import time:" in line
    }
    assert "tidelog.kernel.broker" in imported
    for module in (
        "rich",
        "asyncio",
        "tomllib",
        "difflib",
        "tidelog.kernel.cli.config",
        "tidelog.plugins.client",
    ):
        assert module not in imported


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_time_to_ready_counts_from_the_start_of_the_process() -> None:
    program = (
        "import time; time.sleep(0.3); from tidelog.kernel.cli import ready; "
        "print(ready.milliseconds_since_process_start())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 300 <= int(done.stdout) < 20_000


def test_help_of_serve_names_the_signals() -> None:
    assert "SIGTERM or SIGINT (Ctrl-C) stops it gracefully" in tidelog("serve", "--help").stdout
