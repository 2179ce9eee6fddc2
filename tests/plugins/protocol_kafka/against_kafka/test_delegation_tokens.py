"""Delegation tokens: the answers of Apache Kafka 4.4.0, field by field, to the same requests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
import pytest

from tests.deadlines import wait_until
from tests.peers.kafka_server import running_kafka
from tests.peers.ports import LOOPBACK, free_ports
from tests.tables import for_each
from tidelog.kernel.metadata.scram import ScramMechanism
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client.sasl import SaslTokens, plain_tokens, scram_tokens
from tidelog.plugins.protocol_kafka.messages import api as a
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .asking import Asker, message, plain
from .test_authorization import STANDARD

ALICE, BOB, CAROL, ROOT = "alice", "bob", "carol", "root"
USERS: Final = (ALICE, BOB, CAROL, ROOT)
MINUTE_MS: Final = 60_000
MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
TOKEN_APIS: Final = (
    a.CREATE_DELEGATION_TOKEN,
    a.RENEW_DELEGATION_TOKEN,
    a.EXPIRE_DELEGATION_TOKEN,
    a.DESCRIBE_DELEGATION_TOKEN,
)
SETTINGS: Final = {
    "authorizer.class.name": STANDARD,
    "super.users": f"User:ANONYMOUS;User:{ROOT}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISMS,
    "listener.name.users.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        + "".join(f' user_{user}="secret"' for user in USERS)
        + ";"
    ),
    "delegation.token.secret.key": "a secret of both",
    "delegation.token.max.lifetime.ms": str(60 * MINUTE_MS),
    "delegation.token.expiry.time.ms": str(10 * MINUTE_MS),
}


def authenticated(bootstrap: str, mechanism: str, tokens: SaslTokens) -> Asker:
    """A connection that has logged in with these tokens."""
    asker = Asker(bootstrap)
    asked: Any = {"mechanism": mechanism}
    assert not asker.ask(a.SASL_HANDSHAKE, 1, message(a.SASL_HANDSHAKE.request_class, asked)).error_code
    token = next(tokens)
    while True:
        asked = message(a.SASL_AUTHENTICATE.request_class, {"auth_bytes": token})
        answer = asker.ask(a.SASL_AUTHENTICATE, 2, asked)
        assert not answer.error_code, answer.error_message
        try:
            token = tokens.send(bytes(answer.auth_bytes))
        except StopIteration:
            return asker


@attrs.frozen
class TokenSide:
    """A broker: connections by user, that of no user included, and the secrets of tokens by name."""

    name: str
    unsecured: str
    secured: str
    askers: dict[str, Asker] = attrs.field(factory=dict[str, Asker])
    tokens: dict[str, Any] = attrs.field(factory=dict[str, Any])

    def ask(self, user: str, api: Api, version: int, values: Mapping[str, Any]) -> Any:
        """The answer to a user's request."""
        return self.asker(user).ask(api, version, message(api.request_class, values))

    def asker(self, user: str) -> Asker:
        """The connection of a user; without a name that of none, and for the name of a token by it."""
        if user not in self.askers:
            if not user:
                self.askers[user] = Asker(self.unsecured)
            elif user in self.tokens:
                self.askers[user] = self.by_token(user, ScramMechanism.SCRAM_SHA_256)
            else:
                self.askers[user] = authenticated(self.secured, "PLAIN", plain_tokens(user, "secret"))
        return self.askers[user]

    def by_token(self, name: str, mechanism: ScramMechanism) -> Asker:
        """A connection that has logged in with a token."""
        token = self.tokens[name]
        password = b64encode(token.hmac).decode()
        tokens = scram_tokens(mechanism, token.token_id, password, by_token=True)
        return authenticated(self.secured, mechanism.sasl_name, tokens)

    def close(self) -> None:
        """Disconnect."""
        for asker in self.askers.values():
            asker.close()


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TokenSide, TokenSide]]:
    """Apache Kafka and tidelog, with the same users and secret."""
    plain_port, sasl_port, controller = free_ports(3)
    addresses = f"PLAINTEXT://{LOOPBACK}:{plain_port},USERS://{LOOPBACK}:{sasl_port}"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    of_kafka = {
        **SETTINGS,
        "listeners": f"{addresses},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listener.name.users.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.users.scram-sha-512.sasl.jaas.config": scram,
    }
    of_tidelog = {**SETTINGS, "listeners": f"PLAINTEXT://{LOOPBACK}:0,USERS://{LOOPBACK}:0"}
    with (
        running_kafka(tmp_path_factory.mktemp("kafka"), settings=of_kafka, port=plain_port),
        broker_in_thread(of_tidelog) as running,
    ):
        listeners = running.broker.listeners
        found = (
            TokenSide("kafka", f"{LOOPBACK}:{plain_port}", f"{LOOPBACK}:{sasl_port}"),
            TokenSide("tidelog", listeners["PLAINTEXT"], listeners["USERS"]),
        )
        yield found
        for side in found:
            side.close()


