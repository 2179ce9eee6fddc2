"""PLAIN (RFC 4616): user and password as they are, so that it needs TLS against who listens on the way."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.config.types import Password
    from tidelog.kernel.seams.wire import Peer

_PARTS: Final = 3
_USER: Final = "user_"
_REFUSED: Final = "Authentication failed: Invalid username or password"


class Plain(SaslMechanism, SaslExchange):
    """PLAIN on one listener. It has no state, so it is the exchange of each connection, too."""

    name: Final = "PLAIN"

    def __init__(self, context: SaslContext) -> None:
        """Read the users.

        Raises:
            ConfigError: there are none, or a file cannot be read.
        """
        self._context = context
        self._key = secrets.token_bytes(32)
        self._of_tables = _users_of_tables(context.config)
        self._line: Password | None = None
        self._of_line: Mapping[str, str] = {}
        self._use_line()
        if not self._of_tables and not self._of_line:
            key = name_for_mechanism(keys.SASL_JAAS_CONFIG, context.listener, self.name)
            raise ConfigError(
                f"listener {context.listener}: PLAIN has no users; add tables [users.NAME] with a password, "
                f'or {key}=PlainLoginModule required user_NAME="PASSWORD";'
            )

    def _use_line(self) -> None:
        line = self._context.config.of_mechanism(keys.SASL_JAAS_CONFIG, self._context.listener, self.name)
        # It is another object when it was changed while the broker runs.
        if line is not self._line:
            self._line, self._of_line = line, {} if line is None else users_of_line(line.value)

    def start(self, peer: Peer) -> SaslExchange:
        """Begin an authentication."""
        self._use_line()
        return self

    def respond(self, token: bytes) -> Authenticated:
        """Compare user and password."""
        parts = token.split(b"\0")
        if len(parts) != _PARTS:
            raise AuthenticationFailed("Invalid SASL/PLAIN response: expected 3 tokens", "a malformed token")
        try:
            authorize_as, user, given = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise AuthenticationFailed(_REFUSED, "user or password is no UTF-8") from None
        if not user or not given:
            missing = "password" if user else "username"
            raise AuthenticationFailed(f"Authentication failed: {missing} not specified")
        expected = self._of_line.get(user, self._of_tables.get(user))
        is_right = self._are_equal(given, expected or "")
        if expected is None or not is_right:
            reason = "unknown user" if expected is None else "wrong password of user"
            raise AuthenticationFailed(_REFUSED, f"{reason} {user!r}")
        if authorize_as not in ("", user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Authenticated(Principal(ANONYMOUS.type, user))

    def _are_equal(self, one: str, other: str) -> bool:
        """Compare in a time that does not depend on what is equal, nor on lengths."""
        digests = (hmac.digest(self._key, text.encode(), "sha256") for text in (one, other))
        return hmac.compare_digest(*digests)


def users_of_line(line: str) -> Mapping[str, str]:
    """Return the passwords of a line of JAAS by user: those of its options `user_NAME`."""
    options = parse_jaas(line).options
    return {name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)}


def _users_of_tables(config: Config) -> Mapping[str, str]:
    users: dict[str, str] = {}
    for table in config.tables(keys.SECTION):
        password, file = table[keys.USER_PASSWORD], table[keys.USER_FILE]
        if (password is None) == (file is None):
            raise ConfigError(f"[{keys.SECTION}.{table.name}] needs one of password and file")
        found = password.value if password is not None else _first_line(table.name, str(file))
        if not found:
            raise ConfigError(f"[{keys.SECTION}.{table.name}] has an empty password")
        users[table.name] = found
    return users


def _first_line(user: str, file: str) -> str:
    try:
        return Path(file).read_text().partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"[{keys.SECTION}.{user}] file: {file} cannot be read: {reason}") from error
