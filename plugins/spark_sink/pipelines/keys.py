"""The keys of a pipeline, `sinks.spark.NAME.KEY`, beside those of every sink."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config import ConfigKey, boolean, choice, comma_list, integer, long, nullable, string
from tidelog.kernel.config.paths import local_path
from tidelog.plugins.spark_sink.pipelines.values import (
    Options,
    columns,
    function_name,
    options,
    schema,
    starting_offsets,
)

CHECKPOINT = ConfigKey(
    name="checkpoint",
    type=string(non_empty=True),
    default="",
    required=True,
    documentation="The folder, or URI, in which Spark stores how far the pipeline has got; each pipeline "
    "needs one of its own.",
)
FORMAT = ConfigKey(
    name="format",
    type=string(non_empty=True),
    default="parquet",
    documentation="The format that the rows are written in: one of Spark's, `tidelog` for topics, or that of "
    "a package.",
)
PATH = ConfigKey(
    name="path",
    type=nullable(string()),
    default=None,
    documentation="The folder, or URI, of the table; formats of files need it.",
)
PARTITION_BY = ConfigKey(
    name="partition.by",
    type=comma_list(),
    default=(),
    documentation="Columns whose values become folders of the table.",
)
OUTPUT_MODE = ConfigKey(
    name="output.mode",
    type=choice("append", "update", "complete"),
    default="append",
    documentation="Which rows a micro-batch writes: new ones, those that have changed, or all. The last two "
    "are for aggregates, and not for files.",
)
WRITER_OPTIONS = ConfigKey(
    name="writer.options",
    type=options(),
    default=Options(),
    documentation="Further options of the format.",
)
FOREACH_BATCH = ConfigKey(
    name="foreach.batch",
    type=nullable(function_name()),
    default=None,
    documentation="`module:function` that is called with the rows of each micro-batch, a DataFrame, and the "
    "batch's number; instead of `format` and `path`.",
)
TRANSFORM = ConfigKey(
    name="transform",
    type=nullable(function_name()),
    default=None,
    documentation="`module:function` that takes the streaming DataFrame, after `where` and `select`, and "
    "returns the one to write.",
)
PYTHON_PATH = ConfigKey(
    name="python.path",
    type=local_path(comma_list()),
    default=(),
    documentation="Folders with the modules of `transform` and `foreach.batch`, beside the broker's working "
    "directory and PYTHONPATH.",
)
KEY_FORMAT = ConfigKey(
    name="key.format",
    type=choice("binary", "string", "json"),
    default="binary",
    documentation="What the column `key` becomes: bytes, text in UTF-8, or the fields of `key.schema`.",
)
KEY_SCHEMA = ConfigKey(
    name="key.schema",
    type=nullable(schema()),
    default=None,
    only_with=("key.format", "json"),
    documentation="The fields of keys in JSON, as in Spark's SQL.",
)
VALUE_FORMAT = ConfigKey(
    name="value.format",
    type=choice("binary", "string", "json"),
    default="binary",
    documentation="What the column `value` becomes: bytes, text in UTF-8, or the fields of `value.schema`.",
)
VALUE_SCHEMA = ConfigKey(
    name="value.schema",
    type=nullable(schema()),
    default=None,
    only_with=("value.format", "json"),
    documentation="The fields of values in JSON, as in Spark's SQL.",
)
MALFORMED_JSON = ConfigKey(
    name="malformed.json",
    type=choice("null", "fail"),
    default="null",
    documentation="What JSON that does not fit its schema does: its fields are null, or the pipeline fails.",
)
INCLUDE_HEADERS = ConfigKey(
    name="include.headers",
    type=boolean(),
    default=False,
    documentation="Whether there is a column `headers`.",
)
WHERE = ConfigKey(
    name="where",
    type=nullable(string()),
    default=None,
    documentation="A condition in SQL: other rows are left out.",
)
SELECT = ConfigKey(
    name="select",
    type=nullable(columns()),
    default=None,
    documentation="The columns to write, as expressions in SQL: `value.metres AS metres, timestamp`. Without "
    "it all columns are written.",
)
TRIGGER_INTERVAL_MS = ConfigKey(
    name="trigger.interval.ms",
    type=long(0),
    default=0,
    documentation="The least time from the start of a micro-batch to that of the next one, in milliseconds. "
    "With 0 it starts as soon as the last one has ended and there are records.",
)
STARTING_OFFSETS = ConfigKey(
    name="starting.offsets",
    type=starting_offsets(),
    default="earliest",
    documentation="Where a pipeline without a checkpoint begins: with the oldest records, with those that "
    "are written from then on, or at offsets of all partitions. Partitions that are added later are read "
    "from their beginning.",
)
MAX_OFFSETS_PER_TRIGGER = ConfigKey(
    name="max.offsets.per.trigger",
    type=nullable(long(1)),
    default=None,
    documentation="How many offsets a micro-batch has at most.",
)
FAIL_ON_DATA_LOSS = ConfigKey(
    name="fail.on.data.loss",
    type=boolean(),
    default=True,
    documentation="Whether the pipeline fails if records were deleted, by retention or with their topic, "
    "before it has read them; otherwise it logs a warning and continues with those that are left.",
)
READER_OPTIONS = ConfigKey(
    name="reader.options",
    type=options(),
    default=Options(),
    documentation="Further options of the source, as in docs/spark.md.",
)
LOCAL_FILES = ConfigKey(
    name="local.files",
    type=boolean(),
    default=True,
    documentation="Whether tasks read the segment files of the broker where they can, instead of requesting "
    "records, which the broker would have to send. That needs Spark on the broker's host, and no "
    "`bootstrap.servers`: otherwise records are requested, and it cannot be set to true.",
)
SPARK_MASTER = ConfigKey(
    name="spark.master",
    type=string(non_empty=True),
    default="local[2]",
    documentation="Where Spark runs: `local[2]` is the pipeline's own process with two tasks at a time.",
)
SPARK_CONF = ConfigKey(
    name="spark.conf",
    type=options(),
    default=Options(),
    documentation="Further configuration of Spark: `spark.driver.memory=2g`.",
)
NICE = ConfigKey(
    name="nice",
    type=integer(0, 19),
    default=10,
    documentation="By how much the pipeline's processes are nicer than the broker: while both want to run, "
    "the broker gets most of the processor.",
)
STOP_TIMEOUT_MS = ConfigKey(
    name="stop.timeout.ms",
    type=long(0),
    default=8_000,
    documentation="How long a micro-batch may take to end when the broker stops, in milliseconds. It is "
    "ended then, and repeated at the next start. `shutdown.timeout.ms` is a limit, too.",
)
BOOTSTRAP_SERVERS = ConfigKey(
    name="bootstrap.servers",
    type=nullable(string()),
    default=None,
    documentation="The `host:port` by which Spark reaches the broker; by default that of its first "
    "listener for Kafka's protocol.",
)
KEYS: Final[tuple[ConfigKey[object], ...]] = (
    CHECKPOINT,
    FORMAT,
    PATH,
    PARTITION_BY,
    OUTPUT_MODE,
    WRITER_OPTIONS,
    FOREACH_BATCH,
    TRANSFORM,
    PYTHON_PATH,
    KEY_FORMAT,
    KEY_SCHEMA,
    VALUE_FORMAT,
    VALUE_SCHEMA,
    MALFORMED_JSON,
    INCLUDE_HEADERS,
    WHERE,
    SELECT,
    TRIGGER_INTERVAL_MS,
    STARTING_OFFSETS,
    MAX_OFFSETS_PER_TRIGGER,
    FAIL_ON_DATA_LOSS,
    READER_OPTIONS,
    LOCAL_FILES,
    SPARK_MASTER,
    SPARK_CONF,
    NICE,
    STOP_TIMEOUT_MS,
    BOOTSTRAP_SERVERS,
)
