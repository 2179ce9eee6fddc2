"""kfake, which franz-go has for tests in Go: a small program of it, which these tests send commands to."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.clients.go_programs import built

from .kit import Kit

MODULES: Final = (
    "github.com/twmb/franz-go@v1.22.3",
    "github.com/twmb/franz-go/pkg/kfake@v0.0.0-20260918054303-01f206a7e32c",
)
PROGRAM: Final = Path(__file__).parent / "kfake" / "main.go"


class KfakeKit(Kit):
    """One process for each test."""

    title = "kfake"

    def start(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._port = "0"
        self._run()

    def stop(self) -> None:
        self._end()
        self._directory.cleanup()

    def crash(self) -> None:
        self._end()
        self._run()

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def expire(self, topic: str) -> None:
        self._ask("expire")

    def compact(self, topic: str) -> None:
        # The active segment is not compacted: another record begins a new one.
        time.sleep(0.2)
        self.produce(topic, b"later", key=b"other")
        self._ask("compact")

    def refuse_produce(self, times: int) -> None:
        self._ask(f"refuse {times}")

    def lose_produce_response(self) -> None:
        self._ask("lose")

    def delay_produce(self, seconds: float) -> None:
        self._ask(f"delay {round(seconds * 1000)}")

    def acks_of_produce(self) -> list[int]:
        found: list[int] = json.loads(self._ask("acks"))
        return found

    def _run(self) -> None:
        command = [str(built([PROGRAM], MODULES)), self._port, self._directory.name]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.bootstrap = self._answer()
        self._port = self.bootstrap.rpartition(":")[2]

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()