def normalized(answer: Any) -> Any:
    """An answer without what each broker generates; times are relative to the issue of their token."""
    if isinstance(answer, list):
        return sorted(map(normalized, answer), key=repr)
    if not isinstance(answer, dict):
        return answer
    found = {name: normalized(value) for name, value in answer.items()}
    issued = found.get("issue_timestamp_ms", found.get("issue_timestamp"))
    for name, value in found.items():
        if isinstance(value, int) and value > 10**9:
            # A request may take a second; a lifetime is one of minutes.
            found[name] = "a time" if issued is None else round((value - issued) / 10_000)
    if "hmac" in found:
        found["hmac"] = len(found["hmac"])
        found["token_id"] = len(found["token_id"])
    return found


Sides = tuple[TokenSide, TokenSide]


Values = Mapping[str, Any]


def same(
    sides: Sides, user: str, api: Api, version: int, values: Callable[[TokenSide], Values] | Values
) -> Any:
    """Assert that both brokers answer alike, and return Kafka's answer.

    Kafka applies a change soon after it has acknowledged it, so it is asked again for a description.
    """
    kafka, tidelog = ((side, values if isinstance(values, Mapping) else values(side)) for side in sides)
    found = normalized(plain(tidelog[0].ask(user, api, version, tidelog[1])))
    answers: list[Any] = []

    def is_same() -> bool:
        answers.append(normalized(plain(kafka[0].ask(user, api, version, kafka[1]))))
        return bool(answers[-1] == found)

    if api is a.DESCRIBE_DELEGATION_TOKEN:
        # The assertion below says more.
        with suppress(AssertionError):
            wait_until(is_same, "the answer of tidelog")
    else:
        is_same()
    assert found == answers[-1], f"{api.name} {version} of {user}: {values}"
    return answers[-1]


def create(sides: Sides, name: str, user: str = ALICE, version: int = 3, **values: Any) -> None:
    """Create a token at both brokers, which later requests name."""
    values = {"max_lifetime_ms": -1, **values}
    for side in sides:
        side.tokens[name] = side.ask(user, a.CREATE_DELEGATION_TOKEN, version, values)
    kafka, tidelog = (normalized(plain(side.tokens[name])) for side in sides)
    assert tidelog == kafka
    assert kafka["error_code"] == 0

    def is_there() -> bool:
        answer = sides[0].ask(ROOT, a.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})
        return any(token.token_id == sides[0].tokens[name].token_id for token in answer.tokens)

    wait_until(is_there, "the token at Kafka's broker")


def of_token(name: str, **values: Any) -> Callable[[TokenSide], Mapping[str, Any]]:
    """The values of a request about a token."""
    return lambda side: {"hmac": bytes(side.tokens[name].hmac), **values}


def versions(api: Api) -> list[int]:
    """Those that Kafka 4.4 serves."""
    return [*range(1, api.versions.high + 1)]


@for_each("user", ["", "of alice"])
def test_tokens_are_requested_by_clients_that_have_logged_in_without_one(sides: Sides, user: str) -> None:
    if user:
        create(sides, user)
    for api in TOKEN_APIS:
        for version in versions(api):
            answer = same(sides, user, api, version, {})
            assert answer["error_code"] == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@for_each("version", versions(a.CREATE_DELEGATION_TOKEN))
