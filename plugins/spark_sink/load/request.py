"""What a load is asked for: its topics, its range, and how the files are written.

A directory belongs to one request. What changes neither records nor files is no part of it: addresses,
timeouts, sizes of chunks, and most settings of Spark may change from one start to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from tidelog.plugins.spark_sink.load.times import iso_time
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.limits import LimitOptions, parse_limit, refuse_value
from tidelog.plugins.spark_sink.source.options import SourceOptions, parse_options
from tidelog.plugins.spark_sink.source.positions import EARLIEST, LATEST

LOAD_START: Final = LimitOptions("--from-time", "--from-times", "--from-offsets", EARLIEST)
LOAD_END: Final = LimitOptions("--to-time", "--to-times", "--to-offsets", LATEST)
_TIMES: Final = (LOAD_START.timestamp, LOAD_END.timestamp)
_LIMITS: Final = (*_TIMES, LOAD_START.offsets, LOAD_END.offsets)
ISOLATION: Final = "kafka.isolation.level"
_FLAGS: Final = {
    "subscribe": "TOPIC arguments",
    "subscribepattern": "--pattern",
    "assign": "TOPIC arguments",
    "startingoffsets": "--from-offsets",
    "startingtimestamp": "--from-time",
    "startingoffsetsbytimestamp": "--from-time",
    "startingoffsetsbytimestampstrategy": "--from-time",
    "endingoffsets": "--to-offsets",
    "endingtimestamp": "--to-time",
    "endingoffsetsbytimestamp": "--to-time",
    "maxoffsetspertrigger": "--chunk-records",
    "minoffsetspertrigger": "--chunk-records",
    "maxtriggerdelay": "--chunk-records",
    "minpartitions": "--task-records",
    "maxrecordsperpartition": "--task-records",
    "failondataloss": "--skip-deleted",
    "includeheaders": "--no-headers",
    "locallogdirs": "--local-log-dir",
    "kafka.bootstrap.servers": "--bootstrap-server",
    "kafka.group.id": "nothing: a load stores its position in the directory",
}
"""Options of the source that the command sets itself, and what sets them."""


@attrs.frozen
class LoadRequest:
    """What the user asks for.

    Attributes:
        topics: names, or none with a `pattern`
        pattern: regular expression that is found in names of topics
        limits: the flags of the range that are given, such as `--from-time`, with their values
        format: Spark's name of a format of files
        partition_by: columns that folders are made of, the outermost one first
        select: SQL expressions that are the columns, empty for all columns of the source
        headers: whether there is a column of headers
        write_options: options of the format
        source_options: options of the source beside those that the command sets
        settings: settings of Spark's SQL, such as the time zone that dates are in
    """

    topics: tuple[str, ...]
    pattern: str | None
    limits: Mapping[str, str]
    format: str
    partition_by: tuple[str, ...]
    select: tuple[str, ...]
    headers: bool
    write_options: Mapping[str, str]
    source_options: Mapping[str, str]
    settings: Mapping[str, str]

    def identity(self) -> dict[str, Any]:
        """Return what another start has to have in common with the first one, by the names of flags."""
        return {
            "TOPIC": list(self.topics),
            "--pattern": self.pattern,
            **{name: self.limit_text(name) for name in _LIMITS},
            "--format": self.format,
            "--partition-by": list(self.partition_by),
            "--select": list(self.select),
            "--no-headers": not self.headers,
            "--write-option": dict(sorted(self.write_options.items())),
            f"--option {ISOLATION}": self.isolation,
            "--conf": dict(sorted(self.settings.items())),
        }

    def limit_text(self, name: str) -> str | None:
        """Return a limit of the range as people read it, None if it is not given."""
        value = self.limits.get(name)
        return iso_time(value) if value is not None and name in _TIMES else value

    @property
    def isolation(self) -> str:
        """Return the isolation level: unless it is given, only committed records are loaded."""
        given = {name.lower(): value for name, value in self.source_options.items()}
        return given.get(ISOLATION, "read_committed")

    def options(self, bootstrap: str) -> dict[str, str]:
        """Return the source's options without topics and range.

        Raises:
            InvalidOption: one of them is set by a flag.
        """
        for name in self.source_options:
            if name.lower() in _FLAGS:
                raise InvalidOption(f"--option cannot set {name}: use {_FLAGS[name.lower()]}")
        headers = str(self.headers).lower()
        fixed = {"kafka.bootstrap.servers": bootstrap, "includeHeaders": headers, ISOLATION: self.isolation}
        return {**self.source_options, **fixed}

    def parsed(self, bootstrap: str, *, skip_deleted: bool) -> SourceOptions:
        """Return the validated options, for the lookups before Spark starts.

        Raises:
            InvalidOption: a value is malformed.
        """
        options = self.options(bootstrap)
        options["failOnDataLoss"] = str(not skip_deleted).lower()
        if self.pattern is not None:
            options["subscribePattern"] = self.pattern
        else:
            options["subscribe"] = ",".join(self.topics)
        start = parse_limit(self.limits, LOAD_START, must_match=False)
        end = parse_limit(self.limits, LOAD_END, must_match=False)
        refuse_value(start, LATEST, "latest (-1)")
        refuse_value(end, EARLIEST, "earliest (-2)")
        return attrs.evolve(parse_options(options, streaming=False), start=start, end=end)


def differences(first: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what is not as at the first start, in words."""
    return [
        f"{name} was {_value(first.get(name))} and is now {_value(now.get(name))}"
        for name in now
        if first.get(name) != now.get(name)
    ]


def _value(value: Any) -> str:
    return "not given" if value in (None, [], {}, False) else json.dumps(value)
