"""Kerberos tickets of a client for GSSAPI (RFC 4752), through MIT's library.

A ticket for a broker comes from the KDC, by a key table or by the ticket cache that `kinit` fills. The engine
has that and the first token made in a thread before it connects; what follows asks no one. A token is for one
connection, so each has one of its own. Source: KIP-43; Kafka's `KerberosLogin` and `SaslClientAuthenticator`.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tidelog.plugins.client.errors import NoCredentials, SaslRefused

if TYPE_CHECKING:
    from tidelog.plugins.client.sasl import SaslTokens

NO_LIBRARY: Final = 'GSSAPI needs Kerberos: install libkrb5-dev, and pip install "tidelog[kerberos]"'
_LIBRARY: Final = "gssapi"
_NO_LAYER: Final = 1
_CHOICE: Final = bytes((_NO_LAYER, 0, 0, 0))
"""No layer, messages of 0 bytes, and no name: the client is who its ticket says."""
_OFFER_BYTES: Final = 4
_MAY_PASS: Final = frozenset({-1765328228, -1765328164})
"""MIT's KRB5_KDC_UNREACH and KRB5_REALM_CANT_RESOLVE."""
_caches = count()


@attrs.frozen(kw_only=True)
class KerberosSettings:
    """Whose ticket a client shows, and which brokers it shows it to.

    Attributes:
        service_name: first part of the principal of brokers, `kafka` of `kafka/HOST@REALM`
        principal: who the client is, `NAME@REALM`; None for whom the ticket cache is of
        key_table: file with the keys of `principal`, by which tickets are requested
        ticket_cache: file of tickets instead; None for the cache that the process has by default
        renew_window_factor: a ticket is requested, or its cache looked at, again after this share of its
            lifetime
        renew_jitter: and after up to this further share, by chance
        min_time_before_relogin_s: though not sooner than this after the last time
        timeout_s: limit of the wait for the KDC
    """

    service_name: str
    principal: str | None = None
    key_table: str | None = None
    ticket_cache: str | None = None
    renew_window_factor: float = attrs.field(
        default=0.8, validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)]
    )
    renew_jitter: float = attrs.field(
        default=0.05, validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)]
    )
    min_time_before_relogin_s: float = attrs.field(default=60.0, validator=attrs.validators.ge(0.0))
    timeout_s: float = attrs.field(default=10.0, validator=attrs.validators.gt(0.0))

    def __attrs_post_init__(self) -> None:
        """Refuse settings by which no ticket can be had.

        Raises:
            ValueError: they are incomplete, or contradict each other.
        """
        if not self.service_name:
            raise ValueError("service_name is empty: it is kafka if the principal of brokers is kafka/HOST")
        if self.key_table is not None and self.ticket_cache is not None:
            raise ValueError("ticket_cache has no effect with key_table")
        if self.key_table is not None and not self.principal:
            raise ValueError("key_table needs principal: whose key of it is used")


class NoTicket(NoCredentials):
    """There is no ticket for a broker."""


class _FirstToken(NamedTuple):
    security: Any
    token: bytes


