"""The part of systemctl that docs/operations.md uses, for a unit of Type=notify below a folder in place of /.

`python -m tests.docs.fake_systemctl ROOT VERB tidelog`, such as `start`, `is-active` or `freeze`:
it runs the command of the unit as it is there, waits for its notification, and stops or freezes it.
"""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.deadlines import DEADLINE_S

UNIT = "etc/systemd/system/tidelog.service"


def main(root: Path, verb: str) -> int:
    """Do what systemctl does for that verb; the exit code."""
    group_file = root / "tidelog.pid"
    group = int(group_file.read_text()) if group_file.exists() else None
    if verb == "is-active":
        active = group is not None and _runs(group)
        print("active" if active else "inactive")
        return 0 if active else 3
    if verb in ("stop", "restart") and group is not None:
        _stop(group)
    if verb in ("start", "restart"):
        group_file.write_text(str(_start(root)))
    elif verb in ("freeze", "thaw"):
        assert group is not None
        os.killpg(group, signal.SIGSTOP if verb == "freeze" else signal.SIGCONT)
    return 0


def _start(root: Path) -> int:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((root / UNIT).read_text())
    assert unit["Service"]["Type"] == "notify"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        (root / "journal").open("ab") as journal,
    ):
        name = f"tidelog-systemctl-{os.getpid()}"
        notified.bind(f"\0{name}")
        notified.settimeout(DEADLINE_S)
        process = subprocess.Popen(
            shlex.split(unit["Service"]["ExecStart"]),
            env={**os.environ, "NOTIFY_SOCKET": f"@{name}"},
            stdout=journal,
            stderr=journal,
            start_new_session=True,
        )
        while b"READY=1" not in notified.recv(4096):
            pass
    return process.pid


def _stop(group: int) -> None:
    if not _runs(group):
        return
    os.kill(group, signal.SIGTERM)
    deadline = time.monotonic() + DEADLINE_S
    while _runs(group):
        assert time.monotonic() < deadline, "the service does not stop"
        time.sleep(0.01)


def _runs(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    # No one may wait for it here.
    return state != "Z"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
