"""The options of the client, which reading and writing have in common."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client import ClientSettings, RetryPolicy
from tidelog.plugins.client.errors import InvalidAddress
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.client.security_keys import is_security_key, security_of_keys
from tidelog.plugins.client.settings import parse_addresses
from tidelog.plugins.spark_sink.kafka_keys import PREFIX
from tidelog.plugins.spark_sink.option_values import (
    MOST_INT,
    InvalidOption,
    OptionValues,
    pause,
    seconds,
)

BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
_MISSING_TOPIC_S: Final = 3.0
"""Long enough for metadata to arrive; a topic that was deleted does not come back."""
_NO_OPTIONS: Final = (
    "Spark keeps the options of a table in a catalog from data sources in Python; give them in each query: "
    "SELECT ... FROM table WITH (`kafka.bootstrap.servers` 'host:port', ...)"
)


def bootstrap_servers(options: OptionValues) -> str:
    """Return the addresses of brokers.

    Raises:
        InvalidOption: they are missing or malformed.
    """
    servers = options.values.get(BOOTSTRAP_SERVERS)
    if servers is None:
        hint = "" if options.values else f". {_NO_OPTIONS}"
        raise InvalidOption(
            f"the option {BOOTSTRAP_SERVERS} is missing: host:port of one broker or several{hint}"
        )
    try:
        parse_addresses(servers)
    except InvalidAddress as error:
        raise InvalidOption(f"the option {BOOTSTRAP_SERVERS}: {error}") from error
    return servers


def client_settings(
    options: OptionValues, *, client_id: str = "tidelog-spark", operation_timeout_s: float
) -> ClientSettings:
    """Return the settings of a client; the arguments are defaults.

    Raises:
        InvalidOption: a value is malformed.
    """
    defaults = ClientSettings()
    return ClientSettings(
        client_id=options.values.get("kafka.client.id", client_id),
        request_timeout_s=options.read("kafka.request.timeout.ms", seconds, defaults.request_timeout_s),
        operation_timeout_s=options.read("kafka.default.api.timeout.ms", seconds, operation_timeout_s),
        connect_timeout_s=options.read(
            "kafka.socket.connection.setup.timeout.ms", seconds, defaults.connect_timeout_s
        ),
        # Limited by the time that an operation may take, not by a number: a broker may restart.
        retry=RetryPolicy(
            retries=MOST_INT,
            backoff_s=options.read("kafka.retry.backoff.ms", pause, defaults.retry.backoff_s),
            max_backoff_s=options.read("kafka.retry.backoff.max.ms", pause, defaults.retry.max_backoff_s),
            missing_topic_s=_MISSING_TOPIC_S,
        ),
        security=_security(options),
    )


def _security(options: OptionValues) -> SecuritySettings:
    given = {name.removeprefix(PREFIX): value for name, value in options.values.items()}
    try:
        return security_of_keys({name: value for name, value in given.items() if is_security_key(name)})
    except (ValueError, TidelogError) as error:
        # Not the value, which may be a secret: the error names what is wrong.
        raise InvalidOption(f"the options {PREFIX}security, ssl and sasl: {error}") from error
