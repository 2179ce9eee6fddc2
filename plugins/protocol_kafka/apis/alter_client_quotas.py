"""AlterClientQuotas (API 49): set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

from collections import Counter

from tidelog.kernel.errors import BrokerError, InvalidRequest, StorageError
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResponseData,
)
from tidelog.plugins.schema.layout import FEW_ELEMENTS


async def handle(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change each entity independently: the error of one does not affect the others.

    An entity that is named twice is refused, with one result, and so is one with a key twice.
    """
    pace = Pace()
    entries: list[tuple[QuotaEntity, AlterClientQuotasEntry]] = []
    for entry in request.entries:
        entries.append((await _entity(entry, pace), entry))
        await pace.turn()
    times = Counter(entity for entity, _ in entries)
    errors: dict[QuotaEntity, BrokerError] = {}
    alterations: dict[QuotaEntity, dict[str, float | None]] = {}
    for entity, entry in entries:
        quotas = {op.key: None if op.remove else op.value for op in entry.ops}
        if times[entity] > 1:
            errors[entity] = InvalidRequest("Ignoring duplicate entity: it is in the request more than once")
        elif len(quotas) < len(entry.ops):
            errors[entity] = InvalidRequest("Ignoring an entity with a quota key more than once")
        else:
            alterations[entity] = quotas
        await pace.turn()
    try:
        refused = await context.broker.controller.alter_client_quotas(
            alterations, validate_only=request.validate_only
        )
    except StorageError as error:
        errors |= dict.fromkeys(alterations, error)
    else:
        errors |= refused
    results: list[EntryResponseData] = []
    for entity in times:
        results.append(await _result(context, entity, errors.get(entity), pace))
    return AlterClientQuotasResponse(entries=results)


async def _entity(entry: AlterClientQuotasEntry, pace: Pace) -> QuotaEntity:
    # As in Kafka, the last name of a type counts.
    names: dict[str, str | None] = {}
    for part in entry.entity:
        names[part.entity_type] = part.entity_name
        await pace.turn()
    return frozenset(names.items())


async def _result(
    context: RequestContext, entity: QuotaEntity, error: BrokerError | None, pace: Pace
) -> EntryResponseData:
    if error is not None:
        context.warn("refusing to change client quotas for", error)
    parts: list[AlterClientQuotasEntity] = []
    # A client may name any number of types, though there are three; sorting very many is one long step.
    named = sorted(entity, key=lambda part: part[0]) if len(entity) <= FEW_ELEMENTS else entity
    for kind, name in named:
        parts.append(AlterClientQuotasEntity(entity_type=kind, entity_name=name))
        await pace.turn()
    return EntryResponseData(
        error_code=error_code(error) if error else 0,
        error_message=context.error_message(error) if error else None,
        entity=parts,
    )
