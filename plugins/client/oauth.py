"""Access tokens of a client for OAUTHBEARER: where they come from, and when they are read again.

A token is a signed JWT. It comes from the token endpoint of an identity provider (RFC 6749, section 4.4: the
client's own id and secret; RFC 7523: an assertion that it has signed), from a file, or from a function.
Reading one may take seconds, so the engine has it done in a thread before it connects; what was read serves
all connections of the process with the same settings until the time to refresh it. Source: KIP-255, KIP-768,
KIP-1139; Kafka's `HttpJwtRetriever` and `ExpiringCredentialRefreshingLogin`.
"""

from __future__ import annotations

import base64
import json
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

import attrs

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client.errors import NoCredentials, SaslRefused
from tidelog.plugins.credentials.oauthbearer import GIVEN_UP, BadOAuthMessage, client_first

if TYPE_CHECKING:
    from email.message import Message
    from http.client import HTTPResponse

    from tidelog.plugins.client.oauth_assertions import OAuthAssertion
    from tidelog.plugins.client.sasl import SaslTokens
    from tidelog.plugins.keystores.tls_stores import TlsStores

CLIENT_CREDENTIALS: Final = "client_credentials"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MAX_BYTES: Final = 1024 * 1024
"""Limit of a token, and of what an identity provider answers."""
_FILE: Final = "file"
_CHUNK_BYTES: Final = 64 * 1024
_PARTS_OF_JWT: Final = 3
_RETRIED: Final = 500
"""From this status on an error of an identity provider may pass."""


@attrs.frozen(kw_only=True)
class OAuthSettings:
    """Where a client has its access tokens from; the names are those of Kafka's keys.

    Attributes:
        token_endpoint_url: of the identity provider, `https://…`, or `file:///…` for a file with a token
        client_id: who the client is there
        client_secret: its secret there
        grant: client_credentials, with the client's secret or an assertion; or that of JWT_BEARER, by which
            the assertion itself is what a token is given for
        assertion: by which the client is known there, instead of its secret
        ssl_stores: whom to trust there, and what to present; None for the authorities of the system
        scope: what the token is to be good for, None for what the provider chooses
        token_provider: a function that returns a token, instead of all these; called in a thread
        extensions: sent to the broker with the token (KIP-342)
        header_urlencode: quote id and secret, as RFC 6749 has it and some providers do not
        connect_timeout_s: limit of the wait for a connection to the provider
        read_timeout_s: limit of the wait for its answer
        retry_backoff_s: the wait after a first failure; it doubles with each further one
        retry_backoff_max_s: the longest wait, and how long is tried in all
        refresh_window_factor: a token is read again after this share of its lifetime
        refresh_window_jitter: and after up to this further share, by chance
        refresh_min_period_s: though not sooner than this after it was read
        refresh_buffer_s: and so long before it expires, unless both are longer than its lifetime
    """

    token_endpoint_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = attrs.field(default=None, repr=False)
    grant: str = attrs.field(
        default=CLIENT_CREDENTIALS, validator=attrs.validators.in_((CLIENT_CREDENTIALS, JWT_BEARER))
    )
    assertion: OAuthAssertion | None = None
    ssl_stores: TlsStores | None = None
    scope: str | None = None
    token_provider: Callable[[], str] | None = attrs.field(default=None, repr=False)
    extensions: tuple[tuple[str, str], ...] = ()
    header_urlencode: bool = False
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 10.0
    refresh_window_factor: float = attrs.field(
        default=0.8, validator=[attrs.validators.ge(0.5), attrs.validators.le(1.0)]
    )
    refresh_window_jitter: float = attrs.field(
        default=0.05, validator=[attrs.validators.ge(0.0), attrs.validators.le(0.25)]
    )
    refresh_min_period_s: float = attrs.field(
        default=60.0, validator=[attrs.validators.ge(0.0), attrs.validators.le(900.0)]
    )
    refresh_buffer_s: float = attrs.field(
        default=300.0, validator=[attrs.validators.ge(0.0), attrs.validators.le(3600.0)]
    )

    def __attrs_post_init__(self) -> None:
        """Refuse settings from which no token can be had.

        Raises:
            ValueError: they are incomplete, or contradict each other.
        """
        if self.token_provider is not None:
            if self.token_endpoint_url is not None:
                raise ValueError("token_endpoint_url has no effect with token_provider")
        elif self.token_endpoint_url is None:
            raise ValueError("OAUTHBEARER needs token_endpoint_url or token_provider")
        else:
            self._check_url(self.token_endpoint_url)
        client_first("token", dict(self.extensions))

    def _check_url(self, url: str) -> None:
        scheme = urlsplit(url).scheme
        if scheme not in ("https", "http", _FILE):
            raise ValueError(f"token_endpoint_url: {url!r} has none of the schemes https, http and file")
        if scheme == _FILE:
            return
        if self.grant == JWT_BEARER and self.assertion is None:
            raise ValueError(f"the grant {JWT_BEARER} needs an assertion")
        if self.assertion is None and not (self.client_id and self.client_secret):
            raise ValueError("an identity provider needs client_id and client_secret, or an assertion")
        if self.assertion is not None and self.client_secret is not None:
            raise ValueError("client_secret has no effect with an assertion")
        if self.grant == JWT_BEARER and self.client_id is not None:
            raise ValueError(f"client_id has no effect with the grant {JWT_BEARER}")


