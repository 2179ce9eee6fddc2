"""Which names are those of secrets."""

from __future__ import annotations

import pytest

from tests.kernel.config.test_keys import declared
from tidelog.kernel.config.secret_names import mentions_secret, names_secret

# Kafka's type of these is password, too, but anyone may see a certificate; and only some headers are secrets.
NO_SECRETS = {"opentelemetry.headers", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"}


def test_the_names_of_secret_keys_are_those_of_secrets_and_no_others() -> None:
    keys = [key for _, key in declared().values() if key.name not in NO_SECRETS]
    assert [key.name for key in keys if names_secret(key.name) is not key.secret] == []


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.jaas.config",
        "listener.name.x.scram-sha-256.sasl.jaas.config",
        "sasl_plain_password",
        "kafka.ssl.keystore.key",
        "ssl_keystore_key",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.bucket.tides.session.token",
        "fs.azure.account.key.tides.dfs.core.windows.net",
        "spark.ssl.keyPassword",
        "google.cloud.auth.service.account.private.key",
        "Authorization",
    ],
)
def test_a_name_of_a_secret(name: str) -> None:
    assert names_secret(name)
    assert mentions_secret(f"{name}=x")


@pytest.mark.parametrize(
    "name",
    [
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl_oauthbearer_token_endpoint_url",
        "delegation.token.max.lifetime.ms",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "key.schema",
        "retention.ms",
    ],
)
def test_a_name_of_no_secret(name: str) -> None:
    assert not names_secret(name)
