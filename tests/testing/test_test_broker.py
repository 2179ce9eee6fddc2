"""`tidelog test-broker`: a broker for tests in any language."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import COMMAND, tidelog, tidelog_in_process
from tests.peers import free_port
from tidelog.client import Admin
from tidelog.testing.command import VARIABLE

USES = """
import os, sys
from tidelog.client import Admin
with Admin(os.environ["KAFKA_BOOTSTRAP_SERVERS"]) as admin:
    found = admin.describe_topics(admin.list_topics())
    print(*[f"{name}:{len(each.partitions)}" for name, each in found.items()])
sys.exit(7)
"""


def test_test_broker_runs_as_long_as_the_command_and_ends_as_it_does(tmp_path: Path) -> None:
    done = tidelog(
        "test-broker", "--topic", "orders:3", "--topic", "letters", "--", sys.executable, "-c", USES
    )
    assert (done.stdout, done.returncode) == ("letters:1 orders:3\n", 7), done.stderr
    assert done.stderr == ""


def test_test_broker_prints_its_address_and_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "test-broker", "--data-dir", str(tmp_path / "data"), "--set", "num.partitions=4"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with Admin(address) as admin:
        assert admin.list_topics() == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    process.stdout.close()
    assert (tmp_path / "data").is_dir()


def test_test_broker_ends_a_command_whose_time_is_up() -> None:
    done = tidelog("test-broker", "--ttl", "0.2", "--", sys.executable, "-c", "import time; time.sleep(600)")
    assert done.returncode == 124
    assert "was ended: it ran for more than 0.2 s" in done.stderr
    assert tidelog("test-broker", "--ttl", "0.1").returncode == 0


def test_test_broker_prints_its_address_beside_a_command(tmp_path: Path) -> None:
    program = f"import os; print(os.environ['{VARIABLE}'])"
    done = tidelog("test-broker", "--print-bootstrap", "--ttl", "60", "--", sys.executable, "-c", program)
    (printed, address) = done.stdout.split()
    assert printed == address
    assert done.returncode == 0


def test_entry_point_of_the_container_is_a_test_broker() -> None:
    lines = (Path(__file__).parents[2] / "Containerfile").read_text().rpartition("ENTRYPOINT ")[2]
    command = [str(each) for each in json.loads(lines.replace("\\\n", ""))]
    assert command[:2] == ["tidelog", "test-broker"]
    port = free_port()
    own = [each.replace("9092", str(port)) for each in command[1:]]
    done = tidelog(*own, "--ttl", "0.1")
    assert done.returncode == 0, done.stderr
    # Not 0.0.0.0, where it listens: no client can use that from outside of the container.
    assert done.stdout == f"localhost:{port}\n"


def test_test_broker_says_that_a_signal_has_ended_the_command() -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert tidelog("test-broker", "--", sys.executable, "-c", program).returncode == 137


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("--set", "oops"), 2, "'oops' is not of the form KEY=VALUE."),
        (("--set", "num.partitons=1"), 2, "num.partitons"),
        (("--topic", "a:b"), 2, "'a:b' is not of the form NAME or NAME:PARTITIONS."),
        (("--topic", "a:0"), 2, "'a:0' is not of the form NAME or NAME:PARTITIONS."),
        (("--", "no-such-command"), 127, "There is no command 'no-such-command'."),
        (("--", "/"), 126, "'/' may not be executed."),
    ],
)
def test_wrong_usage_of_test_broker_is_named(arguments: tuple[str, ...], code: int, error: str) -> None:
    done = tidelog_in_process("test-broker", *arguments)
    assert done.returncode == code
    assert error in done.stderr
