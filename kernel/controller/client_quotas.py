"""Client quotas, stored in the metadata: which entities and keys there are, and which values.

Source: Apache Kafka 4.4's `QuotaConfig` and the controller's checks of AlterClientQuotas.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from tidelog.kernel.errors import BrokerError, InvalidRequest, StorageError
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.client_quotas import CLIENT_ID, IP, USER, QuotaChange, QuotaEntity

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import MetadataStore

_log = logging.getLogger(__name__)

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


class ClientQuotas:
    """The quotas of the cluster; see `tidelog.kernel.seams.client_quotas`."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self.revision = 0

    def all(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Return a view of the quotas of each entity."""
        return self._metadata.client_quotas()

    async def alter(
        self, alterations: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> Mapping[QuotaEntity, BrokerError]:
        """Change quotas, durably; return the errors of entities that are refused."""
        refused: dict[QuotaEntity, BrokerError] = {}
        changes: list[QuotaChange] = []
        pace, hosts = Pace(), _Hosts()
        for entity, quotas in alterations.items():
            try:
                await _check(entity, quotas, hosts)
            except InvalidRequest as error:
                refused[entity] = error
            else:
                changes += (QuotaChange(entity, key, value) for key, value in quotas.items())
            await pace.turn()
        if changes and not validate_only:
            await self._write(changes)
        return refused

    async def _write(self, changes: list[QuotaChange]) -> None:
        try:
            await self._metadata.alter_client_quotas(changes)
        except (OSError, StorageError) as error:
            raise StorageError(f"client quotas cannot be changed: {error}") from error
        finally:
            self.revision += 1
        _log.info("changed client quotas of %d entities", len({change.entity for change in changes}))


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
