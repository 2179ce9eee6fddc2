"""The suite of controllers finds each wrong one."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import ModuleType
from typing import Any, cast

import pytest

from tidelog.kernel import hookimpl
from tidelog.kernel.broker import Broker
from tidelog.kernel.config import Alter
from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.metadata.acls import AclEntry, AclFilter
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.seams.controller import Controller, ControllerBackend, ControllerContext, TopicSpec
from tidelog.kernel.seams.features import FeatureUpdate
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.controller import EVERYTHING, ControllerConformance


class Suite(ControllerConformance, controller="wrong"): ...


class Forwarding:
    """A controller that forwards to `local`; subclasses do one thing wrong."""

    def __init__(self, wrapped: Controller, context: ControllerContext) -> None:
        self.wrapped = wrapped
        self.context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


class Reorders(Forwarding):
    """Returns results in another order than that of the request."""

    async def create_topics(self, wanted: Sequence[TopicSpec]) -> Sequence[object]:
        return list(await self.wrapped.create_topics(wanted))[::-1]


class Blocks(Forwarding):
    async def create_topics(self, wanted: Sequence[TopicSpec]) -> Sequence[object]:
        time.sleep(0.3)  # noqa: ASYNC251 - that is the fault
        return await self.wrapped.create_topics(wanted)


class ChecksNothing(Forwarding):
    def check_partitions(self, name: str, count: int) -> int:
        return max(count - 1, 0)


class ReportsSuccess(Forwarding):
    """Acknowledges a deletion that was not done."""

    async def delete_topics(self, names: Sequence[str]) -> Sequence[BrokerError | None]:
        return [None] * len(names)


class AcknowledgesEarly(Forwarding):
    """Answers before the broker has applied what was decided, or could not be made durable."""

    async def alter_broker_config(
        self, node_id: int | None, alter: Alter, *, validate_only: bool = False
    ) -> None:
        with suppress(StorageError):
            await self.wrapped.alter_broker_config(node_id, alter, validate_only=validate_only)


class NeverOnlyValidates(Forwarding):
    async def alter_topic_configs(
        self, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        return await self.wrapped.alter_topic_configs(changes)


class OnePartitionLess(Forwarding):
    async def create_partitions(self, wanted: Sequence[tuple[str, int]]) -> Sequence[BrokerError | None]:
        return await self.wrapped.create_partitions([(name, max(count - 1, 1)) for name, count in wanted])


class SameIdsAgain(Forwarding):
    async def allocate_producer_ids(self, count: int) -> range:
        await self.wrapped.allocate_producer_ids(count)
        return range(count)


class KeepsQuotas(Forwarding):
    """Removes no value."""

    async def alter_client_quotas(
        self, alterations: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> Mapping[QuotaEntity, BrokerError]:
        kept = {
            entity: {key: value for key, value in values.items() if value is not None}
            for entity, values in alterations.items()
        }
        return await self.wrapped.alter_client_quotas(kept, validate_only=validate_only)


class ChangesSomeLevels(Forwarding):
    """Changes the levels that it can change, and refuses the others afterwards."""

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        for update in updates:
            await self.wrapped.update_features([update], validate_only=validate_only)


class DeletesEveryEntry(Forwarding):
    async def delete_acls(self, filters: Sequence[AclFilter]) -> Sequence[Sequence[AclEntry] | BrokerError]:
        return await self.wrapped.delete_acls([EVERYTHING] * len(filters))


class AddsAnyEntry(Forwarding):
    """Does not validate what it adds."""

    async def create_acls(self, entries: Sequence[AclEntry]) -> Sequence[BrokerError | None]:
        await self.wrapped.create_acls(entries)
        return [None] * len(entries)


WRONG: dict[type[Forwarding], Callable[[Any, Broker], Awaitable[None]]] = {
    Reorders: Suite.test_create_topics_returns_each_topic_or_why_there_is_none,
    ChecksNothing: Suite.test_check_topic_and_check_partitions_change_nothing,
    ReportsSuccess: Suite.test_delete_topics_frees_their_names,
    NeverOnlyValidates: Suite.test_alter_topic_configs_replaces_settings_unless_it_only_validates,
    OnePartitionLess: Suite.test_create_partitions_adds_them_behind_those_that_are_there,
    SameIdsAgain: Suite.test_allocate_producer_ids_returns_each_id_once,
    KeepsQuotas: Suite.test_alter_client_quotas_sets_and_removes_values,
    ChangesSomeLevels: Suite.test_update_features_changes_all_levels_or_none,
    Blocks: Suite.test_no_change_blocks_the_event_loop,
    DeletesEveryEntry: Suite.test_delete_acls_returns_what_each_filter_matched,
    AddsAnyEntry: Suite.test_create_acls_adds_each_entry_once_or_returns_why_not,
}


@contextmanager
def plugin_of(wrong: type[Forwarding]) -> Generator[str]:
    """A plugin with the controller `wrong`; its module's name."""

    class Backend:
        name = "wrong"

        def create(self, context: ControllerContext) -> Controller:
            return cast("Controller", wrong(context.backend("local").create(context), context))

    @hookimpl
    def tidelog_controllers() -> Sequence[ControllerBackend]:
        return [Backend()]

    module = ModuleType(f"controller_{wrong.__name__}")
    vars(module)["tidelog_controllers"] = tidelog_controllers
    sys.modules[module.__name__] = module
    try:
        yield module.__name__
    finally:
        del sys.modules[module.__name__]


RIGHT = nullcontext()
FAILS = pytest.raises((AssertionError, BrokerError, pytest.fail.Exception))


async def play(
    wrong: type[Forwarding],
    test: Callable[[Any, Broker], Awaitable[None]],
    outcome: AbstractContextManager[object],
) -> None:
    with plugin_of(wrong) as plugin:
        settings = {"plugins": plugin, "controller": "wrong", "delegation.token.secret.key": "secret"}
        async with running_broker(settings) as broker:
            with outcome:
                await test(Suite(), broker)


@pytest.mark.parametrize("wrong", WRONG)
async def test_controller_conformance_finds_a_wrong_controller(wrong: type[Forwarding]) -> None:
    await play(wrong, WRONG[wrong], FAILS)


async def test_controller_conformance_passes_one_that_only_forwards() -> None:
    for test in WRONG.values():
        await play(Forwarding, test, RIGHT)


async def test_controller_conformance_finds_one_that_hides_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    async def with_patches(suite: ControllerConformance, broker: Broker) -> None:
        await suite.test_what_cannot_be_made_durable_changes_nothing(broker, monkeypatch)

    await play(AcknowledgesEarly, with_patches, FAILS)
    await play(Forwarding, with_patches, RIGHT)