class NoAccessToken(NoCredentials):
    """There is no access token."""


class ClientAccessToken(NamedTuple):
    """A token, and times of the wall clock in seconds: when it was read, is to be read again, and expires."""

    text: str
    read_at: float
    refresh_at: float
    expires_at: float

    def __repr__(self) -> str:
        return f"ClientAccessToken(expires_at={self.expires_at})"


class AccessTokens:
    """The newest access token of some settings; any thread may ask for it."""

    def __init__(self, settings: OAuthSettings, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns seconds since the epoch."""
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._token: ClientAccessToken | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether there is a token that need not be read again."""
        token = self._token
        return token is not None and self._clock() < token.refresh_at

    def refresh(self) -> None:
        """Read a token unless there is a fresh one; blocks. One that is good still may stay in use.

        Raises:
            NoAccessToken: there is none.
        """
        # Connections that are opened side by side wait for one token.
        with self._lock:
            if self.is_fresh:
                return
            try:
                text, lifetime_s = self._read()
                self._token = self._checked(text, lifetime_s)
            except NoAccessToken:
                token = self._token
                if token is None or self._clock() >= token.expires_at:
                    raise

    def tokens(self) -> SaslTokens:
        """Show the newest token to a broker.

        Raises:
            SaslRefused: the broker does not take it.
        """
        token = self._token
        if token is None:
            raise SaslRefused("there is no access token")
        answer = yield client_first(token.text, dict(self._settings.extensions))
        if answer:
            # The next connection reads another one: the keys of the provider may have changed.
            self._token = None
            yield GIVEN_UP
            raise SaslRefused(f"the access token is not taken: {answer[:200].decode(errors='replace')}")

    def _read(self) -> tuple[str, float | None]:
        """Return a token, and how long it is good if that is known."""
        settings = self._settings
        if settings.token_provider is not None:
            try:
                return settings.token_provider(), None
            except Exception as error:
                raise NoAccessToken(f"token_provider raised {error!r}") from error
        url = settings.token_endpoint_url or ""
        if urlsplit(url).scheme == _FILE:
            return _read_file(url), None
        deadline, pause_s = time.monotonic() + settings.retry_backoff_max_s, settings.retry_backoff_s
        while True:
            try:
                return _ask(url, settings, self._clock())
            except NoAccessToken as error:
                if not error.may_pass or time.monotonic() + pause_s >= deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, settings.retry_backoff_max_s)

    def _checked(self, text: str, lifetime_s: float | None) -> ClientAccessToken:
        text = text.strip()
        now, settings = self._clock(), self._settings
        try:
            client_first(text, {})
        except BadOAuthMessage as error:
            raise NoAccessToken(str(error)) from error
        claimed = _expiry_of(text)
        if claimed is None and lifetime_s is None:
            raise NoAccessToken("the access token does not say when it expires (claim exp)")
        expires_at = claimed if claimed is not None else now + (lifetime_s or 0.0)
        if expires_at <= now:
            raise NoAccessToken("the access token has expired")
        return ClientAccessToken(text, now, _refresh_at(settings, now, expires_at), expires_at)


def _refresh_at(settings: OAuthSettings, now: float, expires_at: float) -> float:
    lifetime_s = expires_at - now
    share = settings.refresh_window_factor + random.uniform(0, settings.refresh_window_jitter)
    refresh_at = now + lifetime_s * min(share, 1.0)
    if settings.refresh_min_period_s + settings.refresh_buffer_s > lifetime_s:
        return refresh_at
    return max(min(refresh_at, expires_at - settings.refresh_buffer_s), now + settings.refresh_min_period_s)


