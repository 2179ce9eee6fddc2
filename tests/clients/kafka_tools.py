"""Apache Kafka's command line tools in one JVM, whose start takes longer than all that they do."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager

import attrs

from .java_programs import command_inside_kafka

_END = "== end"


@attrs.define
class KafkaTools:
    """A process that runs one tool after the other."""

    _process: subprocess.Popen[str]

    def run(self, tool: str, *arguments: str) -> str:
        """Return what the tool prints on its output.

        Raises:
            AssertionError: it failed, or ended with a status other than 0.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join((tool, *arguments)) + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        while (line := self._process.stdout.readline()).rstrip("\n") != _END:
            assert line, "the process of the tools has ended"
            lines.append(line)
        told = "".join(lines[1:])  # behind the number
        assert "== failed" not in told, told
        return told.removesuffix("\n")


@contextmanager
def running_tools() -> Generator[KafkaTools]:
    """Run the process; raises PeerUnavailableError without a JDK or Kafka."""
    command = command_inside_kafka("Tools", [_END])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield KafkaTools(process)
        finally:
            process.kill()