def test_create(sides: Sides, version: int) -> None:
    renewers = [{"principal_type": "User", "principal_name": name} for name in (BOB, BOB, CAROL, "")]
    for lifetime in (-1, 0, 5 * MINUTE_MS, 2**63 - 1):
        asked = {"renewers": renewers, "max_lifetime_ms": lifetime}
        assert same(sides, ALICE, a.CREATE_DELEGATION_TOKEN, version, asked)["error_code"] == 0
    asked = {"renewers": [{"principal_type": "Group", "principal_name": "g"}], "max_lifetime_ms": -1}
    answer = same(sides, ALICE, a.CREATE_DELEGATION_TOKEN, version, asked)
    assert answer["error_code"] == ErrorCode.INVALID_PRINCIPAL_TYPE


def of_owner(name: str | None, kind: str | None = "User", **more: Any) -> dict[str, Any]:
    """The values of a request for a token of another owner."""
    return {"owner_principal_type": kind, "owner_principal_name": name, "max_lifetime_ms": -1, **more}


def test_create_for_another_owner(sides: Sides) -> None:
    refused = same(sides, ALICE, a.CREATE_DELEGATION_TOKEN, 3, of_owner(BOB))
    assert refused["error_code"] == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    invalid = [{"principal_type": "Group", "principal_name": "g"}]
    same(sides, ALICE, a.CREATE_DELEGATION_TOKEN, 3, of_owner(BOB, renewers=invalid))
    same(sides, ALICE, a.CREATE_DELEGATION_TOKEN, 3, of_owner(ALICE))
    same(sides, ALICE, a.CREATE_DELEGATION_TOKEN, 3, of_owner(""))
    same(sides, ALICE, a.CREATE_DELEGATION_TOKEN, 3, of_owner(None, None))
    grant(sides, ResourceType.USER, f"User:{BOB}", AclOperation.CREATE_TOKENS)
    answer = same(sides, ALICE, a.CREATE_DELEGATION_TOKEN, 3, of_owner(BOB))
    assert (answer["error_code"], answer["principal_name"]) == (0, BOB)
    assert answer["token_requester_principal_name"] == ALICE


def grant(sides: Sides, kind: ResourceType, name: str, operation: AclOperation, user: str = ALICE) -> None:
    """Allow alice, or another one, an operation at both brokers, until it is in force."""
    entry = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": f"User:{user}",
        "host": "*",
        "operation": operation,
        "permission_type": 3,
    }
    for side in sides:
        answer = side.ask("", a.CREATE_ACLS, 3, {"creations": [entry]})
        assert not answer.results[0].error_code
    named = {"resource_type_filter": kind, "resource_name_filter": name, "pattern_type_filter": 3}
    asked = {**named, "operation": operation, "permission_type": 3}

    def is_in_force() -> bool:
        return bool(sides[0].ask("", a.DESCRIBE_ACLS, 3, asked).resources)

    wait_until(is_in_force, "the entry at Kafka's broker")


@for_each("version", versions(a.RENEW_DELEGATION_TOKEN))
def test_renew(sides: Sides, version: int) -> None:
    api, name = a.RENEW_DELEGATION_TOKEN, f"renewed {version}"
    create(sides, name, renewers=[{"principal_type": "User", "principal_name": BOB}])
    for user, period in ((ALICE, -1), (ALICE, 0), (ALICE, MINUTE_MS), (BOB, 2**63 - 1)):
        assert same(sides, user, api, version, of_token(name, renew_period_ms=period))["error_code"] == 0
    of_no_one = same(sides, CAROL, api, version, of_token(name, renew_period_ms=-1))
    assert of_no_one["error_code"] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    unknown = same(sides, ALICE, api, version, {"hmac": b"x", "renew_period_ms": -1})
    assert unknown["error_code"] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    same(sides, ALICE, a.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})


