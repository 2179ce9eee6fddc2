"""Client quotas: which entities and keys there are, and which values.

Source: Apache Kafka 4.4's `QuotaConfig` and the controller's checks of AlterClientQuotas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

import trio

from tidelog.kernel.errors import BrokerError, InvalidRequest
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.client_quotas import CLIENT_ID, IP, USER, QuotaEntity
from tidelog.kernel.pace import Pace

LOOKUP_SECONDS: Final = 5
"""How long one request may wait for the names of hosts."""
FRACTION: Final = 1e-6
"""How far the value of a whole number may be from one."""


class _Whole(NamedTuple):
    """Quota that is a whole number: Kafka's name of its type, and the largest value."""

    name: str
    largest: int


_INT: Final = _Whole("INT", 2**31 - 1)
_LONG: Final = _Whole("LONG", 2**63 - 1)

_OF_CLIENTS: Final[Mapping[str, _Whole | None]] = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_ADDRESSES: Final[Mapping[str, _Whole | None]] = {"connection_creation_rate": _INT}
_TYPES: Final = (USER, CLIENT_ID, IP)


QuotaAlterations: TypeAlias = Mapping[QuotaEntity, Mapping[str, float | None]]


async def decide_client_quotas(
    image: MetadataImage, alterations: QuotaAlterations
) -> tuple[MetadataDelta, Mapping[QuotaEntity, BrokerError]]:
    """Return the change that sets quotas, or removes those that are None, and why entities are refused."""
    refused: dict[QuotaEntity, BrokerError] = {}
    changed: dict[QuotaEntity, Mapping[str, float]] = {}
    pace, hosts = Pace(), _Hosts()
    for entity, quotas in alterations.items():
        try:
            await _check(entity, quotas, hosts)
        except InvalidRequest as error:
            refused[entity] = error
        else:
            after = {**image.quotas.get(entity, {}), **quotas}
            changed[entity] = {key: value for key, value in after.items() if value is not None}
        await pace.turn()
    return MetadataDelta(quotas=changed), refused


class _Hosts:
    """Lookups of host names for one request, which together have `LOOKUP_SECONDS`."""

    def __init__(self) -> None:
        self._deadline = trio.current_time() + LOOKUP_SECONDS

    async def resolves(self, name: str) -> bool:
        """Return whether it is an address, or a name that resolves to one."""
        with trio.move_on_at(self._deadline):
            try:
                return bool(await trio.socket.getaddrinfo(name, None))
            except (OSError, UnicodeError):
                return False
        return False


async def _check(entity: QuotaEntity, quotas: Mapping[str, float | None], hosts: _Hosts) -> None:
    keys = await _keys_of(entity, hosts)
    for key, value in quotas.items():
        if value is not None:
            if key not in keys:
                raise InvalidRequest(f"Invalid configuration key {key}")
            _check_value(key, value, keys[key])


async def _keys_of(entity: QuotaEntity, hosts: _Hosts) -> Mapping[str, _Whole | None]:
    """Return the keys that an entity can have.

    Raises:
        InvalidRequest: there can be no such entity.
    """
    for kind, name in entity:
        if kind not in _TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    parts = dict(entity)
    if not parts:
        raise InvalidRequest("Invalid empty client quota entity")
    if IP not in parts:
        return _OF_CLIENTS
    if len(parts) > 1:
        raise InvalidRequest(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )
    address = parts[IP]
    if address is not None and not await hosts.resolves(address):
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _check_value(key: str, value: float, whole: _Whole | None) -> None:
    if not math.isfinite(value):
        raise InvalidRequest(f"Quota {key} must be a finite number")
    if value <= 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if whole is None:
        return
    if value > float(whole.largest):
        article = "an" if whole is _INT else "a"
        raise InvalidRequest(f"Proposed value for {key} is too large for {article} {whole.name}.")
    if abs(int(value + FRACTION) - value) > FRACTION:
        raise InvalidRequest(f"{key} cannot be a fractional value.")
