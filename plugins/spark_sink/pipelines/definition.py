"""A pipeline as a whole: what its keys say together, and as the text that its process gets."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from tidelog.plugins.spark_sink.pipelines.keys import FORMAT, PATH

RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS_COLUMN: Final = "headers"


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(value)


@attrs.frozen(kw_only=True)
class Output:
    """Where the rows go: into `format`, or to the function `foreach_batch`."""

    format: str = FORMAT.default
    path: str | None = PATH.default
    partition_by: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    mode: str = "append"
    options: dict[str, str] = attrs.field(factory=dict[str, str], repr=False)
    foreach_batch: str | None = None


@attrs.frozen(kw_only=True)
class Decoding:
    """What a binary column becomes: `format` is binary, string or json, the last one with a `schema`."""

    format: str = "binary"
    schema: str | None = None


@attrs.frozen(kw_only=True)
class Pipeline:
    """One pipeline, checked.

    Attributes:
        name: its name among the pipelines of the broker
        topics: the topics that it reads, by name; they need not exist
        topics_regex: an expression in RE2's syntax for their whole names instead
        source_options: of the format `tidelog`, without those of topics
        key, value: what these columns become
        malformed_json: `null` or `fail`
        where, select, transform: what the rows go through, in this order
        output: where they go
        checkpoint: where Spark stores the position
        trigger_interval_ms: the least time between two micro-batches
        spark_conf: configuration of Spark, complete
        python_path: folders of the user's modules
        nice: by how much the process is nicer than the broker
    """

    name: str
    topics: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    topics_regex: str | None = None
    source_options: dict[str, str] = attrs.field(repr=False)
    key: Decoding = Decoding()
    value: Decoding = Decoding()
    malformed_json: str = "null"
    where: str | None = None
    select: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    transform: str | None = None
    output: Output
    checkpoint: str
    trigger_interval_ms: int = 0
    spark_conf: dict[str, str] = attrs.field(factory=dict[str, str], repr=False)
    python_path: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    nice: int = 10

    def to_text(self) -> str:
        """Return it as one line."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Pipeline:
        """Return the pipeline that `to_text` gave."""
        found = json.loads(text)
        key, value, output = (found.pop(name) for name in ("key", "value", "output"))
        return cls(key=Decoding(**key), value=Decoding(**value), output=Output(**output), **found)
