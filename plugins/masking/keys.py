"""Configuration keys of the interceptor `masking`: in tables `[interceptors.NAME]`."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import Password, choice, comma_list, nullable, password, string

FETCH: Final = "fetch"
APPEND: Final = "append"
REPLACE: Final = "replace"
REMOVE: Final = "remove"
HASH: Final = "hash"
MASK: Final = "mask"
HIDE: Final = "hide"
SHOW: Final = "show"
_ONLY: Final = ("interceptors.NAME.type", "masking")

WHEN = ConfigKey(
    name="interceptors.NAME.masking.when",
    type=choice(FETCH, APPEND),
    default=FETCH,
    documentation="`fetch`: the log has the values, clients get them masked. `append`: the log has them "
    "masked, and nothing brings them back.",
    only_with=_ONLY,
)
FIELDS = ConfigKey(
    name="interceptors.NAME.masking.fields",
    type=comma_list(),
    default=(),
    documentation="The fields of JSON values that are masked, as paths: `card`, `customer.email`, `*.email`. "
    "`*` is any field; the elements of an array are all meant.",
    only_with=_ONLY,
)
HEADERS = ConfigKey(
    name="interceptors.NAME.masking.headers",
    type=comma_list(),
    default=(),
    documentation="The names of record headers that are masked.",
    only_with=_ONLY,
)
HOW = ConfigKey(
    name="interceptors.NAME.masking.how",
    type=choice(REPLACE, REMOVE, HASH),
    default=REPLACE,
    documentation="`replace`: by `masking.text`. `remove`: the field is not there. `hash`: by the first 128 "
    "bits of an HMAC-SHA256 with `masking.secret`, so that equal values stay equal.",
    only_with=_ONLY,
)
TEXT = ConfigKey(
    name="interceptors.NAME.masking.text",
    type=string(),
    default="***",
    documentation="What replaces a field, a header, or a value that is not JSON.",
    only_with=_ONLY,
)
SECRET = ConfigKey[Password | None](
    name="interceptors.NAME.masking.secret",
    type=nullable(password()),
    default=None,
    documentation="The secret of `masking.how=hash`.",
    only_with=_ONLY,
)
UNREADABLE = ConfigKey(
    name="interceptors.NAME.masking.unreadable",
    type=choice(MASK, HIDE, SHOW),
    default=MASK,
    documentation="What becomes of a value that is not JSON, so that its fields cannot be found: `mask` "
    "replaces all of it, `hide` leaves out the record (refuses it with `masking.when=append`), `show` leaves "
    "it as it is.",
    only_with=_ONLY,
)
EXCEPT_PRINCIPALS = ConfigKey(
    name="interceptors.NAME.masking.except.principals",
    type=comma_list(),
    default=(),
    documentation="Principals that see all, such as `User:auditor`.",
    only_with=_ONLY,
)
