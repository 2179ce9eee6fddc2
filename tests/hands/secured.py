"""Users, access control entries, quotas and delegation tokens, which change hands with the directory."""

from __future__ import annotations

import attrs

from tests.deadlines import wait_until
from tidelog.client import AclBinding, Admin, DelegationToken, NewScramPassword, QuotaEntity, ScramUser
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.acls import AclBindingFilter

LISTENER = "USERS"
ALICE = "alice"
RATE = "producer_byte_rate"
HOUR_MS = 3_600_000
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS = {
    "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
    "listener.name.users.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    f'required user_{ALICE}="secret";',
    **{
        f"listener.name.users.{name.lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        )
        for name in MECHANISMS
    },
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "of both brokers",
}
"""Of both brokers, beside their listeners."""


@attrs.frozen
class Settled:
    """What is set: iterations of users, entries, rates, and when which token expires."""

    users: dict[str, int] = attrs.field(factory=dict[str, int])
    acls: set[AclBinding] = attrs.field(factory=set[AclBinding])
    rates: dict[QuotaEntity, float] = attrs.field(factory=dict[QuotaEntity, float])
    tokens: dict[str, int] = attrs.field(factory=dict[str, int])


class Secured:
    """What clients without SASL have set, and tokens of a user with SASL."""

    def __init__(self, bootstrap: str, secured: str) -> None:
        self._bootstrap = bootstrap
        self._secured = secured
        self._settled = Settled()
        self._tokens: list[DelegationToken] = []

    def turn(self, number: int) -> None:
        """Add one of each, change what the other broker has added, and remove what is older."""
        settled, names = self._settled, [f"{kind}-{number}" for kind in ("user", "topic")]
        user, topic = names
        with Admin(self._bootstrap) as admin:
            for name, iterations in ((user, 4096 + number), (f"user-{number - 1}", 8192)):
                if name == user or name in settled.users:
                    changes = {
                        ScramUser(name, each): NewScramPassword(name, iterations) for each in MECHANISMS
                    }
                    admin.alter_user_scram_credentials(changes)
                    settled.users[name] = iterations
            acl = AclBinding(
                f"User:{user}", "read", "topic", topic, pattern=("literal", "prefixed")[number % 2]
            )
            admin.create_acls([acl])
            settled.acls.add(acl)
            rates = {
                QuotaEntity(user=user): 1000.0 + number,
                QuotaEntity(user=QuotaEntity.DEFAULT): 1e9 + number,
            }
            admin.alter_quotas({entity: {RATE: rate} for entity, rate in rates.items()})
            settled.rates.update(rates)
            self._remove(admin, number - 2)
        with self._logged_in() as admin:
            token = admin.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=100 * HOUR_MS)
            settled.tokens[token.token_id] = token.expires_ms
            if self._tokens:
                before = self._tokens[-1]
                settled.tokens[before.token_id] = admin.renew_delegation_token(before.hmac, HOUR_MS)
            self._tokens.append(token)
            for old in self._tokens[:-2]:
                admin.expire_delegation_token(old.hmac)
                del settled.tokens[old.token_id]
            self._tokens = self._tokens[-2:]
        self.check()

    def _remove(self, admin: Admin, number: int) -> None:
        settled, user = self._settled, f"user-{number}"
        if QuotaEntity(user=user) not in settled.rates:
            return
        # The credentials stay: from a log in which a user was removed Apache Kafka 4.4.0 may load none,
        # if that one comes first in its hash table (`ScramDelta.apply`).
        admin.delete_acls([AclBindingFilter(principal=f"User:{user}")])
        admin.alter_quotas({QuotaEntity(user=user): {RATE: None}})
        del settled.rates[QuotaEntity(user=user)]
        settled.acls.difference_update([each for each in settled.acls if each.principal == f"User:{user}"])

    def check(self) -> None:
        """Assert that all of it is there and nothing else, and that users and tokens log in.

        Apache Kafka applies a change soon after it has acknowledged it.
        """
        seen: list[Settled] = []

        def is_there() -> bool:
            try:
                seen.append(self._look())
            except ClientError:
                return False
            return seen[-1] == self._settled

        try:
            wait_until(is_there, "what was set")
        finally:
            assert not seen or seen[-1] == self._settled
        for user in self._settled.users:
            for mechanism in MECHANISMS:
                self._log_in(mechanism, _login(user, user))
        for token in self._tokens:
            self._log_in(MECHANISMS[0], _login(token.token_id, token.password, " tokenauth=true"))

    def _look(self) -> Settled:
        with Admin(self._bootstrap) as admin, self._logged_in() as alice:
            users = admin.describe_user_scram_credentials()
            assert all(len({*found.values()}) == 1 and len(found) == 2 for found in users.values()), users
            return Settled(
                {user: next(iter(found.values())) for user, found in users.items()},
                set(admin.describe_acls()),
                {entity: found[RATE] for entity, found in admin.describe_quotas().items()},
                {token.token_id: token.expires_ms for token in alice.describe_delegation_tokens()},
            )

    def _logged_in(self) -> Admin:
        return self._client("PLAIN", _login(ALICE, "secret", module="PlainLoginModule"))

    def _log_in(self, mechanism: str, line: str) -> None:
        with self._client(mechanism, line) as admin:
            admin.describe_cluster()

    def _client(self, mechanism: str, line: str) -> Admin:
        return Admin(
            self._secured, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_jaas_config=line
        )


def _login(user: str, password: str, more: str = "", module: str = "ScramLoginModule") -> str:
    return f'{module} required username="{user}" password="{password}"{more};'
