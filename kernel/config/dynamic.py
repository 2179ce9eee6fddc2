"""Settings of the broker that can be used while it runs: which keys, and which values of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.kernel.config.config import Config
from tidelog.kernel.errors import InvalidConfig, InvalidRequest


def check_broker_key(config: Config, name: str, text: str | None) -> None:
    """Check that a key of the broker can have a value while it runs.

    Raises:
        InvalidRequest, InvalidConfig: it cannot.
    """
    key = config.keys.find(name, "broker")
    if key is not None and key.dynamic:
        try:
            if text is not None:
                key.type.parse(text)
        except ValueError as error:
            # As in Kafka, where the broker checks its own keys; those of topics are INVALID_CONFIG.
            raise InvalidRequest(f"{name} = {key.shown(text or '')}: {error}") from None
    elif text is not None:
        raise _refusal(config, name, text, known=key is not None)


def _refusal(config: Config, name: str, text: str, *, known: bool) -> InvalidRequest | InvalidConfig:
    if known:
        return InvalidRequest(f"{name} cannot be changed while the broker runs; set it at the start")
    judgement = config.keys.judge(name, text, "broker")
    if judgement is not None:
        return InvalidRequest(f"{name} {judgement.reason}")
    nearest = config.keys.nearest(name, "broker")
    return InvalidConfig(f"{name} is no key" + (f"; did you mean {nearest}?" if nearest else ""))


def usable_settings(
    config: Config,
    settings: Mapping[str, str],
    warn: Callable[[str, str, Exception], None] = lambda name, text, error: None,
) -> dict[str, str]:
    """Return the settings that can be used; of others `warn(name, text, error)` is called."""
    usable: dict[str, str] = {}
    for name, text in settings.items():
        try:
            check_broker_key(config, name, text)
        except (InvalidRequest, InvalidConfig) as error:
            warn(name, text, error)
        else:
            usable[name] = text
    return usable
