"""The quota callback `standard`: which of the quotas that are set counts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from tidelog.kernel.metadata import ImageChange, MetadataDelta, MetadataImage
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.metadata.persistent_map import PersistentMap
from tidelog.kernel.seams.quotas import ClientQuotaType, QuotaLimit
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.testing.broker import new_broker
from tidelog.plugins.quotas.standard import StandardQuotas

ALICE = Principal("User", "alice")
PRODUCE = ClientQuotaType.PRODUCE
RATE = PRODUCE.value
BOTH, USER, CLIENT = ("alice", "c"), ("alice", ""), ("", "c")
PRECEDENCE: list[tuple[dict[str, str | None], tuple[str, str]]] = [
    ({"user": "alice", "client-id": "c"}, BOTH),
    ({"user": "alice", "client-id": None}, BOTH),
    ({"user": "alice"}, USER),
    ({"user": None, "client-id": "c"}, BOTH),
    ({"user": None, "client-id": None}, BOTH),
    ({"user": None}, USER),
    ({"client-id": "c"}, CLIENT),
    ({"client-id": None}, CLIENT),
]
"""The documented order: the entity, and who uses its quota up together."""


def entity(**parts: str | None) -> QuotaEntity:
    """An entity; `client_id` is its type client-id."""
    return frozenset((kind.replace("_", "-"), name) for kind, name in parts.items())


def image_of(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> MetadataImage:
    return MetadataImage(quotas=PersistentMap(quotas))


def standard(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> StandardQuotas:
    callback = StandardQuotas()
    callback.load(image_of(quotas))
    return callback


def test_limit_is_that_of_the_most_specific_quota_in_kafkas_order() -> None:
    """For each subset of the eight levels, each with a value of its own."""
    for chosen in itertools.product([False, True], repeat=len(PRECEDENCE)):
        levels = [(number, level) for number, level in enumerate(PRECEDENCE, 1) if chosen[number - 1]]
        callback = standard({frozenset(parts.items()): {RATE: float(n)} for n, (parts, _) in levels})
        wanted = QuotaLimit(levels[0][1][1], float(levels[0][0])) if levels else None
        assert callback.limit(PRODUCE, ALICE, "c") == wanted
        assert set(callback.types) == ({PRODUCE} if levels else set())


def test_a_client_without_a_client_id_has_only_the_quotas_of_its_user() -> None:
    everything = {frozenset(parts.items()): {RATE: float(n)} for n, (parts, _) in enumerate(PRECEDENCE, 1)}
    assert standard(everything).limit(PRODUCE, ALICE, "") == QuotaLimit(USER, 3.0)
    del everything[entity(user="alice")]
    assert standard(everything).limit(PRODUCE, ALICE, "") == QuotaLimit(USER, 6.0)
    del everything[entity(user=None)]
    assert standard(everything).limit(PRODUCE, ALICE, "") is None


def test_a_quota_of_one_type_hides_no_other_type() -> None:
    quotas = {entity(user="alice"): {RATE: 1.0}, entity(user=None): {"consumer_byte_rate": 2.0}}
    callback = standard(quotas)
    assert callback.limit(ClientQuotaType.FETCH, ALICE, "c") == QuotaLimit(USER, 2.0)
    assert callback.limit(ClientQuotaType.REQUEST, ALICE, "c") is None
    assert set(callback.types) == {PRODUCE, ClientQuotaType.FETCH}


@pytest.mark.parametrize("odd", ["<default>", "*", "a/b", "\u202e", "%20", "C"])
def test_odd_names_are_names(odd: str) -> None:
    callback = standard({entity(user=odd): {RATE: 1.0}, entity(client_id=odd): {RATE: 2.0}})
    assert callback.limit(PRODUCE, Principal("User", odd), "x") == QuotaLimit((odd, ""), 1.0)
    assert callback.limit(PRODUCE, ALICE, odd) == QuotaLimit(("", odd), 2.0)
    assert callback.limit(PRODUCE, ALICE, "c") is None


def test_quotas_of_addresses_limit_no_requests() -> None:
    assert not standard({entity(ip=None): {"connection_creation_rate": 1.0, RATE: 1.0}}).types


async def test_follow_sets_and_removes_what_a_change_is_about() -> None:
    kept, changed = entity(user="bob"), entity(user="alice")
    callback = standard({kept: {RATE: 1.0}, changed: {RATE: 2.0, "request_percentage": 3.0}})
    for values in ({"request_percentage": 4.0}, {}):
        image = image_of({kept: {RATE: 1.0}, **({changed: values} if values else {})})
        await callback.follow(ImageChange(MetadataImage(), MetadataDelta(quotas={changed: values}), image))
        assert callback.limit(PRODUCE, ALICE, "c") is None
    assert callback.types == [PRODUCE]
    assert callback.limit(PRODUCE, Principal("User", "bob"), "c") == QuotaLimit(("bob", ""), 1.0)


def test_an_empty_client_quota_callback_class_enforces_nothing() -> None:
    assert new_broker({"client.quota.callback.class": ""}).client_quotas is None
    assert new_broker().client_quotas is not None
