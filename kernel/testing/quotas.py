"""Conformance of quota callbacks: a suite for each that `client.quota.callback.class` can name.

    class TestMyQuotas(QuotaCallbackConformance, plugin=my_plugin): ...

It asks for clients of all kinds, while quotas are set, changed and removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any, ClassVar, Final

import attrs
import pytest

from tidelog.kernel.config import Config
from tidelog.kernel.metadata import ImageChange, MetadataDelta, MetadataImage
from tidelog.kernel.metadata.client_quotas import CLIENT_ID, USER, QuotasByEntity
from tidelog.kernel.seams.quotas import (
    ClientQuotaType,
    QuotaCallback,
    QuotaCallbackContext,
    QuotaLimit,
)
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.testing.installed import with_installed_keys

PRINCIPALS: Final = (
    ANONYMOUS,
    *(Principal("User", name) for name in ("alice", "bob.batch", "", "*", "a:b", "ordérs\u202e", "x" * 1000)),
    Principal("Group", "alice"),
)
CLIENT_IDS: Final = ("", "shop", "*", "a/b", "\u202e\n", "x" * 1000)
MOST_SECONDS: Final = 0.01
"""A question takes at most as long, at best of three times: each request waits for it."""
RATES: Final = {kind.value: 1000.0 for kind in ClientQuotaType}
QUOTAS: Final[QuotasByEntity] = {
    frozenset({(USER, "alice")}): RATES,
    frozenset({(USER, None)}): {ClientQuotaType.PRODUCE.value: 10.0},
    frozenset({(CLIENT_ID, "shop")}): {ClientQuotaType.FETCH.value: 20.0},
    frozenset({(USER, "bob.batch"), (CLIENT_ID, None)}): {ClientQuotaType.REQUEST.value: 50.0},
}
EMPTY: Final = MetadataImage()


def image_of_quotas(quotas: QuotasByEntity) -> MetadataImage:
    """Return an image in which these quotas are set."""
    return MetadataDelta(quotas=quotas).apply(EMPTY)


class QuotaCallbackConformance:
    """Everything that the kernel relies on; `plugin` is the module with the hook of the callback to prove.

    `callback_name` chooses one where the plugin offers several, `settings` are keys of the configuration.
    """

    plugin: ClassVar[ModuleType]
    callback_name: ClassVar[str | None] = None
    settings: ClassVar[Mapping[str, object]] = {}

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    def images(self) -> Sequence[MetadataImage]:
        """Return images, each of which makes a difference to the callback; by default some have quotas."""
        return [EMPTY, image_of_quotas(QUOTAS), image_of_quotas(dict(list(QUOTAS.items())[:1]))]

    def created(self, image: MetadataImage = EMPTY) -> QuotaCallback:
        """Return a new callback that has loaded an image."""
        offered = [
            each for each in self.plugin.tidelog_quota_callbacks() if self.callback_name in (None, each.name)
        ]
        (backend,) = offered
        own = list(self.plugin.tidelog_config_keys()) if hasattr(self.plugin, "tidelog_config_keys") else []
        config = Config.from_mapping({"storage": "memory", **self.settings}, with_installed_keys(own))
        callback: QuotaCallback = backend.create(QuotaCallbackContext(config))
        callback.load(image)
        return callback

    def test_types_are_those_of_quotas(self) -> None:
        for image in self.images():
            assert set(self.created(image).types) <= set(ClientQuotaType)

    def test_limits_are_positive_and_shared_by_something_hashable(self) -> None:
        for image in self.images():
            for _, limit in _answers(self.created(image)):
                if limit is None:
                    continue
                assert isinstance(limit, QuotaLimit), f"{limit!r} is no QuotaLimit"
                assert math.isfinite(limit.per_second), f"{limit.per_second} is no limit"
                assert limit.per_second > 0, f"{limit.per_second} per second is none: return None"
                hash(limit.shared_by)

    def test_the_same_client_has_the_same_limit(self) -> None:
        for image in self.images():
            callback = self.created(image)
            assert list(_answers(callback)) == list(_answers(callback))

    def test_no_limit_has_a_type_that_is_not_asked_for(self) -> None:
        for image in self.images():
            callback = self.created(image)
            for (kind, principal, client_id), limit in _answers(callback):
                assert limit is None or kind in callback.types, (
                    f"{principal} with {client_id[:20]!r} has a limit of {kind}, which is not among its types"
                )

    def test_those_who_share_a_limit_have_the_same_one(self) -> None:
        for image in self.images():
            rates: dict[object, float] = {}
            for (kind, *_), limit in _answers(self.created(image)):
                if limit is not None:
                    assert rates.setdefault((kind, limit.shared_by), limit.per_second) == limit.per_second

    def test_load_replaces_what_was_loaded_before(self) -> None:
        for first in self.images():
            for second in self.images():
                callback = self.created(first)
                callback.load(second)
                assert _state(callback) == _state(self.created(second))

    @pytest.mark.trio
    async def test_follow_leads_where_load_does(self) -> None:
        for before in self.images():
            for after in self.images():
                callback = self.created(before)
                gone: dict[Any, Any] = {entity: {} for entity in before.quotas if entity not in after.quotas}
                delta = MetadataDelta(quotas={**gone, **after.quotas})
                await callback.follow(ImageChange(before, delta, after))
                assert _state(callback) == _state(self.created(after))

    @pytest.mark.trio
    async def test_changes_of_something_else_change_nothing(self) -> None:
        for image in self.images():
            callback = self.created(image)
            delta = MetadataDelta(next_producer_id=7)
            await callback.follow(ImageChange(image, delta, attrs.evolve(image, next_producer_id=7)))
            assert _state(callback) == _state(self.created(image))

    def test_two_of_a_kind_share_nothing(self) -> None:
        one, other = self.created(self.images()[0]), self.created(self.images()[-1])
        assert _state(one) == _state(self.created(self.images()[0]))
        assert _state(other) == _state(self.created(self.images()[-1]))

    def test_no_question_blocks_the_event_loop(self) -> None:
        for image in self.images():
            callback = self.created(image)
            assert min(_longest_question(callback) for _ in range(3)) <= MOST_SECONDS


Asked = tuple[ClientQuotaType, Principal, str]


def _answers(callback: QuotaCallback) -> Iterator[tuple[Asked, QuotaLimit | None]]:
    for kind in ClientQuotaType:
        for principal in PRINCIPALS:
            for client_id in CLIENT_IDS:
                yield (kind, principal, client_id), callback.limit(kind, principal, client_id)


def _state(callback: QuotaCallback) -> tuple[frozenset[ClientQuotaType], Sequence[object]]:
    return frozenset(callback.types), list(_answers(callback))


def _longest_question(callback: QuotaCallback) -> float:
    longest, before = 0.0, perf_counter()
    for _ in _answers(callback):
        now = perf_counter()
        longest, before = max(longest, now - before), now
    return longest
