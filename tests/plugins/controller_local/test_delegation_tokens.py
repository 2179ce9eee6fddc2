"""Delegation tokens: how long they last, what they may be, and when they are removed."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.tables import for_each
from tidelog.kernel.config import Config
from tidelog.kernel.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    InvalidRequest,
    PolicyViolation,
)
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage, NewDelegationToken, token_hmac
from tidelog.kernel.testing import FakeClock
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.controller_local import delegation_tokens
from tidelog.plugins.controller_local.delegation_tokens import DelegationTokenRules

SECRET, ALICE = "secret", "User:alice"
NEW = NewDelegationToken(ALICE, ALICE)
HOUR_MS = 3_600_000
SETTINGS = {
    "storage": "memory",
    "delegation.token.secret.key": SECRET,
    "delegation.token.max.lifetime.ms": 10 * HOUR_MS,
    "delegation.token.expiry.time.ms": HOUR_MS,
}


def rules(clock: FakeClock, **settings: object) -> DelegationTokenRules:
    """Rules with some settings, by names with underscores."""
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    return DelegationTokenRules(Config.from_mapping({**SETTINGS, **changed}), clock)


@for_each(
    ("lifetime_ms", "max_ms", "expires_ms"),
    [
        (-1, 10 * HOUR_MS, HOUR_MS),
        (0, 10 * HOUR_MS, HOUR_MS),
        (2**63 - 1, 10 * HOUR_MS, HOUR_MS),
        (2 * HOUR_MS, 2 * HOUR_MS, HOUR_MS),
        (1, 1, 1),
    ],
)
async def test_a_token_lasts_as_long_as_is_asked_for_and_permitted(
    lifetime_ms: int, max_ms: int, expires_ms: int
) -> None:
    clock = FakeClock(1000)
    new = NEW._replace(max_lifetime_ms=lifetime_ms)
    _, _, token = await rules(clock).decide_creation(MetadataImage(), new)
    assert (token.issued_ms, token.max_ms, token.expires_ms) == (1000, 1000 + max_ms, 1000 + expires_ms)


async def test_times_end_with_those_of_the_protocol() -> None:
    endless = rules(FakeClock(1000), delegation_token_max_lifetime_ms=2**63 - 1)
    _, _, token = await endless.decide_creation(MetadataImage(), NEW)
    assert token.max_ms == 2**63 - 1


async def test_a_token_is_found_after_others_were_added_and_removed() -> None:
    clock = FakeClock(0)
    decided, image, ids = rules(clock), MetadataImage(), list[str]()
    for _ in range(3):
        delta, token_id, _ = await decided.decide_creation(image, NEW)
        image = delta.apply(image)
        ids.append(token_id)
        delta, _ = await decided.decide_renewal(image, token_hmac(SECRET, token_id), ALICE, HOUR_MS // 2)
        image = delta.apply(image)
    delta, _ = await decided.decide_expiry(image, token_hmac(SECRET, ids[0]), ALICE, -1)
    image = delta.apply(image)
    assert [*image.tokens] == ids[1:]
    assert {token.expires_ms for token in image.tokens.values()} == {HOUR_MS // 2}
    clock.advance(HOUR_MS)
    with pytest.raises(DelegationTokenExpired):
        await decided.decide_renewal(image, token_hmac(SECRET, ids[1]), ALICE, -1)
    assert (await decided.decide_removal(image)).tokens == dict.fromkeys(ids[1:])


@for_each("secret", [None, ""])
async def test_without_a_secret_there_are_no_tokens(secret: str | None) -> None:
    settings = {name: value for name, value in SETTINGS.items() if "secret" not in name}
    given = {} if secret is None else {"delegation.token.secret.key": secret}
    disabled = DelegationTokenRules(Config.from_mapping({**settings, **given}), FakeClock(0))
    with pytest.raises(DelegationTokenAuthDisabled, match=r"delegation\.token\.secret\.key is not set"):
        await disabled.decide_creation(MetadataImage(), NEW)
    with pytest.raises(DelegationTokenAuthDisabled):
        await disabled.decide_renewal(MetadataImage(), b"", ALICE, 1)


async def test_a_requester_has_a_limited_number_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS_OF_REQUESTER", 2)
    token = DelegationTokenImage(ALICE, ALICE, (), 0, 1, 1)
    image = MetadataDelta(tokens={"a": token, "b": token}).apply(MetadataImage())
    decided = rules(FakeClock(0))
    with pytest.raises(PolicyViolation, match="User:alice has 2 delegation tokens"):
        await decided.decide_creation(image, NEW)
    await decided.decide_creation(image, NEW._replace(requester="User:bob"))
    with pytest.raises(InvalidRequest, match="at most 1000 renewers"):
        await decided.decide_creation(MetadataImage(), NEW._replace(renewers=(ALICE,) * 1001))


async def test_the_broker_removes_tokens_that_have_expired(autojump_clock: MockClock) -> None:
    clock = FakeClock(0)
    settings = {**SETTINGS, "delegation.token.expiry.check.interval.ms": 1000}
    async with running_broker(settings, clock=clock) as broker:
        short, _ = await broker.controller.create_delegation_token(NEW._replace(max_lifetime_ms=500))
        long, _ = await broker.controller.create_delegation_token(NEW)
        await trio.sleep(1.5)
        assert {*broker.image.tokens} == {short, long}
        clock.advance(501)
        await trio.sleep(1)
        assert {*broker.image.tokens} == {long}
