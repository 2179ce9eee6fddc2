"""An identity provider that gives clients access tokens over HTTP, and does what it is told to do wrong."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import attrs
import jwt

from tests.plugins.sasl.identity_provider import Provider

CLIENT, SECRET = "app", "a secret: &="
SECRETS = {f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"}


@attrs.define
class TokenEndpoint:
    """Where it is; `asked` has the form of each request, `failures` the status of the next ones.

    `client_keys` are those whose assertions it takes, by algorithm, beside the client's secret.
    """

    provider: Provider
    url: str = ""
    claims: dict[str, Any] = attrs.field(factory=dict[str, Any])
    asked: list[dict[str, str]] = attrs.field(factory=list[dict[str, str]])
    failures: list[int] = attrs.field(factory=list[int])
    answer: bytes | None = None
    client_keys: dict[str, Any] = attrs.field(factory=dict[str, Any])

    def reset(self) -> None:
        """Have nothing wrong, and nothing asked."""
        self.claims, self.failures, self.answer = {}, [], None
        self.asked.clear()

    def respond(self, authorization: str | None, form: str) -> tuple[int, bytes]:
        """The status and the answer to a request."""
        if self.failures:
            return self.failures.pop(0), b"{}"
        fields = dict(parse_qsl(form))
        assertion = fields.get("assertion") or fields.get("client_assertion")
        if not (authorization in SECRETS if assertion is None else self._knows(assertion)):
            return 401, b'{"error":"invalid_client"}'
        self.asked.append(fields)
        if self.answer is not None:
            return 200, self.answer
        token = self.provider.token(**self.claims)
        return 200, json.dumps({"access_token": token, "expires_in": 600, "token_type": "Bearer"}).encode()

    def _knows(self, assertion: str) -> bool:
        algorithm = jwt.get_unverified_header(assertion)["alg"]
        with suppress(jwt.InvalidTokenError):
            key = self.client_keys[algorithm]
            jwt.decode(assertion, key, algorithms=[algorithm], audience=self.url, leeway=5)
            return True
        return False


@contextmanager
def running_endpoint(provider: Provider, context: ssl.SSLContext | None = None) -> Generator[TokenEndpoint]:
    """Run it on loopback, with TLS if there is a context for it."""
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

    class Server(ThreadingHTTPServer):
        def finish_request(self, request: Any, client_address: Any) -> None:
            with suppress(OSError):
                secured = request if context is None else context.wrap_socket(request, server_side=True)
                super().finish_request(secured, client_address)
                secured.close()

    server = Server(("127.0.0.1", 0), Handler)
    scheme = "http" if context is None else "https"
    endpoint.url = f"{scheme}://localhost:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
