"""The public keys of an identity provider (a JWK set, RFC 7517), read from a file or by HTTP, and read again.

One task reads them (`run`): every `refresh_s`, after a failure with a growing wait, and at once when a token
names a key that is not there, though no more often than every `MIN_INTERVAL_S`: tokens are of anyone. Reading
is done by one thread, with limits of time and size. What was read stays in use until the next success.
"""

from __future__ import annotations

import logging
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote, urlsplit

import jwt
import trio

from tidelog.plugins.sasl.access_tokens import BadAccessToken, UnknownSigner, parse_json_object, parts_of

if TYPE_CHECKING:
    from email.message import Message
    from http.client import HTTPResponse

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 1024 * 1024
MAX_KEYS: Final = 100
READ_TIMEOUT_S: Final = 10.0
MIN_INTERVAL_S: Final = 10.0
WAIT_FOR_KEY_S: Final = 5.0
"""How long a client waits for a key that its token names and that is not there yet."""
ALGORITHMS: Final = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
)
"""Those with a public key. With HS256 one could be taken for a shared secret; `none` has no signature."""
_CHUNK_BYTES: Final = 64 * 1024
_FILE: Final = "file"


class UnreadableKeys(Exception):
    """A key set cannot be read; the message says why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The configured address has the keys, or none has them."""

    def redirect_request(
        self, req: urllib.request.Request, fp: object, code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Follow no redirect."""


class KeySet:
    """The keys of one identity provider."""

    def __init__(self, url: str, *, refresh_s: float, backoff_s: float, max_backoff_s: float) -> None:
        """Set where the keys are; those of a file are read at once.

        Raises:
            UnreadableKeys: the URL has another scheme, or the file cannot be read.
        """
        self.url = url
        self._refresh_s, self._backoff_s, self._max_backoff_s = refresh_s, backoff_s, max_backoff_s
        self._keys: list[Mapping[str, object]] = []
        self._usable: dict[tuple[object, str], list[jwt.PyJWK]] = {}
        self._limiter = trio.CapacityLimiter(1)
        self._wanted = trio.Event()
        self._was_read = trio.Event()
        self._read_at = float("-inf")
        scheme = urlsplit(url).scheme
        if scheme not in (_FILE, "http", "https"):
            raise UnreadableKeys(f"{url} has none of the schemes https, http and file")
        if scheme == _FILE:
            self._use(read_key_set(url))

    def claims_of(self, token: str) -> Mapping[str, object]:
        """Return the claims of a token that one of the keys has signed.

        Raises:
            UnknownSigner: the key is not there; it may be after `wait_for_read`.
            BadAccessToken: the token is malformed, or its signature is wrong.
        """
        header, claims, _ = parts_of(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise BadAccessToken(f"its algorithm {str(algorithm)[:20]!r} is none with a public key")
        found = self._keys_for(key_id, algorithm)
        if not found:
            raise UnknownSigner(f"no key of {self.url} fits its key id {str(key_id)[:100]!r} and {algorithm}")
        for key in found:
            try:
                jwt.PyJWS().decode(token, key, algorithms=[algorithm])
            except jwt.PyJWTError:
                continue
            return parse_json_object(claims)
        raise BadAccessToken("its signature is wrong")

    def _keys_for(self, key_id: object, algorithm: str) -> list[jwt.PyJWK]:
        """Return the keys that may have signed a token, all that fit if it names none."""
        ids = {key.get("kid") for key in self._keys}
        if key_id is not None and (not isinstance(key_id, str) or key_id not in ids):
            return []
        if (found := self._usable.get((key_id, algorithm))) is None:
            fitting = [key for key in self._keys if key_id is None or key.get("kid") == key_id]
            made = [_usable_key(key, algorithm) for key in fitting]
            found = self._usable[key_id, algorithm] = [key for key in made if key is not None]
        return found

    async def wait_for_read(self) -> None:
        """Have the keys read, and wait for that; return at once if they were read a moment ago."""
        if trio.current_time() - self._read_at < MIN_INTERVAL_S:
            return
        was_read = self._was_read
        self._wanted.set()
        with trio.move_on_after(WAIT_FOR_KEY_S):
            await was_read.wait()

    async def run(self) -> None:
        """Read the keys until cancelled."""
        failures = 0
        while True:
            self._wanted = trio.Event()
            failures = 0 if await self._read() else failures + 1
            self._was_read.set()
            self._was_read = trio.Event()
            if failures:
                # The exponent has a limit: a float has one.
                await trio.sleep(min(self._backoff_s * 2.0 ** min(failures - 1, 30), self._max_backoff_s))
                continue
            with trio.move_on_after(self._refresh_s):
                await self._wanted.wait()

    async def _read(self) -> bool:
        self._read_at = trio.current_time()
        try:
            with trio.fail_after(READ_TIMEOUT_S):
                # A thread that is abandoned keeps the limiter, so that there is never a second one.
                keys = await trio.to_thread.run_sync(
                    read_key_set, self.url, abandon_on_cancel=True, limiter=self._limiter
                )
        except trio.TooSlowError:
            _log.warning("%s: no keys within %g s; those from before stay in use", self.url, READ_TIMEOUT_S)
            return False
        except UnreadableKeys as error:
            _log.warning("%s; the keys from before stay in use", error)
            return False
        self._use(keys)
        return True

    def _use(self, keys: list[Mapping[str, object]]) -> None:
        self._keys, self._usable = keys, {}


def _usable_key(key: Mapping[str, object], algorithm: str) -> jwt.PyJWK | None:
    """Return a key for signatures by an algorithm, None if it is for something else."""
    if key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm:
        return None
    try:
        return jwt.PyJWK(dict(key), algorithm)
    # What a library of keys raises for odd parameters has many classes.
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None


def read_key_set(url: str) -> list[Mapping[str, object]]:
    """Return the keys of a set that is read from a file or by HTTP; blocks.

    Raises:
        UnreadableKeys: they cannot be read, or what is read is no set.
    """
    try:
        content = _file_content(url) if urlsplit(url).scheme == _FILE else _http_content(url)
    except (OSError, ValueError) as error:
        raise UnreadableKeys(f"the keys at {url} cannot be read: {error}") from error
    if len(content) > MAX_BYTES:
        raise UnreadableKeys(f"the keys at {url} have more than {MAX_BYTES} bytes")
    try:
        found = parse_json_object(content).get("keys")
    except BadAccessToken:
        found = None
    if not isinstance(found, list):
        raise UnreadableKeys(f"what is at {url} is no set of keys (JSON with a list `keys`)")
    items = cast("list[object]", found[:MAX_KEYS])
    keys = [cast("Mapping[str, object]", item) for item in items if isinstance(item, dict)]
    if not keys:
        raise UnreadableKeys(f"the set of keys at {url} is empty")
    return keys


def _file_content(url: str) -> bytes:
    with Path(unquote(urlsplit(url).path)).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _http_content(url: str) -> bytes:
    deadline = time.monotonic() + READ_TIMEOUT_S
    opener = urllib.request.build_opener(_NoRedirect)
    content = b""
    response: HTTPResponse
    with opener.open(url, timeout=READ_TIMEOUT_S / 2) as response:
        while len(content) <= MAX_BYTES and (chunk := response.read1(_CHUNK_BYTES)):
            content += chunk
            # The timeout of the socket is for each of its reads: a byte now and then would hold the thread.
            if time.monotonic() > deadline:
                raise TimeoutError(f"they did not arrive within {READ_TIMEOUT_S:g} s")
    return content
