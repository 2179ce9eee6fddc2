"""Where access tokens are from by the keys of Kafka's clients: `sasl.oauthbearer.*`, `sasl.login.*`, JAAS.

Source: Kafka documentation, "Configuring OAuth"; KIP-768, KIP-1139.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tidelog.plugins.client.oauth import OAuthSettings
from tidelog.plugins.client.oauth_key_names import NUMBERS, TEXTS, URL, URL_ENCODE
from tidelog.plugins.client.sasl import parsed_jaas

_MODULE: Final = "OAuthBearerLoginModule"
_EXTENSION: Final = "extension_"
_OF_JAAS: Final = {"client_id": "clientId", "client_secret": "clientSecret", "scope": "scope"}


def oauth_of_keys(values: Mapping[str, str]) -> OAuthSettings:
    """Return the settings that such keys have; those of JAAS count where there is no key.

    Raises:
        ValueError: one has a value that it cannot have, or one is missing.
    """
    url = values.get(URL)
    if not url:
        raise ValueError(f"{URL}: OAUTHBEARER needs where its access tokens are from")
    line = values.get("sasl.jaas.config")
    options: Mapping[str, str] = {}
    if line is not None:
        entry = parsed_jaas(line)
        if entry.module_name != _MODULE:
            raise ValueError(f"sasl.jaas.config has {entry.module}, and OAUTHBEARER needs {_MODULE}")
        options = entry.options
    settings: dict[str, Any] = {name: _text(values, options, name) for name in TEXTS.values()}
    for key, (name, unit) in NUMBERS.items():
        if values.get(key):
            settings[name] = _number(key, values[key]) / unit
    encode = values.get(URL_ENCODE, "false").lower()
    if encode not in ("true", "false"):
        raise ValueError(f"{URL_ENCODE}: {encode!r} is neither true nor false")
    extensions = tuple(
        (name.removeprefix(_EXTENSION), value)
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    )
    try:
        return OAuthSettings(
            token_endpoint_url=url, header_urlencode=encode == "true", extensions=extensions, **settings
        )
    except ValueError as error:
        raise ValueError(f"{URL} ({urlsplit(url).hostname or 'a file'}): {error}") from None


def _text(values: Mapping[str, str], options: Mapping[str, str], name: str) -> str | None:
    key = next(key for key, setting in TEXTS.items() if setting == name)
    return values.get(key) or options.get(_OF_JAAS[name]) or None


def _number(key: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f"{key}: {text!r} is no number") from None
    if not found >= 0:
        raise ValueError(f"{key}: {text!r} is less than 0")
    return found
