"""Settings of an admin client: Kafka's client keys in Python spelling, as keyword arguments."""

from __future__ import annotations

import attrs
from attrs.validators import ge, gt

from tidelog.plugins.client.requests import SOFTWARE_NAME
from tidelog.plugins.client.security import SecurityOptions, SecuritySettings
from tidelog.plugins.client.settings import ClientSettings, RetryPolicy


class AdminOptions(SecurityOptions, total=False):
    """Keyword arguments of an admin client; `AdminSettings` has what each means and its default."""

    client_id: str
    request_timeout_ms: float
    default_api_timeout_ms: float
    retries: int
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    socket_connection_setup_timeout_ms: float


@attrs.frozen(kw_only=True)
class AdminSettings(SecuritySettings):
    """Settings of an admin client, named as in Kafka's Java client.

    Attributes:
        client_id: the client id of requests, which brokers log
        request_timeout_ms: for one response, after which its connection is closed
        default_api_timeout_ms: for a method with all of its retries
        retries: attempts after the first one
        retry_backoff_ms: pause before the first retry; it doubles with each
        retry_backoff_max_ms: the longest pause
        socket_connection_setup_timeout_ms: for one address
    """

    client_id: str = SOFTWARE_NAME
    request_timeout_ms: float = attrs.field(default=30_000, validator=gt(0))
    default_api_timeout_ms: float = attrs.field(default=60_000, validator=gt(0))
    retries: int = attrs.field(default=10, validator=ge(0))
    retry_backoff_ms: float = attrs.field(default=100, validator=ge(0))
    retry_backoff_max_ms: float = attrs.field(default=1000, validator=ge(0))
    socket_connection_setup_timeout_ms: float = attrs.field(default=10_000, validator=gt(0))

    def client(self) -> ClientSettings:
        """Return the settings of the engine under the client."""
        return ClientSettings(
            client_id=self.client_id,
            security=self.security(),
            request_timeout_s=self.request_timeout_ms / 1000,
            operation_timeout_s=self.default_api_timeout_ms / 1000,
            connect_timeout_s=self.socket_connection_setup_timeout_ms / 1000,
            retry=RetryPolicy(
                self.retries,
                backoff_s=self.retry_backoff_ms / 1000,
                max_backoff_s=self.retry_backoff_max_ms / 1000,
            ),
        )
