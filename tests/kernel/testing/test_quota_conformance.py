"""The suite of quota callbacks: the callback `standard` passes it, and it finds each wrong one."""

from __future__ import annotations

import inspect
import time
from collections.abc import Collection, Hashable
from types import ModuleType
from typing import Any

import pytest

from tests.tables import for_each
from tidelog.kernel.metadata import ImageChange, MetadataImage
from tidelog.kernel.metadata.client_quotas import USER
from tidelog.kernel.seams.quotas import ClientQuotaType, QuotaCallback, QuotaCallbackContext, QuotaLimit
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.testing.quotas import QuotaCallbackConformance as Suite
from tidelog.plugins.quotas import plugin as quotas

PRODUCE = ClientQuotaType.PRODUCE


class TestStandard(Suite, plugin=quotas): ...


class ByUser(QuotaCallback):
    """A right callback: the quota of the user, of what is produced alone."""

    types: Collection[ClientQuotaType] = (PRODUCE,)

    def __init__(self) -> None:
        self.rates: dict[str, float] = {}

    def load(self, image: MetadataImage) -> None:
        self.rates = {}
        self.take(image)

    def take(self, image: MetadataImage) -> None:
        for entity, values in image.quotas.items():
            if len(entity) == 1 and (name := dict(entity).get(USER)) and PRODUCE.value in values:
                self.rates[name] = values[PRODUCE.value]

    async def follow(self, change: ImageChange) -> None:
        self.load(change.image)

    def rate(self, kind: ClientQuotaType, name: str) -> float | None:
        return self.rates.get(name) if kind is PRODUCE else None

    def shared_by(self, name: str, client_id: str) -> Hashable:
        return name

    def limit(self, quota_type: ClientQuotaType, principal: Principal, client_id: str) -> QuotaLimit | None:
        rate = self.rate(quota_type, principal.name)
        return None if rate is None else QuotaLimit(self.shared_by(principal.name, client_id), rate)


class LimitsWhatIsNotAmongItsTypes(ByUser):
    types: Collection[ClientQuotaType] = (ClientQuotaType.FETCH,)


class TypesAreTexts(ByUser):
    types: Any = ("producer_byte_rate",)


class ReturnsANumber(ByUser):
    def limit(self, quota_type: ClientQuotaType, principal: Principal, client_id: str) -> Any:
        return self.rate(quota_type, principal.name)


class NothingPerSecond(ByUser):
    def rate(self, kind: ClientQuotaType, name: str) -> float | None:
        return 0.0 if kind is PRODUCE else None


class EndlessRate(ByUser):
    def rate(self, kind: ClientQuotaType, name: str) -> float | None:
        return float("inf") if kind is PRODUCE else None


class SharedByAList(ByUser):
    def shared_by(self, name: str, client_id: str) -> Any:
        return [name]


class SharesUnequalLimits(ByUser):
    def rate(self, kind: ClientQuotaType, name: str) -> float | None:
        return 10.0 + len(name) if kind is PRODUCE else None

    def shared_by(self, name: str, client_id: str) -> Hashable:
        return "all"


class SharedByTheQuestion(ByUser):
    """Each request has a limit of its own, so that there is none."""

    def shared_by(self, name: str, client_id: str) -> Hashable:
        return object()


class FailsWithoutAClientId(ByUser):
    def shared_by(self, name: str, client_id: str) -> Hashable:
        return client_id[0]


class IgnoresChanges(ByUser):
    async def follow(self, change: ImageChange) -> None:
        return


class KeepsRemovedQuotas(ByUser):
    async def follow(self, change: ImageChange) -> None:
        self.take(change.image)


class LoadsOnTop(ByUser):
    def load(self, image: MetadataImage) -> None:
        self.take(image)


class ForgetsWithEachChange(ByUser):
    async def follow(self, change: ImageChange) -> None:
        self.rates = {}


class SharesItsTable(ByUser):
    rates: dict[str, float] = {}  # noqa: RUF012 - that is what is wrong

    def __init__(self) -> None:
        pass

    def load(self, image: MetadataImage) -> None:
        self.rates.clear()
        self.take(image)


class Blocks(ByUser):
    def rate(self, kind: ClientQuotaType, name: str) -> float | None:
        if name == "alice" and kind is PRODUCE:
            time.sleep(0.02)
        return super().rate(kind, name)


def plugin_of(callback: type[ByUser]) -> ModuleType:
    class Backend:
        name = "by-user"

        def create(self, context: QuotaCallbackContext) -> QuotaCallback:
            return callback()

    plugin: Any = ModuleType("by_user")
    plugin.tidelog_quota_callbacks = lambda: [Backend()]
    return plugin  # type: ignore[no-any-return]


async def prove(callback: type[ByUser], name: str) -> None:
    suite = type("Suite", (Suite,), {}, plugin=plugin_of(callback))()
    done = getattr(suite, name)()
    if inspect.isawaitable(done):
        await done


WRONG: dict[type[ByUser], str] = {
    LimitsWhatIsNotAmongItsTypes: "test_no_limit_has_a_type_that_is_not_asked_for",
    TypesAreTexts: "test_types_are_those_of_quotas",
    ReturnsANumber: "test_limits_are_positive_and_shared_by_something_hashable",
    NothingPerSecond: "test_limits_are_positive_and_shared_by_something_hashable",
    EndlessRate: "test_limits_are_positive_and_shared_by_something_hashable",
    SharedByAList: "test_limits_are_positive_and_shared_by_something_hashable",
    SharesUnequalLimits: "test_those_who_share_a_limit_have_the_same_one",
    SharedByTheQuestion: "test_the_same_client_has_the_same_limit",
    FailsWithoutAClientId: "test_limits_are_positive_and_shared_by_something_hashable",
    IgnoresChanges: "test_follow_leads_where_load_does",
    KeepsRemovedQuotas: "test_follow_leads_where_load_does",
    LoadsOnTop: "test_load_replaces_what_was_loaded_before",
    ForgetsWithEachChange: "test_changes_of_something_else_change_nothing",
    SharesItsTable: "test_two_of_a_kind_share_nothing",
    Blocks: "test_no_question_blocks_the_event_loop",
}


@for_each("wrong", list(WRONG), ids=lambda wrong: wrong.__name__)
async def test_quota_conformance_finds_a_wrong_callback(wrong: type[ByUser]) -> None:
    await prove(ByUser, WRONG[wrong])
    with pytest.raises((AssertionError, TypeError, IndexError)):
        await prove(wrong, WRONG[wrong])
