"""Sinks in the configuration: `sinks.KIND.NAME.KEY`, in TOML a table `[sinks.KIND.NAME]` with the keys.

A kind of sink declares its keys by their short names. Each sink that is configured has them as broker keys of
full names, so that they come from the same sources, are validated in the same way and listed with the others.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar, cast

import attrs

from tidelog.kernel.config.key import ConfigKey, environment_variable
from tidelog.kernel.config.sources import DEFAULT_ORIGIN, SINKS, Origin, OriginKind, Setting, Sources
from tidelog.kernel.config.types import ValueType, choice, comma_list, long, nearest_name, nullable
from tidelog.kernel.errors import ConfigError, InvalidRegularExpression, InvalidTopic
from tidelog.kernel.regexes import Regex, compile_regex
from tidelog.kernel.topic_names import check_topic_name

T = TypeVar("T")

SINK_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""What a kind and a sink may be named: a part of a dotted name, and of a variable of the environment."""


def _topic_names() -> ValueType[tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = comma_list().parse(text)
        for name in names:
            try:
                check_topic_name(name)
            except InvalidTopic as error:
                raise ValueError(f"has {error}") from None
        return names

    return ValueType("list", "names of topics; no duplicates", parse, ",".join)


@attrs.frozen
class TopicPattern:
    """An expression that matches whole names of topics."""

    text: str
    compiled: Regex = attrs.field(eq=False, repr=False)


def topic_pattern() -> ValueType[TopicPattern]:
    """Return the type of an expression for names of topics."""

    def parse(text: str) -> TopicPattern:
        try:
            return TopicPattern(text.strip(), compile_regex(text.strip()))
        except InvalidRegularExpression as error:
            raise ValueError(f"is no pattern: {error}") from None

    return ValueType("string", "a regular expression in RE2's syntax", parse, lambda value: value.text)


TOPICS = ConfigKey(
    name="topics",
    type=_topic_names(),
    default=(),
    documentation="The topics that the sink receives, by name; they need not exist yet. Either this or "
    "`topics.regex` has to be set.",
)
TOPICS_REGEX = ConfigKey(
    name="topics.regex",
    type=nullable(topic_pattern()),
    default=None,
    documentation="The topics that the sink receives: all whose whole name matches, also those that are "
    "created later. Internal topics are never among them; `topics` can name them.",
)
ISOLATION_LEVEL = ConfigKey(
    name="isolation.level",
    type=choice("read_committed", "read_uncommitted"),
    default="read_committed",
    documentation="`read_committed`: the sink receives what lies below the last stable offset, without the "
    "records of aborted transactions. `read_uncommitted`: all that lies below the high watermark.",
)
RETRY_BACKOFF_MS = ConfigKey(
    name="retry.backoff.ms",
    type=long(1),
    default=1_000,
    documentation="How long a sink that failed waits before it is run again, in milliseconds; each failure "
    "that follows doubles the time.",
)
RETRY_BACKOFF_MAX_MS = ConfigKey(
    name="retry.backoff.max.ms",
    type=long(1),
    default=60_000,
    documentation="The longest time that a sink that keeps failing waits, in milliseconds. One that has run "
    "for so long starts again with `retry.backoff.ms`.",
)
COMMON_SINK_KEYS: Final[tuple[ConfigKey[object], ...]] = (
    TOPICS,
    TOPICS_REGEX,
    ISOLATION_LEVEL,
    RETRY_BACKOFF_MS,
    RETRY_BACKOFF_MAX_MS,
)
"""Keys of every sink, which the kernel reads; `topics` and `topics.regex` are those of Kafka Connect."""


class SinkName(NamedTuple):
    """A configured sink: its kind, and its name among the sinks of that kind."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.name}"

    @property
    def table(self) -> str:
        """The name of its table in TOML, and the beginning of its keys' full names."""
        return f"{SINKS}.{self.kind}.{self.name}"

    def full_key(self, key: ConfigKey[T]) -> ConfigKey[T]:
        """Return the key of this sink for a key of its kind."""
        needed = key.only_with
        return attrs.evolve(
            key,
            name=f"{self.table}.{key.name}",
            aliases=tuple(f"{self.table}.{alias}" for alias in key.aliases),
            only_with=needed and (f"{self.table}.{needed[0]}", needed[1]),
        )


def is_sink_setting(name: str) -> bool:
    """Return whether a setting of that name is meant for a sink."""
    return name == SINKS or name.startswith(f"{SINKS}.")


def configured_sinks(sources: Sources) -> Sequence[SinkName]:
    """Return the sinks that files, `--set` and programs name, in the order of their first settings.

    Variables of the environment only add to them: there `_` stands for `.`, `-` and itself.

    Raises:
        ConfigError: two of them differ only in what their variables do not distinguish.
    """
    found = dict.fromkeys(name for setting in _settings(sources) if (name := _sink_of(setting.name)))
    by_variable: dict[str, SinkName] = {}
    for name in found:
        other = by_variable.setdefault(environment_variable(name.table), name)
        if other != name:
            raise ConfigError(
                f"The sinks [{other.table}] and [{name.table}] would have the same environment variables, "
                f"{environment_variable(name.table)}_...: rename one of them."
            )
    return tuple(found)


def _settings(sources: Sources) -> Iterator[Setting]:
    for layer in reversed(sources.layers):
        for setting in layer:
            if setting.origin.kind is not OriginKind.ENVIRONMENT and is_sink_setting(setting.name):
                yield setting


def _sink_of(setting: str) -> SinkName | None:
    parts = setting.split(".", 3)
    if len(parts) < 3 or not (SINK_NAME.fullmatch(parts[1]) and SINK_NAME.fullmatch(parts[2])):
        return None
    return SinkName(parts[1], parts[2])


class UnknownSetting(NamedTuple):
    """What is wrong with a setting of no sink's key, and the beginning that later ones repeat.

    `meant` is the full name of the key that it seems to mean.
    """

    problem: str
    beginning: str
    meant: str | None = None


def unknown_setting(
    name: str, origin: Origin, kinds: Mapping[str, Sequence[ConfigKey[object]]]
) -> UnknownSetting:
    """Return what is wrong with a setting of no sink's key."""
    if origin.kind is OriginKind.ENVIRONMENT:
        problem = (
            f"{origin} sets no key of a configured sink; a sink is configured in a file or by --set, and "
            "variables only add to its settings."
        )
        return UnknownSetting(problem, problem)
    sink = _sink_of(name)
    if sink is None:
        return UnknownSetting(
            f"{name} ({origin}) is no key; the settings of a sink are {SINKS}.KIND.NAME.KEY, in TOML a table "
            f"[{SINKS}.KIND.NAME], with letters, digits, _ and - in KIND and NAME.",
            name,
        )
    if sink.kind not in kinds:
        near = nearest_name(sink.kind, kinds)
        listing = (
            f"installed are: {', '.join(sorted(kinds))}." if kinds else "no installed plugin offers one."
        )
        hint = f"did you mean {near}?" if near else listing
        beginning = f"{sink.table} ("
        problem = f"{beginning}{origin}): there is no kind of sink named {sink.kind}; {hint}"
        return UnknownSetting(problem, beginning)
    short = name[len(sink.table) + 1 :]
    if not short:
        problem = f"{sink.table} ({origin}) has no settings; it needs topics or topics.regex."
        return UnknownSetting(problem, name, f"{sink.table}.{TOPICS.name}")
    near = nearest_name(short, [key.name for key in (*COMMON_SINK_KEYS, *kinds[sink.kind])])
    hint = f"did you mean {near}?" if near else "`tidelog sinks` lists its keys."
    problem = f"{name} ({origin}) is no key of a sink of the kind {sink.kind}; {hint}"
    return UnknownSetting(problem, name, f"{sink.table}.{near}" if near else None)


class SinkConfig:
    """The configuration of one sink: `config[KEY]`, by the keys of its kind and those of every sink."""

    def __init__(
        self,
        name: SinkName,
        keys: Iterable[ConfigKey[object]],
        values: Mapping[str, object],
        origins: Mapping[str, Origin],
    ) -> None:
        """Take values and origins of all broker keys, by full names; `keys` are those of the sink's kind."""
        self.name = name
        self.keys = (*COMMON_SINK_KEYS, *keys)
        self._values = {key.name: values[f"{name.table}.{key.name}"] for key in self.keys}
        self._origins = {key.name: origins[f"{name.table}.{key.name}"] for key in self.keys}

    def __getitem__(self, key: ConfigKey[T]) -> T:
        return cast("T", self._values[key.name])

    def is_set(self, key: ConfigKey[object]) -> bool:
        """Return whether some source sets the key, be it to its default."""
        return self._origins[key.name] is not DEFAULT_ORIGIN

    def problems(self, invalid: Container[str] = ()) -> Iterator[str]:
        """Yield what is missing, and the values that exclude each other; each is valid by itself.

        The keys in `invalid`, by full names, were set, but to no value of theirs: nothing is said of them.
        """
        table = self.name.table
        bad = {key.name for key in self.keys if f"{table}.{key.name}" in invalid}
        if bad.isdisjoint((TOPICS.name, TOPICS_REGEX.name)):
            yield from self._problems_of_topics()
        backoffs = (RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS)
        if bad.isdisjoint(key.name for key in backoffs) and self[backoffs[0]] > self[backoffs[1]]:
            yield (
                f"{table}.{RETRY_BACKOFF_MS} ({self[RETRY_BACKOFF_MS]}) is above {RETRY_BACKOFF_MAX_MS} "
                f"({self[RETRY_BACKOFF_MAX_MS]})."
            )
        for key in self.keys:
            if key.required and key.name not in bad and not self.is_set(key):
                yield f"[{table}] needs {key.name}: {key.documentation}"

    def _problems_of_topics(self) -> Iterator[str]:
        table = self.name.table
        if self.is_set(TOPICS) == self.is_set(TOPICS_REGEX):
            which = "one of the two, not both" if self.is_set(TOPICS) else "either of the two"
            yield f"[{table}] needs topics or topics.regex: {which}."
        elif not self[TOPICS] and self[TOPICS_REGEX] is None:
            yield f"[{table}] receives no topic: {TOPICS if self.is_set(TOPICS) else TOPICS_REGEX} is empty."
