"""GSSAPI (RFC 4752): Kerberos, through MIT's library, without a layer of its own around what follows.

    client: token of Kerberos …             broker: its answer …
    client: nothing                         broker: wrapped, "no layer" and 0 bytes
    client: wrapped, "no layer" and who it wants to be

Each step is taken in a thread: the library reads the key table, and writes to a file which
tokens it has seen, so that none is taken a second time.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from tidelog.kernel.config.listener_keys import name_for_mechanism
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.sasl import (
    Authenticated,
    AuthenticationFailed,
    SaslContext,
    SaslExchange,
    SaslMechanism,
)
from tidelog.plugins.credentials.jaas import parse_jaas
from tidelog.plugins.sasl import keys
from tidelog.plugins.sasl.kerberos_names import BadNameRule, NoShortName, ShortNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.wire import Peer

T = TypeVar("T")


NAME: Final = "GSSAPI"
_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
_MOST_THREADS: Final = 4
_REFUSED: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
)


class Gssapi(SaslMechanism):
    """GSSAPI on one listener."""

    def __init__(self, context: SaslContext) -> None:
        """Find the keys of the broker.

        Raises:
            ConfigError: the library or a key is missing, or cannot be used.
        """
        self._context = context
        try:
            # It has no types.
            self.library: Any = importlib.import_module("gssapi")
        except ImportError as error:
            raise ConfigError(
                'GSSAPI needs Kerberos: install libkrb5-dev, and pip install "tidelog[kerberos]"'
            ) from error
        principal, key_table = self._own_entry()
        try:
            self.names = ShortNames(
                self._value(keys.SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES), principal.rpartition("@")[2]
            )
        except BadNameRule as error:
            raise ConfigError(f"{keys.SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES.name}: {error}") from error
        try:
            self.credentials: Any = self.library.Credentials(
                usage="accept",
                name=self.library.Name(principal, self.library.NameType.kerberos_principal),
                store={"keytab": key_table},
            )
        except self.library.exceptions.GSSError as error:
            raise ConfigError(
                f"listener {context.listener}: {key_table} has no key of {principal}: {_text(error)}"
            ) from error
        self.limiter = trio.CapacityLimiter(_MOST_THREADS)

    def _value(self, key: ConfigKey[T]) -> T:
        return self._context.config.of_mechanism(key, self._context.listener, NAME)

    def _own_entry(self) -> tuple[str, str]:
        """Return the principal of the broker and the file with its keys."""
        name = name_for_mechanism(keys.SASL_JAAS_CONFIG, self._context.listener, NAME)
        line = self._value(keys.SASL_JAAS_CONFIG)
        options: Mapping[str, str] = {} if line is None else parse_jaas(line.value).options
        principal, key_table = options.get("principal", ""), options.get("keyTab", "").removeprefix("file:")
        if "@" not in principal or not key_table:
            raise ConfigError(
                f"listener {self._context.listener}: GSSAPI needs {name}=Krb5LoginModule required "
                'useKeyTab=true keyTab="/etc/tidelog.keytab" principal="kafka/HOST@REALM";'
            )
        service = self._value(keys.SASL_KERBEROS_SERVICE_NAME)
        if service is not None and principal.partition("@")[0].partition("/")[0] != service:
            raise ConfigError(
                f"listener {self._context.listener}: sasl.kerberos.service.name={service} is another service "
                f"than that of {principal}"
            )
        try:
            with Path(key_table).open("rb"):
                """It can be read."""
        except OSError as error:
            raise ConfigError(f"{name}: {key_table} cannot be read: {error.strerror}") from error
        return principal, key_table

    def start(self, peer: Peer) -> SaslExchange:
        """Begin an authentication."""
        return GssapiExchange(self)


class GssapiExchange(SaslExchange):
    """Tokens of Kerberos, the offer of a layer, and the choice of the client."""

    def __init__(self, mechanism: Gssapi) -> None:
        self._mechanism = mechanism
        self._security: Any = None
        self._is_offered = self._is_over = False

    async def respond(self, token: bytes) -> bytes | Authenticated:
        """Take the next step."""
        if self._is_over:
            raise AuthenticationFailed(_REFUSED, "the exchange is over")
        errors = self._mechanism.library.exceptions.GSSError
        try:
            return await trio.to_thread.run_sync(self._respond, token, limiter=self._mechanism.limiter)
        except errors as error:
            self._is_over = True
            raise AuthenticationFailed(_REFUSED, f"Kerberos refuses the token: {_text(error)}") from error
        except AuthenticationFailed:
            self._is_over = True
            raise

    def _respond(self, token: bytes) -> bytes | Authenticated:
        if self._security is None:
            self._security = self._mechanism.library.SecurityContext(
                creds=self._mechanism.credentials, usage="accept"
            )
        if self._is_offered:
            return self._chosen(token)
        if not self._security.complete:
            answer: bytes | None = self._security.step(token)
            # Without mutual authentication the broker has nothing to prove, and offers at once.
            if answer or not self._security.complete:
                return answer or b""
        elif token:
            raise AuthenticationFailed(_REFUSED, "a token came where none was expected")
        self._is_offered = True
        offer: bytes = self._security.wrap(_OFFER, False).message
        return offer

    def _chosen(self, token: bytes) -> Authenticated:
        choice: bytes = self._security.unwrap(token).message
        self._is_over = True
        if len(choice) < len(_OFFER) or choice[0] != _NO_LAYER:
            raise AuthenticationFailed(_REFUSED, "the client wants a layer, and TLS is the one here")
        # As in Kafka, whom it wants to be is not asked: it is who it has proven to be.
        principal = str(self._security.initiator_name)
        try:
            user = self._mechanism.names.short_name(principal)
        except NoShortName as error:
            raise AuthenticationFailed(_REFUSED, str(error)) from error
        return Authenticated(Principal(ANONYMOUS.type, user))


def _text(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
