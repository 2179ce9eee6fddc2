"""The HTTP listener over real sockets: plain and TLS, streams, and a broker that stops."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S
from tests.plugins.protocol_http.http_client import BROKER
from tests.tls_certificates import client_context, client_entry, tls_settings
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.testing.broker import broker_in_thread, new_broker
from tidelog.plugins.protocol_http import plugin

SSE = {"Accept": "text/event-stream"}


def connected(address: str, context: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
    host, port = address.split(":")
    if context is None:
        return http.client.HTTPConnection(host, int(port), timeout=DEADLINE_S)
    return http.client.HTTPSConnection(host, int(port), timeout=DEADLINE_S, context=context)


def asked(
    connection: http.client.HTTPConnection, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, bytes]:
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    return response.status, response.read()


def test_a_listener_serves_streams_beside_requests_and_stops_with_its_broker() -> None:
    with broker_in_thread(BROKER) as running:
        address = running.broker.listeners["HTTP"]
        client, follower = connected(address), connected(address)
        assert asked(client, "POST", "/topics", {"topic_name": "t"})[0] == 201
        follower.request("GET", "/topics/t/follow?from=earliest", headers=SSE)
        stream = follower.getresponse()
        for value in range(3):
            status, _ = asked(client, "POST", "/topics/t", {"records": [{"value": value}]})
            assert status == 200
            id_line, data = stream.readline(), stream.readline()
            assert (id_line, stream.readline()) == (b"id: 0:%d\n" % (value + 1), b"\n")
            assert json.loads(data.removeprefix(b"data: "))["value"] == value
        # A client that leaves is noticed at once, although nothing is sent to it.
        assert running.broker.server.connection_count == 2
        follower.close()
        stream.close()
        while running.broker.server.connection_count > 1:
            asked(client, "GET", "/health")
        leaving = connected(address)
        leaving.request("GET", "/topics/t/follow", headers=SSE)
        leaving.getresponse()
    # The broker has stopped: a stream does not hold it up.
    leaving.close()
    client.close()


def test_a_body_that_is_refused_before_it_was_read_gets_its_response() -> None:
    with broker_in_thread({**BROKER, "http.request.max.bytes": 2000}) as running:
        host, port = running.broker.listeners["HTTP"].split(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as client:
            head = b"POST /topics/t HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n"
            client.sendall(head + bytes(500_000))
            answer = b""
            while piece := client.recv(10_000):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_listener_with_tls_gives_clients_the_names_of_their_certificates(tmp_path: Path) -> None:
    settings = {
        **tls_settings(tmp_path, ssl_client_auth="requested"),
        **BROKER,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HTTP:SSL",
        "authorizer.class.name": "standard",
        "super.users": "User:CN=ada,O=Tide",
    }
    with broker_in_thread(settings) as running:
        address = running.broker.listeners["HTTP"]
        known = connected(address, client_context(tmp_path, client_entry("ada")))
        assert asked(known, "POST", "/topics", {"topic_name": "t"})[0] == 201
        _, body = asked(known, "POST", "/consumers/g", {"name": "i"})
        assert json.loads(body)["base_uri"].startswith("https://127.0.0.1:")
        unknown = connected(address, client_context(tmp_path))
        assert asked(unknown, "POST", "/topics", {"topic_name": "u"})[0] == 403
        known.close()
        unknown.close()


def test_without_h11_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidelog.plugins.protocol_http.connection", raising=False)
    monkeypatch.setitem(sys.modules, "h11", None)
    with pytest.raises(ConfigError, match=r"codec http needs h11: pip install 'tidelog\[http\]'"):
        plugin.tidelog_background_tasks(new_broker(BROKER))
    assert plugin.tidelog_background_tasks(new_broker()) == ()
