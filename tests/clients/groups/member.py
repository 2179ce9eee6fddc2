"""A member of a group: a process that is spoken to, and all that it told."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import attrs

from tests.deadlines import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Owns(NamedTuple):
    """From `time_ns` on a member owns these partitions and no others."""

    time_ns: int
    partitions: frozenset[int]


class Read(NamedTuple):
    """At `time_ns` a member was given a record."""

    time_ns: int
    partition: int
    offset: int


@attrs.define
class Member:
    """A running program of the folder `members` (or of `java`, or `node`)."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    owns: list[Owns] = attrs.field(factory=list[Owns])
    reads: list[Read] = attrs.field(factory=list[Read])
    commits: int = 0
    errors: list[str] = attrs.field(factory=list[str])
    _process: subprocess.Popen[str] = attrs.field(init=False)
    _readers: list[threading.Thread] = attrs.field(factory=list[threading.Thread])

    def start(self) -> None:
        """Start the process and take down what it tells."""
        self._process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=each, daemon=True) for each in (self._take_down, self._take_errors)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def owned(self) -> frozenset[int]:
        """What it owns as far as it told."""
        return self.owns[-1].partitions if self.owns else frozenset()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def tell(self, command: str) -> None:
        """Give the member a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def leave(self) -> None:
        """Have the member leave its group and wait until its process has ended well."""
        self.tell("leave")
        status = self._process.wait(DEADLINE_S)
        self._ended()
        assert status == 0, f"{self.name} ended with {status}: {self.complaints}"

    def kill(self) -> None:
        """`kill -9`, if it still runs: no goodbye."""
        if self.is_running:
            self._process.kill()
        self._process.wait()
        if self._readers:
            self._ended()

    @property
    def complaints(self) -> str:
        """The end of what it wrote about errors."""
        return "".join(self.errors)[-2000:]

    @property
    def told(self) -> str:
        """All that it told, for whoever looks for the cause of a failure."""
        owns = [f"owns {sorted(each.partitions)} from {each.time_ns}" for each in self.owns]
        reads = [f"read {each.partition}:{each.offset} at {each.time_ns}" for each in self.reads]
        return "\n".join([f"--- {self.name}", *owns, *reads, *map(str.rstrip, self.errors)])

    def _ended(self) -> None:
        for reader in self._readers:
            reader.join()
        self._readers = []
        self.owns.append(Owns(time.monotonic_ns(), frozenset()))
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _take_down(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            time_ns, what, *rest = line.split()
            if what == "owns":
                partitions = rest[0].split(",") if rest else []
                self.owns.append(Owns(int(time_ns), frozenset(map(int, partitions))))
            elif what == "read":
                self.reads.append(Read(int(time_ns), int(rest[0]), int(rest[1])))
            elif what == "committed":
                self.commits += 1

    def _take_errors(self) -> None:
        assert self._process.stderr is not None
        self.errors.extend(self._process.stderr)