def _expiry_of(text: str) -> float | None:
    """Return the claim `exp` of a JWT, None for another token."""
    parts = text.split(".")
    if len(parts) != _PARTS_OF_JWT:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
        found = claims.get("exp")
    except (ValueError, AttributeError, RecursionError):
        return None
    return float(found) if isinstance(found, int | float) else None


def _read_file(url: str) -> str:
    path = Path(unquote(urlsplit(url).path))
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise NoAccessToken(f"the access token in {path} cannot be read: {reason}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Id and secret are for the configured address alone."""

    def redirect_request(
        self, req: urllib.request.Request, fp: object, code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Follow no redirect."""


def _ask(url: str, settings: OAuthSettings, now_s: float) -> tuple[str, float | None]:
    """Return the token that an identity provider gives a client, and its lifetime."""
    request = urllib.request.Request(url, _form(settings, now_s), _headers(settings))  # noqa: S310 - checked
    opener = _opener(url, settings.ssl_stores)
    try:
        response: HTTPResponse
        with opener.open(request, timeout=settings.connect_timeout_s) as response:
            content = _content(response, settings.read_timeout_s)
    except urllib.error.HTTPError as error:
        error.close()
        status = f"{error.code} {error.reason}"
        raise NoAccessToken(f"{url} answers {status}", may_pass=error.code >= _RETRIED) from error
    except (OSError, ValueError) as error:
        if isinstance(cause := getattr(error, "reason", None), ssl.SSLCertVerificationError):
            reason = f"the certificate of {url} is refused: {cause.verify_message}"
            raise NoAccessToken(reason) from error
        raise NoAccessToken(f"{url} gives no access token: {error}", may_pass=True) from error
    return _answered(url, content)


def _opener(url: str, stores: TlsStores | None) -> urllib.request.OpenerDirector:
    if stores is None:
        return urllib.request.build_opener(_NoRedirect)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in Java each trusted certificate is an anchor, also one that is not a root.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        stores.load_into(context)
    except TidelogError as error:
        raise NoAccessToken(f"the stores for {url}: {error}") from error
    return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))


def _form(settings: OAuthSettings, now_s: float) -> bytes:
    fields = {"grant_type": settings.grant}
    if settings.assertion is not None:
        assertion = _assertion(settings.assertion, now_s)
        if settings.grant == JWT_BEARER:
            fields["assertion"] = assertion
        else:
            fields |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": assertion}
            if settings.client_id:
                fields["client_id"] = settings.client_id
    if settings.scope:
        fields["scope"] = settings.scope
    return urlencode(fields).encode()


def _assertion(settings: OAuthAssertion, now_s: float) -> str:
    # Not at the top: most clients are known by a secret.
    from tidelog.plugins.client.oauth_assertions import BadAssertion, assertion_of

    try:
        return assertion_of(settings, now_s)
    except BadAssertion as error:
        raise NoAccessToken(f"there is no assertion: {error}") from error


def _headers(settings: OAuthSettings) -> dict[str, str]:
    headers = {
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
        "Cache-Control": "no-cache",
    }
    if settings.assertion is None:
        client, secret = settings.client_id or "", settings.client_secret or ""
        if settings.header_urlencode:
            client, secret = quote_plus(client), quote_plus(secret)
        credentials = base64.b64encode(f"{client}:{secret}".encode()).decode()
        headers["Authorization"] = f"Basic {credentials}"
    return headers


def _content(response: HTTPResponse, timeout_s: float) -> bytes:
    deadline, content = time.monotonic() + timeout_s, b""
    while chunk := response.read1(_CHUNK_BYTES):
        content += chunk
        if len(content) > MAX_BYTES:
            raise ValueError(f"its answer has more than {MAX_BYTES} bytes")
        # The timeout of the socket is for each of its reads: a byte now and then would hold the thread.
        if time.monotonic() > deadline:
            raise TimeoutError(f"its answer did not arrive within {timeout_s:g} s")
    return content


def _answered(url: str, content: bytes) -> tuple[str, float | None]:
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    fields: Mapping[str, object] = cast("Mapping[str, object]", found) if isinstance(found, dict) else {}
    token, lifetime = fields.get("access_token"), fields.get("expires_in")
    if not isinstance(token, str):
        raise NoAccessToken(f"{url} answers without an access_token")
    return token, float(lifetime) if isinstance(lifetime, int | float) else None


@lru_cache(64)
def access_tokens_of(settings: OAuthSettings) -> AccessTokens:
    """Return the tokens of some settings, the same ones for all clients of the process that have them."""
    return AccessTokens(settings)
