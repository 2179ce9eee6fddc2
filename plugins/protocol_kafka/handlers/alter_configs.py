"""AlterConfigs (API 33): replace the configuration of topics or of this broker."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.handlers.config_changes import change_config, each_resource, replaced_by
from tidelog.plugins.protocol_kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Handle each resource independently: an error of one does not affect the others."""

    async def change(resource: AlterConfigsResource) -> None:
        alter = replaced_by([(config.name, config.value) for config in resource.configs])
        await change_config(context, resource, alter, validate_only=request.validate_only)

    def answer(resource: AlterConfigsResource, error: BrokerError | None) -> AlterConfigsResourceResponse:
        return AlterConfigsResourceResponse(
            error_code=error_code(error) if error else 0,
            error_message=context.error_message(error) if error else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    return AlterConfigsResponse(responses=await each_resource(context, request.resources, change, answer))
