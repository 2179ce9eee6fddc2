"""The suite of coordinators finds each wrong one."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import attrs
import pytest
import trio

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.coordination.backend import Coordinator, CoordinatorBackend, CoordinatorContext
from tidelog.kernel.seams.coordination.offsets import (
    CommitOutcome,
    FetchedOffsets,
    OffsetCommit,
    OffsetFetch,
)
from tidelog.kernel.testing.coordination import CoordinationConformance, CoordinatorHarness


class Suite(CoordinationConformance, coordinator="wrong"): ...


class Forwarding:
    """A coordinator that forwards to `memory`; subclasses do one thing wrong as its service of offsets."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    @property
    def offsets(self) -> Any:
        return self if type(self) is not Forwarding else self.wrapped.offsets

    def commit(self, request: OffsetCommit) -> CommitOutcome:
        return cast("CommitOutcome", self.wrapped.offsets.commit(request))

    def commit_pending(self, request: OffsetCommit, producer_id: int, producer_epoch: int) -> CommitOutcome:
        return cast(
            "CommitOutcome", self.wrapped.offsets.commit_pending(request, producer_id, producer_epoch)
        )

    def fetch(self, request: OffsetFetch) -> FetchedOffsets:
        return cast("FetchedOffsets", self.wrapped.offsets.fetch(request))

    def fetch_in_steps(self, request: OffsetFetch) -> Generator[None, None, FetchedOffsets]:
        yield
        return self.fetch(request)

    def delete(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> CommitOutcome:
        return cast("CommitOutcome", self.wrapped.offsets.delete(group_id, partitions))


class ForgetsCommits(Forwarding):
    """Acknowledges what it has not committed."""

    def commit(self, request: OffsetCommit) -> CommitOutcome:
        return CommitOutcome([None] * len(request.offsets))


class CommitsTheOffsetBehind(Forwarding):
    """A consumer skips a record."""

    def commit(self, request: OffsetCommit) -> CommitOutcome:
        later = [each._replace(offset=each.offset + 1) for each in request.offsets]
        return super().commit(attrs.evolve(request, offsets=later))


class Blocks(Forwarding):
    def commit(self, request: OffsetCommit) -> CommitOutcome:
        time.sleep(0.3)
        return super().commit(request)


class CommitsOnlyForward(Forwarding):
    """Refuses to go back, silently."""

    def __init__(self, wrapped: Any) -> None:
        super().__init__(wrapped)
        self.highest: dict[tuple[str, str, int], int] = {}

    def commit(self, request: OffsetCommit) -> CommitOutcome:
        kept = []
        for each in request.offsets:
            key = request.group_id, each.topic, each.partition
            if each.offset > self.highest.get(key, -1):
                self.highest[key] = each.offset
                kept.append(each)
        return super().commit(attrs.evolve(request, offsets=kept))


class OneGroupForAll(Forwarding):
    """Mixes the offsets of groups."""

    def commit(self, request: OffsetCommit) -> CommitOutcome:
        return super().commit(attrs.evolve(request, group_id="all"))

    def fetch(self, request: OffsetFetch) -> FetchedOffsets:
        return super().fetch(attrs.evolve(request, group_id="all"))


class ReordersErrors(Forwarding):
    def commit(self, request: OffsetCommit) -> CommitOutcome:
        outcome = super().commit(request)
        return CommitOutcome(outcome.errors[::-1], outcome.wait)


class CommitsBeforeTheTransaction(Forwarding):
    """Makes offsets of an open transaction visible."""

    def commit_pending(self, request: OffsetCommit, producer_id: int, producer_epoch: int) -> CommitOutcome:
        return self.commit(request)


class DeletesNothing(Forwarding):
    def delete(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> CommitOutcome:
        return CommitOutcome([None] * len(partitions))


class NeverExpires(Forwarding):
    async def expire(self) -> None:
        pass


WRONG: dict[type[Forwarding], Callable[[Any, CoordinatorHarness], Awaitable[None]]] = {
    ForgetsCommits: Suite.test_offset_commit_is_returned_by_offset_fetch,
    CommitsTheOffsetBehind: Suite.test_offset_commit_is_returned_by_offset_fetch,
    CommitsOnlyForward: Suite.test_offset_commit_replaces_an_earlier_one,
    OneGroupForAll: Suite.test_offset_fetch_is_by_group,
    ReordersErrors: Suite.test_offset_commit_refuses_invalid_offsets_and_commits_the_rest,
    CommitsBeforeTheTransaction: partial(
        Suite.test_txn_offset_commit_becomes_visible_with_its_transaction, commit=True
    ),
    Blocks: Suite.test_no_commit_blocks_the_event_loop,
    DeletesNothing: Suite.test_offset_delete_deletes_only_named_partitions,
    NeverExpires: Suite.test_expire_offsets_after_the_retention,
}


@contextmanager
def plugin_of(wrong: type[Forwarding]) -> Generator[str]:
    """A plugin with the coordinator `wrong`; its module's name."""

    class Backend:
        name = "wrong"

        def create(self, broker: CoordinatorContext) -> Coordinator:
            return cast("Coordinator", wrong(broker.coordinator_backend("memory").create(broker)))

    @hookimpl
    def tidelog_group_coordinators() -> Sequence[CoordinatorBackend]:
        return [Backend()]

    module = ModuleType(f"coordinator_{wrong.__name__}")
    vars(module)["tidelog_group_coordinators"] = tidelog_group_coordinators
    sys.modules[module.__name__] = module
    try:
        yield module.__name__
    finally:
        del sys.modules[module.__name__]


RIGHT = nullcontext()
FAILS = pytest.raises((AssertionError, pytest.fail.Exception))


async def play(
    settings: Mapping[str, object],
    test: Callable[[Any, CoordinatorHarness], Awaitable[None]],
    suite: CoordinationConformance,
    outcome: AbstractContextManager[object],
) -> None:
    async with trio.open_nursery() as nursery:
        harness = CoordinatorHarness(settings, nursery)
        await harness.start()
        with outcome:
            await test(suite, harness)
        await harness.stop()


@pytest.mark.parametrize("wrong", WRONG)
async def test_coordination_conformance_finds_a_wrong_coordinator(wrong: type[Forwarding]) -> None:
    with plugin_of(wrong) as plugin:
        await play({"plugins": plugin, "coordinator": "wrong"}, WRONG[wrong], Suite(), FAILS)


async def test_coordination_conformance_finds_one_that_forgets_over_a_restart(tmp_path: Path) -> None:
    class Durable(CoordinationConformance, coordinator="memory", durable=True): ...

    settings = {"coordinator": "memory", "storage": "file", "log.dirs": str(tmp_path)}
    await play(settings, Suite.test_offset_commit_survives_a_restart, Durable(), FAILS)


async def test_coordination_conformance_passes_one_that_only_forwards() -> None:
    with plugin_of(Forwarding) as plugin:
        for test in WRONG.values():
            await play({"plugins": plugin, "coordinator": "wrong"}, test, Suite(), RIGHT)
