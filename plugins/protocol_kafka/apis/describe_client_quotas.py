"""DescribeClientQuotas (API 48): the quotas of the entities that match a filter."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from tidelog.kernel.errors import BrokerError, InvalidRequest, UnsupportedVersion
from tidelog.kernel.metadata.client_quotas import CLIENT_ID, IP, USER, QuotaFilter
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasEntity,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    ValueData,
)

EXACT, DEFAULT, ANY = 0, 1, 2
MATCH_TYPES = {EXACT: "MATCH_TYPE_EXACT", DEFAULT: "MATCH_TYPE_DEFAULT", ANY: "MATCH_TYPE_SPECIFIED"}

_OF_FEW: Final = (
    "connection_creation_rate",
    "consumer_byte_rate",
    "controller_mutation_rate",
    "request_percentage",
    "producer_byte_rate",
)
_OF_FOUR: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "controller_mutation_rate",
    "request_percentage",
)


async def handle(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the entities that match with all their quotas; a filter without components matches any."""
    try:
        wanted = _filter(request)
    except BrokerError as error:
        return DescribeClientQuotasResponse(
            error_code=error_code(error), error_message=context.error_message(error), entries=None
        )
    entries: list[DescribeClientQuotasEntry] = []
    pace = Pace()
    for entity, quotas in context.broker.image.quotas.items():
        if wanted.matches(entity):
            parts = sorted(entity, key=lambda part: part[0])
            keys = sorted(quotas, key=_order(quotas))
            entries.append(
                DescribeClientQuotasEntry(
                    entity=[
                        DescribeClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in parts
                    ],
                    values=[ValueData(key=key, value=quotas[key]) for key in keys],
                )
            )
        await pace.turn()
    # As in Kafka, whose message of a success is empty and not null.
    return DescribeClientQuotasResponse(error_code=0, error_message="", entries=entries)


def _order(quotas: Collection[str]) -> Callable[[str], int]:
    """Return the order of Kafka, which clients may compare: that of its hash table for so many keys."""
    order = _OF_FOUR if len(quotas) >= len(_OF_FOUR) else _OF_FEW
    return lambda key: order.index(key) if key in order else len(order)


def _filter(request: DescribeClientQuotasRequest) -> QuotaFilter:
    names: dict[str, str | None] = {}
    types: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        _check(component)
        if kind in names or kind in types:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if component.match_type == ANY:
            types.add(kind)
        else:
            names[kind] = component.match
    if IP in names.keys() | types and len(names) + len(types) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component."
        )
    return QuotaFilter(names, frozenset(types), request.strict)


def _check(component: ComponentData) -> None:
    kind = component.entity_type
    if not kind:
        raise InvalidRequest("Invalid empty entity type.")
    if kind not in (USER, CLIENT_ID, IP):
        raise UnsupportedVersion(f"Unsupported entity type {kind}")
    match = MATCH_TYPES.get(component.match_type)
    if match is None:
        raise InvalidRequest(f"Unknown match type {component.match_type}")
    if component.match_type == EXACT and component.match is None:
        raise InvalidRequest(f"Request specified {match}, but set match string to null.")
    if component.match_type != EXACT and component.match is not None:
        raise InvalidRequest(f"Request specified {match}, but also specified a match string.")
