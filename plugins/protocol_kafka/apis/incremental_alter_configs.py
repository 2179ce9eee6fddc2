"""IncrementalAlterConfigs (API 44): change single keys of topics or of this broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel.config import Alter
from tidelog.kernel.errors import InvalidRequest
from tidelog.plugins.protocol_kafka.apis.config_changes import (
    SCOPES,
    Alteration,
    AlterOperation,
    altered_by,
    change_configs,
)
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.describe_configs import BROKER_LOGGER_RESOURCE, TOPIC_RESOURCE
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from tidelog.kernel.config.types import Scope


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Handle each resource independently: an error of one does not affect the others."""
    responses = await change_configs(
        context,
        request.resources,
        partial(_alter, context),
        IncrementalAlterConfigsResourceResponse,
        validate_only=request.validate_only,
    )
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter(context: RequestContext, resource: IncrementalAlterConfigsResource) -> Alter:
    config, kind = context.broker.config, resource.resource_type
    of_topic = kind == TOPIC_RESOURCE
    scope: Scope = "topic" if of_topic else SCOPES.get(kind, "broker")
    in_force: Callable[[str], str] = config.topic_default_text if of_topic else config.text
    alterations = [_alteration(change) for change in resource.configs]
    if kind == BROKER_LOGGER_RESOURCE:
        _refuse_lists(alterations)
    return altered_by(alterations, lambda name: config.keys.find(name, scope), in_force)


def _refuse_lists(alterations: Sequence[Alteration]) -> None:
    """Refuse operations on lists for levels of loggers."""
    for alteration in alterations:
        if alteration.operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            raise InvalidRequest(
                f"{alteration.operation.name} operation is not allowed for the BROKER_LOGGER resource"
            )


def _alteration(change: IncrementalAlterableConfig) -> Alteration:
    try:
        operation = AlterOperation(change.config_operation)
    except ValueError:
        raise InvalidRequest(
            f"{change.config_operation} is no operation on a configuration; "
            "SET is 0, DELETE 1, APPEND 2, SUBTRACT 3"
        ) from None
    return Alteration(change.name, operation, change.value)
