"""One configuration key: its name, type, default, range, documentation and what it applies to."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Generic, Literal, NamedTuple, cast

import attrs

from tidelog.kernel.config.types import Scope, T_co, ValueType


class BrokerDefault(NamedTuple):
    """A broker key that gives a topic key its default; `factor` converts its unit into the topic key's."""

    key: ConfigKey[object]
    factor: int = 1


@attrs.frozen
class ConfigKey(Generic[T_co]):
    """A key that the configuration may set.

    `name` is Kafka's where Kafka has such a key. `aliases` are other names for the same key. For a topic key,
    `broker_defaults` are the broker keys that give its default: the first that is set (not None) wins.
    `only_with` names another key and the value without which this key has no effect; a warning reports a key
    that is set without it. `not_above` names a topic key of whose value this one's must not be the larger.
    Of a broker or group key, `within` are the broker keys with the least and the largest value, and `below`
    names a key of its scope whose value has to be larger.
    `dynamic`: a broker key that may also be set while the broker runs, with `one_broker` not for all brokers.
    `check_change` then gets its value and the new one, and raises ValueError for a change that is refused.
    `per_listener`: a broker key that `listener.name.NAME.KEY` sets for one listener, stronger than for all;
    "dynamic" if that may also be set while the broker runs, for one broker.
    `per_mechanism`: `listener.name.NAME.MECHANISM.KEY` sets it for one SASL mechanism of a listener.
    `inert` is the reason why a key has no effect here: it is kept and described for tools. `chooses` is the
    seam, as `tidelog plugins` lists it, whose implementation the value names. `required`: a key of a sink or
    table that has to be set. `NAME` as the second part of `name` makes it a key of tables, see `tables`.
    """

    name: str
    type: ValueType[T_co]
    default: T_co
    documentation: str
    scope: Scope = "broker"
    aliases: tuple[str, ...] = ()
    broker_defaults: tuple[BrokerDefault, ...] = ()
    only_with: tuple[str, str] | None = None
    not_above: str = ""
    within: tuple[ConfigKey[int], ConfigKey[int]] | None = None
    below: str = ""
    dynamic: bool = False
    one_broker: bool = False
    per_listener: Literal["", "static", "dynamic"] = ""
    per_mechanism: bool = False
    check_change: Callable[[int, int], None] | None = attrs.field(default=None, eq=False, repr=False)
    inert: str = ""
    chooses: str = ""
    required: bool = False

    @property
    def secret(self) -> bool:
        """Whether its value must not be shown."""
        return self.type.name == "password"

    def shown(self, text: str) -> str:
        """Return the text of a value for a message: quoted, or `[hidden]` of a secret."""
        return "[hidden]" if self.has_secret(text) else repr(text)

    def has_secret(self, text: str) -> bool:
        """Return whether the text of a value has a secret: for this key always, or this value."""
        return self.secret or self.type.hides(text)

    @property
    def environment_variable(self) -> str:
        """The variable that sets it: `log.dirs` is set by `TIDELOG_LOG_DIRS`."""
        return environment_variable(self.name)

    def __str__(self) -> str:
        return self.name


def declared_keys(*modules: ModuleType) -> tuple[ConfigKey[object], ...]:
    """Return every key that is a global of one of the modules, in their order: for `tidelog_config_keys`."""
    values = (value for module in modules for value in vars(module).values())
    return tuple(cast("ConfigKey[object]", value) for value in values if isinstance(value, ConfigKey))


def check_pool_size(current: int, new: int) -> None:
    """Check a dynamic change of the size of a pool of threads, which Kafka limits.

    Raises:
        ValueError: it is less than half or more than twice the current one.
    """
    if current and not current // 2 <= new <= 2 * current:
        raise ValueError(f"is not from half to twice the current value {current}")


def check_above_0(_current: int, new: int) -> None:
    """Check a dynamic change of a limit with which nothing would be served any more.

    Raises:
        ValueError: it is 0.
    """
    if new == 0:
        raise ValueError("is 0, with which no client could connect to change it again")


ENVIRONMENT_PREFIX = "TIDELOG_"


def environment_variable(name: str) -> str:
    """Return the environment variable that sets the key `name`."""
    return ENVIRONMENT_PREFIX + name.upper().translate(_TO_VARIABLE)


_TO_VARIABLE = str.maketrans(".-", "__")
