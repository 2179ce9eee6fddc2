"""What clients have used of their quotas, by a clock of the test."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection

import attrs
import pytest

from tidelog.kernel.errors import ThrottlingQuotaExceeded
from tidelog.kernel.metadata import ImageChange, MetadataDelta, MetadataImage
from tidelog.kernel.rates import SampleWindows
from tidelog.kernel.request import client_quotas
from tidelog.kernel.request.client_quotas import MAX_THROTTLE_MS, ClientQuotas
from tidelog.kernel.seams.quotas import ClientQuotaType, QuotaCallback, QuotaLimit
from tidelog.kernel.seams.requests import Principal

ALICE = Principal("User", "alice")
PRODUCE, FETCH, REQUEST = ClientQuotaType.PRODUCE, ClientQuotaType.FETCH, ClientQuotaType.REQUEST
MUTATION = ClientQuotaType.CONTROLLER_MUTATION


@attrs.define
class EachClient(QuotaCallback):
    """A limit for each client id, of the types that it is for."""

    per_second: float
    types: Collection[ClientQuotaType] = (*ClientQuotaType,)
    error: Exception | None = None

    def limit(self, quota_type: ClientQuotaType, principal: Principal, client_id: str) -> QuotaLimit | None:
        if self.error is not None:
            raise self.error
        return QuotaLimit(client_id, self.per_second) if client_id != "free" else None


@attrs.define
class Clients:
    """Quotas with a callback and a clock."""

    callback: EachClient
    now: float = 1000.0
    quotas: ClientQuotas = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        windows = SampleWindows(11, 1)
        self.quotas = ClientQuotas("mine", self.callback, windows, SampleWindows(2, 5), lambda: self.now)
        self.quotas.load(MetadataImage())

    def charge(self, amount: float, client_id: str = "c", quota_type: ClientQuotaType = PRODUCE) -> int:
        account = self.quotas.account(quota_type, ALICE, client_id)
        return 0 if account is None else account.charge(amount)


def test_charge_returns_the_throttle_time_in_milliseconds() -> None:
    clients = Clients(EachClient(10.0))
    assert clients.charge(100) == 0
    assert clients.charge(1) == 100
    # Another client and another type have what they had.
    assert clients.charge(100, "other") == clients.charge(100, quota_type=FETCH) == 0
    assert clients.charge(1e9, "free") == 0
    clients.now += 11
    assert clients.charge(100) == 0


def test_a_refund_takes_back_what_was_charged() -> None:
    clients = Clients(EachClient(10.0))
    account = clients.quotas.account(FETCH, ALICE, "c")
    assert account is not None
    assert account.window_amount == 100
    assert account.charge(200) == 10_000
    account.refund(200)
    assert clients.charge(100, quota_type=FETCH) == 0


def test_a_client_without_a_client_id_has_an_empty_one() -> None:
    clients = Clients(EachClient(10.0))
    account = clients.quotas.account(PRODUCE, ALICE, None)
    assert account is not None
    assert account.charge(200) == clients.charge(0, "") == 10_000


def test_request_time_is_throttled_for_a_sample_at_most() -> None:
    clients = Clients(EachClient(1e-6))
    assert clients.charge(5, quota_type=REQUEST) == 1000


@pytest.mark.parametrize("limit", [0.0, -1.0, 1e-300, math.nan])
def test_a_limit_that_nothing_is_within_has_the_longest_throttle_time(limit: float) -> None:
    clients = Clients(EachClient(limit))
    assert clients.charge(1) == MAX_THROTTLE_MS
    assert clients.charge(1, quota_type=REQUEST) == 1000


def test_without_enforced_types_no_callback_is_asked() -> None:
    clients = Clients(EachClient(1.0, types=(), error=ZeroDivisionError()))
    assert clients.charge(1e9) == 0
    assert clients.quotas.mutations(ALICE, "c", strict=True) is None


async def test_listeners_are_called_when_other_types_are_enforced() -> None:
    clients, calls = Clients(EachClient(1.0, types=())), list[frozenset[ClientQuotaType]]()
    quotas = clients.quotas
    quotas.when_enforced_changes(lambda: calls.append(quotas.enforced))
    change = ImageChange(MetadataImage(), MetadataDelta(), MetadataImage())
    for types in ((), (PRODUCE,), (PRODUCE,), ()):
        clients.callback.types = types
        await quotas.follow(change)
    assert calls == [{PRODUCE}, frozenset()]


def test_an_error_of_a_callback_is_logged_once_and_limits_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clients = Clients(EachClient(1.0, error=ZeroDivisionError("no")))
    caplog.set_level(logging.ERROR)
    assert [clients.charge(1e9) for _ in range(3)] == [0, 0, 0]
    (record,) = caplog.records
    assert "the quota callback mine failed, so a request has no limit: ZeroDivisionError" in record.message


def test_rates_of_ever_new_client_ids_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_RATES", 100)
    clients = Clients(EachClient(10.0))
    assert clients.charge(200, "bystander") == 10_000
    for number in range(1000):
        assert clients.charge(100, f"id {number}") == 0
        # What is used is kept, however many others come.
        assert clients.charge(0, "bystander") > 0
    assert len(clients.quotas._measured) == 100  # pyright: ignore[reportPrivateUsage]
    clients.now += 11
    for number in range(1000, 1060):
        clients.charge(1, f"id {number}")
    assert len(clients.quotas._measured) == 60  # pyright: ignore[reportPrivateUsage]


def test_strict_mutations_are_refused_once_the_quota_is_used_up() -> None:
    clients = Clients(EachClient(2.0))
    account = clients.quotas.mutations(ALICE, "c", strict=True)
    assert account is not None
    # The bucket holds 20; the last one may take more than there is.
    account.charge(15)
    account.charge(15)
    assert account.throttle_ms == 0
    with pytest.raises(ThrottlingQuotaExceeded, match=r"The throttling quota has been exceeded\."):
        account.charge(1)
    assert account.throttle_ms == 5000
    clients.now += 2
    assert account.throttle_ms == 3000
    clients.now += 3
    later = clients.quotas.mutations(ALICE, "c", strict=True)
    assert later is not None
    later.charge(1)
    assert later.throttle_ms == 0


def test_permissive_mutations_are_throttled_and_never_refused() -> None:
    clients = Clients(EachClient(2.0))
    account = clients.quotas.mutations(ALICE, "c", strict=False)
    assert account is not None
    account.charge(20)
    assert account.throttle_ms == 0
    account.charge(10)
    assert account.throttle_ms == 5000
    account.charge(10)
    assert account.throttle_ms == 10_000
    assert clients.quotas.mutations(ALICE, "free", strict=True) is None
