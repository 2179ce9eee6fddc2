"""Where access tokens are from by the keys of Kafka's clients: `sasl.oauthbearer.*`, `sasl.login.*`, JAAS.

Source: Kafka documentation, "Configuring OAuth"; KIP-768, KIP-1139; Kafka's
`ClientCredentialsRequestFormatterFactory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tidelog.plugins.client.oauth import JWT_BEARER, OAuthSettings
from tidelog.plugins.client.oauth_key_names import (
    ASSERTION_FILE,
    ASSERTION_ID,
    ASSERTION_ISSUER,
    ASSERTION_KEY,
    ASSERTION_KEYS,
    ASSERTION_SECONDS,
    ASSERTION_TEXTS,
    HANDLER,
    NUMBERS,
    RETRIEVER,
    TEXTS,
    URL,
    URL_ENCODE,
)
from tidelog.plugins.client.sasl import parsed_jaas
from tidelog.plugins.client.tls_keys import TLS_KEYS, stores_of_keys

if TYPE_CHECKING:
    from tidelog.plugins.client.oauth_assertions import OAuthAssertion
    from tidelog.plugins.keystores.tls_stores import TlsStores

_MODULE: Final = "OAuthBearerLoginModule"
_EXTENSION: Final = "extension_"
_OF_JAAS: Final = {"client_id": "clientId", "client_secret": "clientSecret", "scope": "scope"}
_HANDLER: Final = "OAuthBearerLoginCallbackHandler"
_DEFAULT: Final = "DefaultJwtRetriever"
_OF_FILE: Final = "FileJwtRetriever"
_OF_CREDENTIALS: Final = "ClientCredentialsJwtRetriever"
_OF_ASSERTION: Final = "JwtBearerJwtRetriever"
_RETRIEVERS: Final = (_DEFAULT, _OF_CREDENTIALS, _OF_FILE, _OF_ASSERTION)


def oauth_of_keys(values: Mapping[str, str]) -> OAuthSettings:
    """Return the settings that such keys have; those of JAAS count where there is no key.

    Raises:
        ValueError: one has a value that it cannot have, or one is missing.
    """
    url = values.get(URL)
    if not url:
        raise ValueError(f"{URL}: OAUTHBEARER needs where its access tokens are from")
    handler = values.get(HANDLER, _HANDLER).rpartition(".")[2]
    if handler != _HANDLER:
        raise ValueError(f"{HANDLER}: {handler} is not {_HANDLER}, the only one that this client has")
    options = _options(values.get("sasl.jaas.config"))
    settings: dict[str, Any] = {name: _text(values, options, name) for name in TEXTS.values()}
    for key, (name, unit) in NUMBERS.items():
        if values.get(key):
            settings[name] = _number(key, values[key]) / unit
    settings |= _grant(values, urlsplit(url).scheme == "file")
    if settings.get("assertion") is not None:
        # As in Kafka, whose order is: a file with an assertion, the claims of one, a secret.
        settings["client_secret"] = None
    if settings.get("grant") == JWT_BEARER:
        settings["client_id"] = None
    extensions = tuple(
        (name.removeprefix(_EXTENSION), value)
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    )
    try:
        return OAuthSettings(
            token_endpoint_url=url,
            header_urlencode=_flag(values, URL_ENCODE),
            extensions=extensions,
            ssl_stores=_stores(options),
            **settings,
        )
    except ValueError as error:
        raise ValueError(f"{URL} ({urlsplit(url).hostname or 'a file'}): {error}") from None


def _options(line: str | None) -> Mapping[str, str]:
    if line is None:
        return {}
    entry = parsed_jaas(line)
    if entry.module_name != _MODULE:
        raise ValueError(f"sasl.jaas.config has {entry.module}, and OAUTHBEARER needs {_MODULE}")
    return entry.options


def _grant(values: Mapping[str, str], is_file: bool) -> dict[str, Any]:
    """Return the grant and the assertion, if tokens are from a provider."""
    retriever = values.get(RETRIEVER, _DEFAULT).rpartition(".")[2]
    if retriever not in _RETRIEVERS:
        raise ValueError(f"{RETRIEVER}: {retriever} is none of {', '.join(_RETRIEVERS)}")
    if retriever != _DEFAULT and (retriever == _OF_FILE) != is_file:
        raise ValueError(f"{RETRIEVER}: {retriever} needs another {URL}: {'https' if is_file else 'file'}://")
    if retriever == _OF_ASSERTION:
        if not (values.get(ASSERTION_FILE) or values.get(ASSERTION_KEY)):
            raise ValueError(f"{RETRIEVER}: {retriever} needs {ASSERTION_KEY} or {ASSERTION_FILE}")
        return {"grant": JWT_BEARER, "assertion": _assertion(values)}
    if not is_file and (values.get(ASSERTION_FILE) or values.get(ASSERTION_ISSUER)):
        return {"assertion": _assertion(values)}
    unused = next((key for key in ASSERTION_KEYS if values.get(key)), None)
    if unused is not None:
        raise ValueError(
            f"{unused} has no effect without {ASSERTION_FILE} or {ASSERTION_ISSUER}, or {RETRIEVER}="
            f"{_OF_ASSERTION}"
        )
    return {}


def _assertion(values: Mapping[str, str]) -> OAuthAssertion:
    # Not at the top: most clients are known by a secret.
    from tidelog.plugins.client.oauth_assertions import OAuthAssertion

    found: dict[str, Any] = {name: values[key] for key, name in ASSERTION_TEXTS.items() if values.get(key)}
    for key, name in ASSERTION_SECONDS.items():
        if values.get(key):
            found[name] = int(_number(key, values[key]))
    try:
        return OAuthAssertion(**found, has_id=_flag(values, ASSERTION_ID))
    except ValueError as error:
        raise ValueError(f"sasl.oauthbearer.assertion: {error}") from None


def _stores(options: Mapping[str, str]) -> TlsStores | None:
    """Return what the options `ssl.*` of the line have, which are for the provider alone."""
    return stores_of_keys(options) if any(options.get(key) for key in TLS_KEYS) else None


def _flag(values: Mapping[str, str], key: str) -> bool:
    text = values.get(key, "false").lower()
    if text not in ("true", "false"):
        raise ValueError(f"{key}: {text!r} is neither true nor false")
    return text == "true"


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