@for_each("version", versions(a.EXPIRE_DELEGATION_TOKEN))
def test_expire(sides: Sides, version: int) -> None:
    api, name = a.EXPIRE_DELEGATION_TOKEN, f"expiring {version}"
    create(sides, name, renewers=[{"principal_type": "User", "principal_name": BOB}])
    for user, period in ((BOB, MINUTE_MS), (ALICE, 2**60)):
        assert (
            same(sides, user, api, version, of_token(name, expiry_time_period_ms=period))["error_code"] == 0
        )
    of_no_one = same(sides, CAROL, api, version, of_token(name, expiry_time_period_ms=-1))
    assert of_no_one["error_code"] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    same(sides, ALICE, api, version, {"hmac": b"", "expiry_time_period_ms": -1})
    assert same(sides, ALICE, api, version, of_token(name, expiry_time_period_ms=-1))["error_code"] == 0
    same(sides, ALICE, a.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})
    gone = same(sides, ALICE, api, version, of_token(name, expiry_time_period_ms=-1))
    assert gone["error_code"] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_that_has_expired_is_not_renewed_and_can_be_removed(sides: Sides) -> None:
    create(sides, "expired")
    same(sides, ALICE, a.EXPIRE_DELEGATION_TOKEN, 2, of_token("expired", expiry_time_period_ms=0))
    for api, period in ((a.RENEW_DELEGATION_TOKEN, "renew"), (a.EXPIRE_DELEGATION_TOKEN, "expiry_time")):
        asked = of_token("expired", **{f"{period}_period_ms": MINUTE_MS})
        wait_until(
            lambda api=api, asked=asked: bool(  # type: ignore[misc]
                sides[0].ask(ALICE, api, 2, asked(sides[0])).error_code
            ),
            "the end of the token's time at Kafka",
        )
        answer = same(sides, ALICE, api, 2, asked)
        assert answer["error_code"] == ErrorCode.DELEGATION_TOKEN_EXPIRED
    same(sides, ALICE, a.EXPIRE_DELEGATION_TOKEN, 2, of_token("expired", expiry_time_period_ms=-1))


@for_each("version", versions(a.DESCRIBE_DELEGATION_TOKEN))
def test_describe(sides: Sides, version: int) -> None:
    api = a.DESCRIBE_DELEGATION_TOKEN
    create(sides, f"described {version}", BOB, renewers=[{"principal_type": "User", "principal_name": ALICE}])
    create(sides, f"hidden {version}", CAROL)
    owners: list[Any] = [
        None,
        [],
        *([{"principal_type": "User", "principal_name": name}] for name in (ALICE, BOB, CAROL, "nobody")),
    ]
    for user in (ALICE, BOB, CAROL, ROOT):
        for asked in owners:
            assert same(sides, user, api, version, {"owners": asked})["error_code"] == 0


def test_describe_shows_what_entries_permit(sides: Sides) -> None:
    create(sides, "first of root", ROOT)
    create(sides, "second of root", ROOT)

    def seen() -> int:
        return len(same(sides, CAROL, a.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})["tokens"])

    before = seen()
    for side in sides:
        only = side.tokens["first of root"].token_id
        grant((side, side), ResourceType.DELEGATION_TOKEN, only, AclOperation.DESCRIBE, CAROL)
    assert seen() == before + 1
    grant(sides, ResourceType.USER, f"User:{ROOT}", AclOperation.DESCRIBE_TOKENS, CAROL)
    assert seen() >= before + 2


@for_each("mechanism", [*ScramMechanism])
def test_the_holder_of_a_token_is_its_owner(sides: Sides, mechanism: ScramMechanism) -> None:
    grant(sides, ResourceType.USER, f"User:{BOB}", AclOperation.CREATE_TOKENS)
    grant(sides, ResourceType.TOPIC, "of-bob", AclOperation.CREATE, BOB)
    name = f"of bob {mechanism}"
    create(sides, name, ALICE, **of_owner(BOB))
    asked = {
        "topics": [{"name": each, "num_partitions": 1, "replication_factor": 1} for each in ("of-bob", "x")]
    }
    for side in sides:
        asker = side.by_token(name, mechanism)
        answer = asker.ask(a.CREATE_TOPICS, 5, message(a.CREATE_TOPICS.request_class, asked))
        codes = {topic.name: topic.error_code for topic in answer.topics}
        assert codes["x"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert codes["of-bob"] in (0, ErrorCode.TOPIC_ALREADY_EXISTS)
        asker.close()
