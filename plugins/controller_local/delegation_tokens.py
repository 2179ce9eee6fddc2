"""Delegation tokens: which are created, and by whom and for how long they are renewed.

Source: `DelegationTokenControlManager` of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernel.config import keys
from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
    InvalidRequest,
    PolicyViolation,
)
from tidelog.kernel.ids import new_id
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.delegation_tokens import (
    DelegationTokenImage,
    NewDelegationToken,
    secret_key_of,
    token_hmac,
)
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.requests import ANONYMOUS

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.config import Config

MAX_TOKENS_OF_REQUESTER: Final = 10_000
"""Limit of the tokens that one principal has requested and that are there; Kafka has none."""
MAX_RENEWERS: Final = 1000
"""Limit of the renewers of one token; Kafka has none."""


class DelegationTokenRules:
    """Decides on delegation tokens; `clock` returns milliseconds since the epoch."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._secret = secret_key_of(config)
        self._max_lifetime_ms = config[keys.DELEGATION_TOKEN_MAX_LIFETIME_MS]
        self._renewal_ms = config[keys.DELEGATION_TOKEN_EXPIRY_TIME_MS]
        self._clock = clock
        self._ids: dict[bytes, str] = {}

    async def decide_creation(
        self, image: MetadataImage, new: NewDelegationToken
    ) -> tuple[MetadataDelta, str, DelegationTokenImage]:
        """Return the change that creates a token, its id, and the token.

        Raises:
            DelegationTokenAuthDisabled, InvalidPrincipalType, InvalidRequest, PolicyViolation: it is refused.
        """
        self._need_secret()
        if len(new.renewers) > MAX_RENEWERS:
            raise InvalidRequest(f"a delegation token has at most {MAX_RENEWERS} renewers")
        for renewer in new.renewers:
            kind, _, _ = renewer.partition(":")
            if kind != ANONYMOUS.type:
                raise InvalidPrincipalType(f"{renewer!r} cannot renew tokens: only users (User:NAME) can")
        await self._check_number(image, new.requester)
        now = self._clock()
        lifetime_ms = self._max_lifetime_ms
        if new.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, new.max_lifetime_ms)
        max_ms = min(now + lifetime_ms, LONG_MAX)
        expires_ms = min(max_ms, now + self._renewal_ms)
        token = DelegationTokenImage(new.owner, new.requester, new.renewers, now, max_ms, expires_ms)
        token_id = new_id()
        return MetadataDelta(tokens={token_id: token}), token_id, token

    async def decide_renewal(
        self, image: MetadataImage, hmac: bytes, principal: str, period_ms: int
    ) -> tuple[MetadataDelta, int]:
        """Return the change that renews a token, and when it expires then; a period of 0 is the longest.

        Raises:
            DelegationTokenAuthDisabled, DelegationTokenNotFound, DelegationTokenExpired,
            DelegationTokenOwnerMismatch: it is refused.
        """
        token_id, token = await self._find(image, hmac)
        now = self._check_time(token)
        self._check_principal(token, principal)
        longest = self._renewal_ms
        return self._expiring(token_id, token, now + (min(period_ms, longest) if period_ms > 0 else longest))

    async def decide_expiry(
        self, image: MetadataImage, hmac: bytes, principal: str, period_ms: int
    ) -> tuple[MetadataDelta, int]:
        """Return the change by which a token expires after a period, and when; a negative one removes it.

        Raises:
            DelegationTokenAuthDisabled, DelegationTokenNotFound, DelegationTokenExpired,
            DelegationTokenOwnerMismatch: it is refused.
        """
        token_id, token = await self._find(image, hmac)
        self._check_principal(token, principal)
        if period_ms < 0:
            return MetadataDelta(tokens={token_id: None}), self._clock()
        return self._expiring(token_id, token, self._check_time(token) + period_ms)

    async def decide_removal(self, image: MetadataImage) -> MetadataDelta:
        """Return the change that removes the tokens which have expired."""
        now, pace = self._clock(), Pace()
        expired: dict[str, None] = {}
        for token_id, token in image.tokens.items():
            if token.has_expired(now):
                expired[token_id] = None
            await pace.turn()
        return MetadataDelta(tokens=expired)

    def _need_secret(self) -> str:
        if self._secret is None:
            raise DelegationTokenAuthDisabled(
                f"there are no delegation tokens here: {keys.DELEGATION_TOKEN_SECRET_KEY.name} is not set"
            )
        return self._secret

    async def _check_number(self, image: MetadataImage, requester: str) -> None:
        if len(image.tokens) < MAX_TOKENS_OF_REQUESTER:
            return
        count, pace = 0, Pace()
        for token in image.tokens.values():
            count += token.requester == requester
            await pace.turn()
        if count >= MAX_TOKENS_OF_REQUESTER:
            raise PolicyViolation(
                f"{requester} has {count} delegation tokens, and cannot request more until some have expired"
            )

    async def _find(self, image: MetadataImage, hmac: bytes) -> tuple[str, DelegationTokenImage]:
        secret = self._need_secret()
        token_id = self._ids.get(hmac)
        if token_id is None or token_id not in image.tokens:
            await self._index(image, secret)
            token_id = self._ids.get(hmac)
        if token_id is None:
            raise DelegationTokenNotFound("there is no such delegation token")
        return token_id, image.tokens[token_id]

    async def _index(self, image: MetadataImage, secret: str) -> None:
        """Know the tokens of the image by their secrets, which are computed once for each."""
        self._ids = {hmac: token_id for hmac, token_id in self._ids.items() if token_id in image.tokens}
        known, pace = set(self._ids.values()), Pace()
        for token_id in image.tokens:
            if token_id not in known:
                self._ids[token_hmac(secret, token_id)] = token_id
            await pace.turn()

    def _check_time(self, token: DelegationTokenImage) -> int:
        now = self._clock()
        if token.has_expired(now):
            raise DelegationTokenExpired("the delegation token has expired")
        return now

    def _check_principal(self, token: DelegationTokenImage, principal: str) -> None:
        if not token.is_renewed_by(principal):
            raise DelegationTokenOwnerMismatch(f"{principal} neither owns the delegation token nor renews it")

    def _expiring(self, token_id: str, token: DelegationTokenImage, at_ms: int) -> tuple[MetadataDelta, int]:
        expires_ms = min(token.max_ms, at_ms)
        return MetadataDelta(tokens={token_id: token._replace(expires_ms=expires_ms)}), expires_ms
