"""`make run-zookeeper` starts both and stops both."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import clean_environment
from tests.peers import ZooKeeperServer, answers_api_versions, free_ports


def test_run_zookeeper_runs_a_broker_that_is_registered(tmp_path: Path) -> None:
    # Asked for here, so that a machine without it skips the test.
    ZooKeeperServer(tmp_path)
    port, zookeeper_port = free_ports(2)
    words = ["--port", str(port), "--zookeeper-port", str(zookeeper_port), "--data", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.peers.run_zookeeper", *words],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    ) as running:
        assert running.stdout is not None
        printed = ""
        while "  stop " not in printed and (line := running.stdout.readline()):
            printed += line
        assert f"--zookeeper 127.0.0.1:{zookeeper_port} --topic orders" in printed
        assert answers_api_versions("127.0.0.1", port)
        shown = subprocess.run(
            [sys.executable, "-m", "tidelog.kernel", "zookeeper", "--set", f"log.dirs={tmp_path}/logs"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env=clean_environment(),
        )
        assert f"127.0.0.1:{zookeeper_port}  registered" in shown.stdout
        running.send_signal(signal.SIGTERM)
        assert running.wait(DEADLINE_S) == 0
