"""docs/operations.md: each procedure works, with the unit as it is and a stand-in for systemd."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from threading import Event, Thread

import attrs
import pytest

from tests.deadlines import DEADLINE_S
from tests.docs.examples import DOCS, Example, examples_of, run_example
from tests.docs.fake_systemctl import UNIT
from tests.kernel.cli.running import Serving, clean_environment
from tidelog.client import Producer
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.testing import KafkaServer

PAGE = (DOCS / "operations.md").read_text()
DEPLOY = DOCS.parent / "deploy"
EXAMPLES = [example for example in examples_of("operations.md") if example.language in ("sh", "toml")]
FOLDERS = ("etc/tidelog", "etc/systemd/system", "var/lib/tidelog", "var/log/tidelog", "var/backups", "bin")


@attrs.frozen
class Machine:
    """A folder that stands for / of a machine with the releases 0.1.0 and 0.2.0, and its own ports."""

    root: Path
    ports: dict[str, str]

    def here(self, text: str) -> str:
        """The text with paths and ports of this machine."""
        moved = re.sub(r"(?<![\w.])/(opt|etc|var)/", rf"{self.root}/\1/", text)
        return re.sub(r"\b(9092|8082)\b", lambda port: self.ports[port[0]], moved)

    def run(self, example: Example) -> None:
        """Do what the page says here."""
        text = self.here(example.text)
        if example.language == "sh":
            text = f"export PATH={self.root}/bin:$PATH no_proxy='*'\n{text}"
        run_example(attrs.evolve(example, text=text), self.root / "etc/tidelog")

    @property
    def bootstrap(self) -> str:
        """Where its broker is."""
        return f"127.0.0.1:{self.ports['9092']}"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Machine]:
    """A machine on which nothing runs yet."""
    root = tmp_path_factory.mktemp("operations")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        made = Machine(root, {"9092": str(one.getsockname()[1]), "8082": str(other.getsockname()[1])})
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    tidelog = f"exec {sys.executable} -m tidelog.kernel"
    for release in ("0.1.0", "0.2.0"):
        (root / "opt/tidelog" / release / "bin").mkdir(parents=True)
        _script(root / "opt/tidelog" / release / "bin/tidelog", tidelog)
    (root / "opt/tidelog/current").symlink_to("0.1.0")
    (root / UNIT).write_text(made.here((DEPLOY / "tidelog.service").read_text()))
    systemctl = f"PYTHONPATH={DOCS.parent} exec {sys.executable} -m tests.docs.fake_systemctl {root}"
    _script(root / "bin/systemctl", systemctl)
    yield made
    subprocess.run([root / "bin/systemctl", "thaw", "tidelog"], check=False)
    subprocess.run([root / "bin/systemctl", "stop", "tidelog"], check=False)


def _script(path: Path, command: str) -> None:
    path.write_text(f'#!/bin/sh\n{command} "$@"\n')
    path.chmod(0o755)


def test_what_is_not_executed_has_a_prompt_and_names_what_there_is() -> None:
    left_out = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in left_out for line in block.splitlines()]
    assert all(line.startswith(("# ", "$ ", "    ")) for line in lines)
    files = re.findall(r"\bdeploy/\S+", "\n".join(lines))
    assert [DEPLOY.parent / name for name in files] == [DEPLOY / "tidelog.service"]
    (target,) = re.findall(r"--target (\w+)", "\n".join(lines))
    assert f"AS {target}\n" in (DEPLOY.parent / "Containerfile").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_procedure_works(example: Example, machine: Machine) -> None:
    machine.run(example)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_backup_of_a_busy_broker_has_all_that_was_acknowledged_before(machine: Machine) -> None:
    (backup,) = [example for example in EXAMPLES if "systemctl freeze" in example.text]
    freeze = attrs.evolve(backup, text=backup.text.partition("\n\n")[2])
    acknowledged: list[int] = []
    begun, over = Event(), Event()
    producing = Thread(target=_produce_until, args=(machine.bootstrap, acknowledged, begun, over))
    producing.start()
    try:
        assert begun.wait(DEADLINE_S)
        before = len(acknowledged)
        machine.run(freeze)
    finally:
        over.set()
        producing.join(DEADLINE_S)
    with KafkaServer({"storage": "file", "log.dirs": machine.here("/var/backups/tidelog")}) as copy:
        found = [int(record.value or b"") for record in copy.records("busy")]
    assert before > 0
    assert found == list(range(len(found)))
    assert before <= len(found) <= len(acknowledged) + 1


def _produce_until(bootstrap: str, acknowledged: list[int], begun: Event, over: Event) -> None:
    with Producer(bootstrap) as producer:
        while not over.is_set():
            producer.send_and_wait("busy", b"%d" % len(acknowledged))
            acknowledged.append(len(acknowledged))
            begun.set()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    # The program of the unit is not installed here.
    text = (DEPLOY / "tidelog.service").read_text().replace("/opt/tidelog/current/bin/tidelog", "/bin/true")
    unit = tmp_path / "tidelog.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed")
def test_logrotate_takes_its_configuration(tmp_path: Path) -> None:
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    group = subprocess.run(["id", "-gn"], capture_output=True, text=True, check=True).stdout.strip()
    text = (DEPLOY / "tidelog.logrotate").read_text().replace("/var/log/tidelog", str(tmp_path))
    configuration, log = tmp_path / "configuration", tmp_path / "broker.log"
    configuration.write_text(text.replace("su tidelog tidelog", f"su {user} {group}"))
    configuration.chmod(0o644)
    log.write_text("an event\n")
    subprocess.run(
        ["logrotate", "--force", "--state", str(tmp_path / "state"), str(configuration)],
        check=True,
        timeout=DEADLINE_S,
    )
    assert not log.exists()
    assert (tmp_path / "broker.log.1").read_text() == "an event\n"


def test_alarms_are_explained_and_watch_metrics_that_exist() -> None:
    rules = (DEPLOY / "alerts.yml").read_text()
    assert re.findall(r"alert: (\w+)", rules) == re.findall(r"^\| `(Tidelog\w+)`", PAGE, re.MULTILINE)
    with broker_in_thread() as running:
        exported = {family.name for family in running.broker.meters.collect()}
    # A broker without sinks has none of theirs.
    named = set(re.findall(r"\b(?:kafka|process|tidelog)_\w+", rules)) - {"tidelog_sink_lag"}
    assert len(named) == 5
    assert named <= exported


def test_images_start_what_the_command_line_takes(tmp_path: Path) -> None:
    """The image that stores its data starts with its environment, and its check of health passes."""
    stages = (DEPLOY.parent / "Containerfile").read_text().replace("\\\n", " ").split("\nFROM ")
    (stage,) = [stage for stage in stages if "AS broker\n" in stage]
    variables = dict(re.findall(r"(TIDELOG_\w+)=(\S+)", stage))
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    variables["TIDELOG_LOG_DIRS"] = str(tmp_path / "of-the-image")
    variables["TIDELOG_LISTENERS"] = (
        variables["TIDELOG_LISTENERS"].replace(":9092", ":0").replace(":8082", f":{port}")
    )
    (entry,) = re.findall(r"ENTRYPOINT (\[.*\])", stage)
    (check,) = re.findall(r"CMD (\[.*\])", stage)
    command = [sys.executable, "-m", "tidelog.kernel", *json.loads(entry)[1:]]
    ready = tmp_path / "ready.json"
    with subprocess.Popen(
        [*command, "--ready-file", str(ready)],
        env=clean_environment(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        serving = Serving(process, ready)
        try:
            assert list(serving.ready["listeners"]) == ["PLAINTEXT", "HTTP"]
            healthy = [sys.executable, *json.loads(check.replace("8082", str(port)))[1:]]
            subprocess.run(healthy, check=True, timeout=DEADLINE_S, env=clean_environment())
        finally:
            process.terminate()
        assert process.wait(DEADLINE_S) == 0
    assert (tmp_path / "of-the-image/meta.properties").exists()
