"""An identity provider that gives clients access tokens over HTTP, and does what it is told to do wrong."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import attrs

from tests.plugins.sasl.identity_provider import Provider

CLIENT, SECRET = "app", "a secret: &="


@attrs.define
class TokenEndpoint:
    """Where it is; `asked` has the form of each request, `failures` the status of the next ones."""

    provider: Provider
    url: str = ""
    claims: dict[str, Any] = attrs.field(factory=dict[str, Any])
    asked: list[dict[str, str]] = attrs.field(factory=list[dict[str, str]])
    failures: list[int] = attrs.field(factory=list[int])
    answer: bytes | None = None

    def reset(self) -> None:
        """Have nothing wrong, and nothing asked."""
        self.claims, self.failures, self.answer = {}, [], None
        self.asked.clear()

    def respond(self, authorization: str, form: str) -> tuple[int, bytes]:
        """The status and the answer to a request."""
        if self.failures:
            return self.failures.pop(0), b"{}"
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, b'{"error":"invalid_client"}'
        self.asked.append(dict(parse_qsl(form)))
        if self.answer is not None:
            return 200, self.answer
        token = self.provider.token(**self.claims)
        return 200, json.dumps({"access_token": token, "expires_in": 600, "token_type": "Bearer"}).encode()


@contextmanager
def running_endpoint(provider: Provider) -> Generator[TokenEndpoint]:
    """Run it on loopback."""
    endpoint = TokenEndpoint(provider)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = self.rfile.read(length).decode()
            status, content = endpoint.respond(self.headers["Authorization"], form)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", endpoint.url)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the base class
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
