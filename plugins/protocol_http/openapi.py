"""The OpenAPI description of the routes, made of their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidelog.plugins.protocol_http.routes import PLACEHOLDER, HttpRoute

OPENAPI_VERSION: Final = "3.1.0"
PROBLEM: Final[Mapping[str, object]] = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {
        "error_code": {
            "type": "integer",
            "description": "the status and two digits, as in Kafka REST proxies",
        },
        "message": {"type": "string"},
    },
}


def described(routes: Sequence[HttpRoute]) -> Mapping[str, object]:
    """Return the description, for `/openapi.json`."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "Kafka over HTTP", "version": "2"},
        "paths": paths,
        "components": {"schemas": {"Problem": PROBLEM}},
    }


def _operation(route: HttpRoute) -> Mapping[str, Any]:
    in_path = [part[1:-1] for part in route.segments if part.startswith(PLACEHOLDER)]
    words = [part.strip("{}").replace(".", "_") for part in route.segments]
    operation: dict[str, Any] = {
        "operationId": "_".join([route.method.lower(), *words]),
        "summary": route.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in in_path
            ),
            *(
                {"name": name, "in": "query", "schema": dict(parameter.schema)}
                for name, parameter in route.query.items()
            ),
        ],
        "responses": {
            str(route.status): _response(route),
            "default": {
                "description": "why it is refused",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if route.consumes:
        operation["requestBody"] = {"content": {media_type: {} for media_type in route.consumes}}
    if route.operation is not None:
        operation["x-kafka-api"] = route.operation.name
    return operation


def _response(route: HttpRoute) -> Mapping[str, Any]:
    if route.status == 204:
        return {"description": "done"}
    return {"description": "done", "content": {media_type: {} for media_type in route.produces}}
