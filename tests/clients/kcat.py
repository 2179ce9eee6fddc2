"""kcat, the command line client."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.deadlines import DEADLINE_S
from tests.peers import PeerUnavailableError

from .records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

NULL = -1
_FORMAT = r"%p\t%o\t%T\t%K\t%k\t%S\t%s\n"


def kcat(bootstrap: str, *arguments: str, stdin: bytes = b"") -> str:
    """What kcat prints; raises AssertionError with its complaints when it fails."""
    ended = subprocess.run(
        kcat_command(bootstrap, *arguments), input=stdin, capture_output=True, timeout=DEADLINE_S
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def kcat_command(bootstrap: str, *arguments: str) -> list[str]:
    """The command line of kcat; raises PeerUnavailableError without it."""
    program = shutil.which("kcat")
    if program is None:
        raise PeerUnavailableError("kcat", "no `kcat` is on the PATH; install Debian's package kcat")
    return [program, "-b", bootstrap, *arguments]


def read_with_kcat(bootstrap: str, topic: str, arguments: Sequence[str] = ()) -> list[Record]:
    """All records of a topic whose values have neither tabs nor line feeds."""
    printed = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", _FORMAT, *arguments)
    return [_record(line) for line in printed.splitlines()]


def _record(line: str) -> Record:
    partition, offset, timestamp_ms, key_size, key, value_size, value = line.split("\t")
    return Record(
        int(partition),
        int(offset),
        None if int(key_size) == NULL else key.encode(),
        None if int(value_size) == NULL else value.encode(),
        int(timestamp_ms),
    )
