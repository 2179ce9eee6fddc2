"""The keys of Kafka's clients for access tokens, and the settings that they are (`OAuthSettings`)."""

from __future__ import annotations

from typing import Final

URL: Final = "sasl.oauthbearer.token.endpoint.url"
URL_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
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
OAUTH_KEYS: Final = (URL, URL_ENCODE, *TEXTS, *NUMBERS)
