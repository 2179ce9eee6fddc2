"""A core whose log is compacted, with the worker in a thread, so that its file operations are seen."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import trio

from tests.crash.core import KEYS, SMALL, Core
from tidelog.kernel.config import Config, TopicConfig
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.cleanup import LogView, Plan
from tidelog.kernel.testing import FakeClock
from tidelog.plugins.cleaner import plugin as cleaner
from tidelog.plugins.cleaner.compaction.keep_newest import KeepNewest
from tidelog.plugins.cleaner.compaction.offset_map import SLOT_BYTES
from tidelog.plugins.cleaner.compaction.policy import CompactionPolicy
from tidelog.plugins.cleaner.execution.policy_execution import PolicyExecution
from tidelog.plugins.cleaner.execution.workers import Workers
from tidelog.plugins.cleaner.worker import process
from tidelog.plugins.cleaner.worker.__main__ import do_job
from tidelog.plugins.cleaner.worker.descriptors import send_descriptors
from tidelog.plugins.cleaner.worker.messages import GroupBegun

TOPIC = "t"
POLICY = CompactionPolicy.name
AT_ONCE = {**SMALL, "min.cleanable.dirty.ratio": 0.0}
"""The topic's configuration while it is compacted: small segments become one up to that size."""


class WorkerThread:
    """`WorkerProcess` in a thread; `begun` gets the base offsets of each group of segments."""

    def __init__(self, begun: list[Sequence[int]]) -> None:
        self._begun = begun
        self._connection, theirs = Pipe()
        self._thread = threading.Thread(target=_work, args=(theirs,), name="worker of a rewrite", daemon=True)
        self._thread.start()

    async def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """See `WorkerProcess.send`."""
        await trio.to_thread.run_sync(self._connection.send, message)
        if descriptors:
            send_descriptors(self._connection, descriptors)

    async def receive(self) -> object:
        """See `WorkerProcess.receive`."""
        message = await trio.to_thread.run_sync(self._connection.recv)
        if isinstance(message, GroupBegun):
            self._begun.append(message.base_offsets)
        return message

    def kill(self) -> None:
        """See `WorkerProcess.kill`."""
        self._connection.close()
        self._thread.join()


def _work(connection: Connection[Any, Any]) -> None:
    """Do jobs, as the main function of the process does, until the broker closes the connection."""
    with connection:
        try:
            while True:
                connection.send(do_job(connection.recv(), connection))
        except (EOFError, ConnectionError):
            return


@attrs.frozen
class SomeKeysAtATime(CompactionPolicy):
    """Compaction with memory for so many keys: more need several passes."""

    most_keys: int

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        """See `CompactionPolicy.plan`."""
        plan = super().plan(log, now_ms, config)
        if plan.rewrite is None:
            return plan
        memory = self.most_keys * SLOT_BYTES
        return attrs.evolve(
            plan, rewrite=attrs.evolve(plan.rewrite, make_filter=lambda _: KeepNewest(now_ms, memory, 1.0))
        )


class CompactingCore(Core):
    """One topic with one partition, which is compacted."""

    def __init__(self, place: Path, clock: FakeClock | None = None) -> None:
        super().__init__(place, clock)
        settings: dict[str, object] = {"log.dirs": str(self.data), "num.recovery.threads.per.data.dir": 1}
        self.config = Config.from_mapping(settings, [*KEYS, *cleaner.tidelog_config_keys()])

    @property
    def partition(self) -> UnifiedLog:
        """The partition."""
        return self.topics.get(TOPIC).partitions[0].log

    async def compact(self, policy: CompactionPolicy, begun: list[Sequence[int]] | None = None) -> None:
        """Compact all that can be; `begun` gets the base offsets of each group of segments."""
        execution = PolicyExecution(policy, self.topics, self.clock, set(), Workers(self.config))
        worker = partial(WorkerThread, [] if begun is None else begun)
        with mock.patch.object(process, "WorkerProcess", worker):
            await execution.rewrite_now((), AT_ONCE, lambda *_: None)
        statistics = execution.statistics
        assert (statistics.failures, statistics.aborted_rewrites, statistics.dead_workers) == (0, 0, 0)