class KerberosTickets:
    """The tickets of some settings; any thread may ask for them, and one at a time asks the KDC."""

    def __init__(self, settings: KerberosSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._settings = settings
        self._clock = clock
        self._is_asking = threading.Lock()
        self._credentials: Any = None
        self._renew_at = self._expires_at = 0.0
        self._store = _store_of(settings)

    def tokens_for(self, host: str) -> SaslTokens:
        """Return the tokens of one connection to a broker; blocks for no longer than `timeout_s`.

        Raises:
            NoTicket: there is no ticket for it.
        """
        return _tokens(self._in_time(lambda: self._first_token(host)))

    def _in_time(self, work: Callable[[], _FirstToken]) -> _FirstToken:
        """Return what `work` returns in a thread of its own: the library asks the KDC as long as it likes."""
        deadline = time.monotonic() + self._settings.timeout_s
        outcomes: list[_FirstToken | Exception] = []
        ended = threading.Event()

        def run() -> None:
            try:
                outcomes.append(work())
            except Exception as error:
                outcomes.append(error)
            finally:
                self._is_asking.release()
                ended.set()

        # While a KDC does not answer, one thread waits for it, however often connections are tried.
        if self._is_asking.acquire(timeout=self._settings.timeout_s):
            try:
                threading.Thread(target=run, name="tidelog-kerberos", daemon=True).start()
            except RuntimeError as error:
                self._is_asking.release()
                raise NoTicket(f"no thread can ask Kerberos: {error}", may_pass=True) from error
            ended.wait(max(0.0, deadline - time.monotonic()))
        if not outcomes:
            raise NoTicket(f"Kerberos gave no ticket within {self._settings.timeout_s:g} s", may_pass=True)
        outcome = outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _first_token(self, host: str) -> _FirstToken:
        library: Any = importlib.import_module(_LIBRARY)
        credentials = self._fresh_credentials(library)
        service = f"{self._settings.service_name}@{host}"
        flags = library.RequirementFlag
        try:
            security = library.SecurityContext(
                name=library.Name(service, library.NameType.hostbased_service),
                creds=credentials,
                usage="initiate",
                flags=flags.mutual_authentication | flags.integrity,
            )
            return _FirstToken(security, security.step() or b"")
        except library.exceptions.GSSError as error:
            raise _no_ticket(f"for {self._settings.service_name}/{host}", error) from error

    def _fresh_credentials(self, library: Any) -> Any:
        now = self._clock()
        if self._credentials is not None and now < self._renew_at:
            return self._credentials
        try:
            credentials = self._acquired(library)
            lifetime_s: float = credentials.lifetime or 0.0
        except NoTicket:
            if self._credentials is None or now >= self._expires_at:
                raise
            self._renew_at = now + self._settings.min_time_before_relogin_s
        else:
            self._credentials, self._expires_at = credentials, now + lifetime_s
            settings = self._settings
            share = settings.renew_window_factor + random.uniform(0, settings.renew_jitter)
            renew_in_s = max(lifetime_s * min(share, 1.0), settings.min_time_before_relogin_s)
            self._renew_at = now + min(renew_in_s, lifetime_s)
        return self._credentials

    def _acquired(self, library: Any) -> Any:
        settings = self._settings
        name, source = None, "in the ticket cache"
        try:
            if settings.principal:
                name = library.Name(settings.principal, library.NameType.kerberos_principal)
                source = f"of {settings.principal} {source}"
            if settings.key_table is not None:
                source = f"of {settings.principal} by {settings.key_table}"
                # The library would say that there is no ticket cache.
                with Path(settings.key_table).open("rb"):
                    """It can be read."""
            credentials = library.Credentials(name=name, usage="initiate", store=self._store)
            # Only this asks the KDC.
            _ = credentials.lifetime
        except OSError as error:
            raise NoTicket(f"{settings.key_table} cannot be read: {error.strerror}") from error
        except library.exceptions.GSSError as error:
            raise _no_ticket(source, error) from error
        return credentials


def _store_of(settings: KerberosSettings) -> dict[str, str] | None:
    if settings.key_table is not None:
        # A cache of its own: no file is written, and no other user of the process gets its tickets.
        return {"client_keytab": settings.key_table, "ccache": f"MEMORY:tidelog-{next(_caches)}"}
    return None if settings.ticket_cache is None else {"ccache": settings.ticket_cache}


def _no_ticket(what: str, error: Any) -> NoTicket:
    code = int(error.min_code)
    may_pass = (code - 2**32 if code >= 2**31 else code) in _MAY_PASS
    return NoTicket(f"there is no ticket {what}: {_text(error)}", may_pass=may_pass)


def _text(error: BaseException) -> str:
    """Return what the library says, without its numbers."""
    return " ".join(str(error).split()).rpartition("): ")[2][:300]


def _tokens(first: _FirstToken) -> SaslTokens:
    """Show the ticket, have the broker prove that it can read it, and choose to have no layer.

    Raises:
        SaslRefused: the broker has proven nothing, or wants a layer.
    """
    library: Any = importlib.import_module(_LIBRARY)
    security, token = first
    try:
        while not security.complete:
            token = security.step((yield token)) or b""
        offer: bytes = security.unwrap((yield token)).message
        if len(offer) != _OFFER_BYTES or not offer[0] & _NO_LAYER:
            raise SaslRefused("the broker wants a layer of GSSAPI, and TLS is the one here")
        choice: bytes = security.wrap(_CHOICE, False).message
    except library.exceptions.GSSError as error:
        raise SaslRefused(f"Kerberos refuses the broker's answer: {_text(error)}") from error
    yield choice


@lru_cache(64)
def tickets_of(settings: KerberosSettings) -> KerberosTickets:
    """Return the tickets of some settings, the same ones for all clients of the process that have them.

    Raises:
        ValueError: the library is not there.
    """
    if importlib.util.find_spec(_LIBRARY) is None:
        raise ValueError(NO_LIBRARY)
    return KerberosTickets(settings)
