"""AlterConfigs (API 33): replace the configuration of topics or of this broker."""

from __future__ import annotations

from tidelog.kernel.config import Alter
from tidelog.kernel.errors import InvalidRequest
from tidelog.plugins.protocol_kafka.apis.config_changes import change_configs, replaced_by
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from tidelog.plugins.protocol_kafka.messages.describe_configs import BROKER_LOGGER_RESOURCE


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Handle each resource independently: an error of one does not affect the others."""

    def alter_of(resource: AlterConfigsResource) -> Alter:
        if resource.resource_type == BROKER_LOGGER_RESOURCE:
            # As in Kafka, where the request is older than the configuration of loggers.
            raise InvalidRequest(f"Unknown resource type {BROKER_LOGGER_RESOURCE}")
        return replaced_by([(config.name, config.value) for config in resource.configs])

    responses = await change_configs(
        context,
        request.resources,
        alter_of,
        AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    )
    return AlterConfigsResponse(responses=responses)
