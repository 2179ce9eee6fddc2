"""`tidelog topics` on a terminal, in a process of its own, and without one, in this process."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import suppress

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import (
    COMMAND,
    clean_environment,
    printed_json,
    tidelog,
    tidelog_in_process,
)

__all__ = ["on_terminal", "printed_json", "tidelog", "topics"]


def topics(bootstrap: str, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of the commands against a broker; its output is no terminal."""
    return tidelog_in_process("topics", command, "--bootstrap-server", bootstrap, *arguments)


def on_terminal(bootstrap: str, command: str, *arguments: str, typed: str = "") -> tuple[int, str]:
    """Run one of the commands on a terminal of 100 columns: exit code, and what can be seen in the end."""
    terminal, process_end = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "topics", command, "--bootstrap-server", bootstrap, *arguments],
        stdin=process_end,
        stdout=process_end,
        stderr=process_end,
        env=clean_environment({"COLUMNS": "100", "TERM": "xterm"}),
    )
    os.close(process_end)
    try:
        os.write(terminal, typed.encode())
        seen = b""
        with suppress(OSError):  # Linux tells the end of a terminal as an error
            while chunk := os.read(terminal, 4096):
                seen += chunk
        return process.wait(DEADLINE_S), seen.decode().replace("\r\n", "\n")
    finally:
        os.close(terminal)
        if process.poll() is None:
            process.kill()
            process.wait()
