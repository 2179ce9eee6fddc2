"""Conformance of SASL mechanisms: a suite for each that `sasl.enabled.mechanisms` can name.

    class TestMyMechanism(SaslMechanismConformance):
        def mechanism(self): ...
        def tokens(self, user, secret): ...

There are the users `alice` and `bob`, with the secrets `SECRETS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator
from functools import partial
from typing import Final, TypeAlias

from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.seams.sasl import Authenticated, AuthenticationFailed, SaslExchange, SaslMechanism
from tidelog.kernel.seams.wire import Peer
from tidelog.kernel.testing.loop_turns import longest_turn

ALICE, BOB, NO_ONE = "alice", "bob", "carol"
SECRETS: Final = {ALICE: "right-for-alice-1", BOB: "right-for-bob-22"}
PEER: Final = Peer("192.0.2.1", 4711, "SASL_PLAINTEXT")
GARBAGE: Final = (
    b"",
    b"\0",
    b"\0\0",
    b"\0" * 1000,
    b"=,=,=",
    b"n,,",
    b"n,,n=,r=",
    b"\xff\xfe\xfd",
    b"{}",
    b"a.b.c",
    b"a" * 100_000,
    "\u202eälïce\0\0".encode(),
)
MOST_ROUNDS: Final = 10
MOST_TOKEN_SECONDS: Final = 1.0
"""As long may a token take on the event loop of a machine that is busy: all connections wait meanwhile."""

Tokens: TypeAlias = Generator[bytes, bytes, None]
"""A client: yields its tokens, and gets the answer to each."""


class SaslMechanismConformance(ABC):
    """All that a broker relies on."""

    replayable: bool = False
    """Whether the tokens of a client are the same each time, as with passwords that are sent."""

    @abstractmethod
    def mechanism(self) -> SaslMechanism:
        """Return a mechanism that knows both users."""

    @abstractmethod
    def tokens(self, user: str, secret: str) -> Tokens:
        """Return a client that authenticates as `user` by a secret."""

    async def outcome(self, exchange: SaslExchange, client: Tokens) -> Principal | str:
        """Return who a client is, or with what message it is refused; another exception is a failure."""
        principal, message, _ = await self._run(exchange, client)
        return message if principal is None else principal

    async def _run(self, exchange: SaslExchange, client: Tokens) -> tuple[Principal | None, str, list[bytes]]:
        sent: list[bytes] = []
        try:
            token = next(client)
            for _ in range(MOST_ROUNDS):
                sent.append(token)
                answer = exchange.respond(token)
                if isinstance(answer, Awaitable):
                    answer = await answer
                if isinstance(answer, Authenticated):
                    return answer.principal, "", sent
                token = client.send(answer)
        except StopIteration:
            return None, "the client has given up", sent
        except AuthenticationFailed as error:
            return None, str(error), sent
        raise AssertionError(f"nothing is decided after {MOST_ROUNDS} tokens")

    async def log_in(self, user: str, secret: str) -> Principal | str:
        """Return the outcome of a new exchange."""
        return await self.outcome(self.mechanism().start(PEER), self.tokens(user, secret))

    async def test_who_has_the_secret_is_let_in_as_who_it_is(self) -> None:
        mechanism = self.mechanism()
        for user, secret in SECRETS.items():
            for _ in range(2):
                found = await self.outcome(mechanism.start(PEER), self.tokens(user, secret))
                assert found == Principal("User", user)

    async def test_other_secrets_are_refused(self) -> None:
        right = SECRETS[ALICE]
        for wrong in (SECRETS[BOB], right[:-1], right + "x", right.upper(), right[::-1], " " + right, "x"):
            assert isinstance(await self.log_in(ALICE, wrong), str), wrong

    async def test_an_empty_secret_is_refused(self) -> None:
        for user in (ALICE, NO_ONE, ""):
            assert isinstance(await self.log_in(user, ""), str)

    async def test_users_that_are_unknown_are_refused_like_wrong_secrets(self) -> None:
        refused = await self.log_in(ALICE, "wrong-for-alice-1")
        assert refused == await self.log_in(NO_ONE, "wrong-for-alice-1")
        assert refused == await self.log_in(NO_ONE, SECRETS[ALICE])
        assert ALICE not in str(refused)

    async def test_names_are_compared_exactly(self) -> None:
        for name in ("Alice", "alice ", " alice", "alic", "alicee", "alice\n", "User:alice", "*"):
            assert isinstance(await self.log_in(name, SECRETS[ALICE]), str), name

    async def test_garbage_is_refused_and_no_failure(self) -> None:
        mechanism = self.mechanism()
        for garbage in GARBAGE:
            assert await self._lets_no_one_in(mechanism.start(PEER), [garbage] * 3), garbage[:20]

    async def test_a_first_token_that_is_cut_lets_no_one_in(self) -> None:
        mechanism, first = self.mechanism(), next(self.tokens(ALICE, SECRETS[ALICE]))
        for end in range(len(first)):
            assert await self._lets_no_one_in(mechanism.start(PEER), [first[:end]]), end

    async def test_tokens_of_another_exchange_let_no_one_in_again(self) -> None:
        if self.replayable:
            return
        mechanism = self.mechanism()
        principal, _, sent = await self._run(mechanism.start(PEER), self.tokens(ALICE, SECRETS[ALICE]))
        assert principal is not None
        assert await self._lets_no_one_in(mechanism.start(PEER), sent)
        assert await self._lets_no_one_in(mechanism.start(PEER), sent[1:])

    async def test_exchanges_do_not_mix(self) -> None:
        mechanism = self.mechanism()
        wrong, right = mechanism.start(PEER), mechanism.start(PEER)
        clients = {wrong: self.tokens(BOB, "wrong-for-bob-222"), right: self.tokens(ALICE, SECRETS[ALICE])}
        # Those that have several rounds have both begun then. A client whose own side refuses the secret, as
        # one of Kerberos, sends no token.
        firsts = {exchange: next(client, b"") for exchange, client in clients.items()}
        for exchange in (right, wrong):
            client = clients[exchange]
            found = await self.outcome(exchange, _again(firsts[exchange], client))
            assert (found == Principal("User", ALICE)) is (exchange is right)

    async def test_after_a_failure_the_same_exchange_lets_no_one_in_by_what_was_refused(self) -> None:
        exchange = self.mechanism().start(PEER)
        _, _, sent = await self._run(exchange, self.tokens(ALICE, "wrong-for-alice-1"))
        assert await self._lets_no_one_in(exchange, sent[-1:])

    async def test_no_token_blocks_the_event_loop(self) -> None:
        exchange, client = self.mechanism().start(PEER), self.tokens(ALICE, SECRETS[ALICE])
        token = next(client)
        for _ in range(MOST_ROUNDS):
            # A client sends each token once: there is no second try for one that was slow by chance.
            seconds, answer = await longest_turn(partial(exchange.respond, token))
            assert seconds <= MOST_TOKEN_SECONDS, "what takes long belongs in a thread"
            if isinstance(answer, Authenticated):
                return
            token = client.send(answer)

    async def _lets_no_one_in(self, exchange: SaslExchange, tokens: list[bytes]) -> bool:
        """Return whether none of the tokens is the end of an exchange; each failure is one of the peer."""
        for token in tokens:
            try:
                answer = exchange.respond(token)
                if isinstance(answer, Awaitable):
                    answer = await answer
            except AuthenticationFailed:
                return True
            if isinstance(answer, Authenticated):
                return False
        return True


def _again(first: bytes, client: Tokens) -> Tokens:
    """Return a client whose first token is taken already."""
    try:
        token = first
        while True:
            token = client.send((yield token))
    except StopIteration:
        return
