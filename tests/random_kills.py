"""Kills of a broker and of what works with it, at random moments that a seed decides."""

from __future__ import annotations

import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from benchmarks.procfs import process_tree
from tests.deadlines import wait_until
from tests.peers import TidelogServer, free_port

# A micro-batch or a chunk takes about so long, so kills are anywhere in it.
LONGEST_BEFORE_A_KILL_S = 1.5
LONGEST_DOWNTIME_S = 1.0
Progress = TypeVar("Progress")
T = TypeVar("T")


class RandomKills(ABC, Generic[Progress]):
    """All kills of one seed: the kinds follow each other in random order, each once before any repeats."""

    def __init__(self, place: Path, seed: int, report: Callable[[str], None]) -> None:
        self._place = place
        self._chance = random.Random(seed)
        self._report = report
        self._broker = TidelogServer(place / "broker", requested_port=free_port())

    @abstractmethod
    def _progress(self) -> Progress:
        """How much is done; it is printed."""

    @abstractmethod
    def _has_moved(self, before: Progress) -> bool:
        """Whether more is done now, so that the next kill may come."""

    def _kill_all(self, kills: int, *kinds: Callable[[], str]) -> None:
        """Kill so often; a kind returns what it has killed."""
        order = list(kinds)
        for number in range(kills):
            if number % len(order) == 0:
                self._chance.shuffle(order)
            wait_until(partial(self._has_moved, self._progress()), "some progress")
            time.sleep(self._chance.uniform(0, LONGEST_BEFORE_A_KILL_S))
            what = order[number % len(order)]()
            self._report(f"kill {number + 1}, {what}, after {self._progress()}")

    def _kill_broker(self) -> str:
        self._broker.kill()
        time.sleep(self._chance.uniform(0, LONGEST_DOWNTIME_S))
        self._broker.start()
        return "the broker"

    def _kill_worker_of(self, driver: int) -> str:
        """Kill one of a driver's Python workers, if it has any at the moment."""
        workers = python_workers(driver)
        for pid in self._chance.sample(workers, min(len(workers), 1)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return f"one of {len(workers)} Python workers"


def python_workers(driver: int) -> list[int]:
    """Return the processes of a driver that read, write and plan, and the daemons that fork them."""
    return [pid for pid in process_tree(driver) if b"pyspark" in _python_module(pid)]


def _python_module(pid: int) -> bytes:
    """The module that a Python process was started with, empty if there is none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return b""
    return words[2] if words[1:2] == [b"-m"] else b""


def check_each_once(where: str, expected: Sequence[T], found: Counter[T]) -> None:
    """Compare what was written with what should have been.

    Raises:
        AssertionError: something is missing, too often or unexpected.
    """
    wanted = Counter(expected)
    missing, extra = wanted - found, found - wanted
    assert not missing, f"{missing.total()} of {len(expected)} are missing in {where}: {list(missing)[:5]}"
    assert not extra, f"{extra.total()} are too much in {where}: {list(extra)[:5]}"
