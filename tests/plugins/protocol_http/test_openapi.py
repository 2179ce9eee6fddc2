"""The description of the routes, against the routes."""

from __future__ import annotations

import json
from typing import Any

from tests.plugins.protocol_http.http_client import HttpClient
from tidelog.plugins.protocol_http.route_table import ROUTES


async def test_openapi_has_each_route_with_all_that_it_takes(http: HttpClient) -> None:
    described: dict[str, Any] = await http.get("/openapi.json")
    assert described["openapi"].startswith("3.1")
    operations = {
        (method.upper(), path): operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {(route.method, route.template) for route in ROUTES}
    assert len({operation["operationId"] for operation in operations.values()}) == len(ROUTES)
    for (method, path), operation in operations.items():
        parameters = {(each["in"], each["name"]) for each in operation["parameters"]}
        in_path = {("path", part[1:-1]) for part in path.split("/") if part.startswith("{")}
        assert in_path <= parameters, path
        assert ("requestBody" in operation) == (method == "POST"), path


async def test_each_described_operation_is_served_and_nothing_else(http: HttpClient) -> None:
    described: dict[str, Any] = await http.get("/openapi.json")
    for path, methods in described["paths"].items():
        target = path.replace("{topic}", "t").replace("{partition}", "0").replace("{group}", "g")
        target = target.replace("{instance}", "i")
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            answer = await http.send(method, f"{target}?undescribed=1")
            is_described = method.lower() in methods
            assert answer.status == (400 if is_described else 405), (method, path, answer)
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "query":
                    answer = await http.send("GET", f"{target}?{parameter['name']}=%00")
                    assert parameter["name"] in answer.json["message"], (path, parameter)


async def test_a_response_is_of_a_described_media_type(http: HttpClient) -> None:
    await http.create_topic("t")
    described: dict[str, Any] = await http.get("/openapi.json")
    for path, methods in described["paths"].items():
        if "get" not in methods or "{group}" in path or "follow" in path:
            continue
        answer = await http.send("GET", path.replace("{topic}", "t").replace("{partition}", "0"))
        media_types = methods["get"]["responses"]["200"]["content"]
        assert answer.headers["content-type"] in media_types, path
        if "json" in answer.headers["content-type"]:
            json.loads(answer.body)


async def test_ready_says_what_it_waits_for(http: HttpClient) -> None:
    assert await http.get("/ready") == {"status": "ready"}
    http.broker.coordinator.loading["groups"].partitions += 1
    answer = await http.send("GET", "/ready")
    assert (answer.status, answer.json) == (503, {"status": "loading groups"})
    http.broker.topics.closing = True
    answer = await http.send("GET", "/ready")
    assert (answer.status, answer.json) == (503, {"status": "stopping"})
