"""The keys of Kafka's clients for access tokens, and the settings that they are (`OAuthSettings`)."""

from __future__ import annotations

from typing import Final

URL: Final = "sasl.oauthbearer.token.endpoint.url"
URL_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
HANDLER: Final = "sasl.login.callback.handler.class"
TEXTS: Final = {
    "sasl.oauthbearer.client.credentials.client.id": "client_id",
    "sasl.oauthbearer.client.credentials.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "scope",
}
NUMBERS: Final = {
    "sasl.login.connect.timeout.ms": ("connect_timeout_s", 1000),
    "sasl.login.read.timeout.ms": ("read_timeout_s", 1000),
    "sasl.login.retry.backoff.ms": ("retry_backoff_s", 1000),
    "sasl.login.retry.backoff.max.ms": ("retry_backoff_max_s", 1000),
    "sasl.login.refresh.window.factor": ("refresh_window_factor", 1),
    "sasl.login.refresh.window.jitter": ("refresh_window_jitter", 1),
    "sasl.login.refresh.min.period.seconds": ("refresh_min_period_s", 1),
    "sasl.login.refresh.buffer.seconds": ("refresh_buffer_s", 1),
}
"""With how many of the key's unit are one of the setting's."""
ASSERTION_FILE: Final = "sasl.oauthbearer.assertion.file"
ASSERTION_ISSUER: Final = "sasl.oauthbearer.assertion.claim.iss"
ASSERTION_KEY: Final = "sasl.oauthbearer.assertion.private.key.file"
ASSERTION_ID: Final = "sasl.oauthbearer.assertion.claim.jti.include"
ASSERTION_TEXTS: Final = {
    ASSERTION_FILE: "file",
    ASSERTION_ISSUER: "issuer",
    ASSERTION_KEY: "private_key_file",
    "sasl.oauthbearer.assertion.algorithm": "algorithm",
    "sasl.oauthbearer.assertion.claim.aud": "audience",
    "sasl.oauthbearer.assertion.claim.sub": "subject",
    "sasl.oauthbearer.assertion.private.key.passphrase": "private_key_passphrase",
    "sasl.oauthbearer.assertion.template.file": "template_file",
}
ASSERTION_SECONDS: Final = {
    "sasl.oauthbearer.assertion.claim.exp.seconds": "lifetime_s",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "not_before_s",
}
ASSERTION_KEYS: Final = (*ASSERTION_TEXTS, *ASSERTION_SECONDS, ASSERTION_ID)
OAUTH_KEYS: Final = (URL, URL_ENCODE, RETRIEVER, HANDLER, *TEXTS, *NUMBERS, *ASSERTION_KEYS)
