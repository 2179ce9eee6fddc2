"""The entry of listeners with SASL: what clients send before they are authenticated, in any order.

An input is what a connection sends: its first byte chooses the mechanism, or with 255 that none is chosen;
the rest is split by the four bytes of `SPLIT` into tokens. Who gets in without a secret is a finding.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import trio

from tests.fuzzing.target import Complaints
from tests.plugins.protocol_kafka.apis.client import framed
from tests.plugins.protocol_kafka.apis.test_sasl import SaslClient
from tests.plugins.sasl.identity_provider import unsecured, usual_claims
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.credentials.oauthbearer import client_first
from tidelog.plugins.protocol_kafka.messages.api import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tidelog.plugins.protocol_kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.plugins.protocol_kafka.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tidelog.kernel.testing.broker import ThreadedBroker

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
RAW = 255
SPLIT = b"\xfe\xff\xfe\xff"
_MOST_TOKENS = 6
_MOST_BYTES = 1 << 16
_SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": 'M required user_alice="of 16 characters";',
    "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": "OAuthBearer"
    "UnsecuredValidatorCallbackHandler",
    "listener.name.sasl_plaintext.oauthbearer.oauthbearer.required.scope": "one that no input has, 4711",
    "connection.failed.authentication.delay.ms": 0,
}


class LetInError(Exception):
    """A client is let in that has no secret."""


class Sasl:
    """A broker in a thread with one user, and a new connection for each input."""

    def __init__(self) -> None:
        self._complaints = Complaints()
        self._open = ExitStack()
        self._broker: ThreadedBroker

    def __enter__(self) -> Sasl:
        self._broker = self._open.enter_context(broker_in_thread(_SETTINGS))
        self._open.enter_context(self._complaints)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def seeds(self) -> Sequence[bytes]:
        """Return what clients of each mechanism send, with wrong secrets, and frames without a mechanism."""
        proof = b"c=biws,r=abcdef,p=" + b"A" * 43 + b"="
        frames = [
            framed(SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism="PLAIN")) for version in (0, 1)
        ]
        token = framed(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0b"))
        return [
            b"\0\0alice\0wrong",
            *(bytes((index,)) + SPLIT.join((b"n,,n=alice,r=abcdef", proof)) for index in (1, 2)),
            b"\3" + SPLIT.join((client_first(unsecured(usual_claims("alice")), {"a": "b"}), b"\1")),
            *(bytes((RAW,)) + frame + token for frame in frames),
        ]

    def run(self, data: bytes) -> None:
        """Authenticate as the input does."""
        if 0 < len(data) <= _MOST_BYTES:
            trio.from_thread.run(self._serve, data, trio_token=self._broker.token)
            self._complaints.raise_first()

    async def _serve(self, data: bytes) -> None:
        client = SaslClient(self._broker.broker)
        try:
            if data[0] == RAW:
                client.receive(data[1:])
                await self._steps(client)
            else:
                await client.handshake(MECHANISMS[data[0] % len(MECHANISMS)])
                for token in data[1:].split(SPLIT)[:_MOST_TOKENS]:
                    client.receive(framed(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token)))
                    await self._steps(client)
        except ProtocolViolation:
            return
        finally:
            if client.session.is_proven:
                raise LetInError(f"as {client.session.principal}")
            client.wire.close()

    @staticmethod
    async def _steps(client: SaslClient) -> None:
        for _ in range(_MOST_TOKENS):
            step = client.wire.next_step()
            if step is None:
                return
            if not isinstance(step, list):
                await step
