"""From the keys of a sink to a `Pipeline`, with what each key by itself cannot check."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from tidelog.kernel.config import ConfigKey, SinkConfig
from tidelog.kernel.config.sinks import ISOLATION_LEVEL, TOPICS, TOPICS_REGEX
from tidelog.kernel.config.types import nearest_name
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.topic_names import INTERNAL_TOPICS
from tidelog.plugins.spark_sink.connection_options import BOOTSTRAP_SERVERS as SERVERS_OPTION
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.pipelines import keys
from tidelog.plugins.spark_sink.pipelines.definition import (
    HEADERS_COLUMN,
    RECORD_COLUMNS,
    Decoding,
    Output,
    Pipeline,
)
from tidelog.plugins.spark_sink.pipelines.formats import (
    FILE_FORMATS,
    WITHOUT_PATH,
    unknown_format,
    unknown_option,
)
from tidelog.plugins.spark_sink.pipelines.values import Options
from tidelog.plugins.spark_sink.required import SparkNotUsable, require_spark
from tidelog.plugins.spark_sink.source.options import parse_options
from tidelog.plugins.spark_sink.writer.options import parse_writer_options

_READER_KEYS: Final[dict[str, ConfigKey[object]]] = {
    "subscribe": TOPICS,
    "subscribePattern": TOPICS_REGEX,
    "assign": TOPICS,
    "startingOffsets": keys.STARTING_OFFSETS,
    "maxOffsetsPerTrigger": keys.MAX_OFFSETS_PER_TRIGGER,
    "failOnDataLoss": keys.FAIL_ON_DATA_LOSS,
    "includeHeaders": keys.INCLUDE_HEADERS,
    "kafka.isolation.level": ISOLATION_LEVEL,
    SERVERS_OPTION: keys.BOOTSTRAP_SERVERS,
}
"""Options of the source that have keys of their own."""
_WRITER_KEYS: Final[dict[str, ConfigKey[object]]] = {
    "path": keys.PATH,
    "checkpointLocation": keys.CHECKPOINT,
}
_SPARK_KEYS: Final[dict[str, ConfigKey[object]]] = {"spark.master": keys.SPARK_MASTER}
_LOCAL_DIRECTORIES: Final = "localLogDirs"
_ANYWHERE: Final = "127.0.0.1:9092"
"""Stands for the address of the broker, which is known only when it listens."""


def pipeline_of(
    config: SinkConfig, bootstrap_servers: str | None = None, data_directories: Iterable[Path] = ()
) -> Pipeline:
    """Return the pipeline of a sink, which reaches the broker at this address, and its files in directories.

    Raises:
        ConfigError: values do not fit each other, or name what is not there; says all that was found.
    """
    servers = config[keys.BOOTSTRAP_SERVERS] or bootstrap_servers or _ANYWHERE
    if problems := list(_problems(config, servers)):
        raise ConfigError(" ".join(problems))
    return _pipeline(config, servers, data_directories)


def _pipeline(config: SinkConfig, servers: str, data_directories: Iterable[Path]) -> Pipeline:
    pattern = config[TOPICS_REGEX]
    return Pipeline(
        name=config.name.name,
        topics=config[TOPICS],
        topics_regex=None if pattern is None else pattern.text,
        source_options={**_local_files(config, data_directories), **_source_options(config, servers)},
        key=Decoding(format=config[keys.KEY_FORMAT], schema=config[keys.KEY_SCHEMA]),
        value=Decoding(format=config[keys.VALUE_FORMAT], schema=config[keys.VALUE_SCHEMA]),
        malformed_json=config[keys.MALFORMED_JSON],
        where=config[keys.WHERE],
        select=config[keys.SELECT] or (),
        transform=config[keys.TRANSFORM],
        output=Output(
            format=config[keys.FORMAT],
            path=config[keys.PATH],
            partition_by=config[keys.PARTITION_BY],
            mode=config[keys.OUTPUT_MODE],
            options=_writer_options(config, servers),
            foreach_batch=config[keys.FOREACH_BATCH],
        ),
        checkpoint=config[keys.CHECKPOINT],
        trigger_interval_ms=config[keys.TRIGGER_INTERVAL_MS],
        spark_conf=_spark_conf(config),
        python_path=config[keys.PYTHON_PATH],
        nice=config[keys.NICE],
    )


def _source_options(config: SinkConfig, servers: str) -> dict[str, str]:
    most = config[keys.MAX_OFFSETS_PER_TRIGGER]
    return {
        SERVERS_OPTION: servers,
        "kafka.client.id": f"tidelog-spark-{config.name.name}",
        "kafka.isolation.level": config[ISOLATION_LEVEL],
        "startingOffsets": config[keys.STARTING_OFFSETS],
        **({} if most is None else {"maxOffsetsPerTrigger": str(most)}),
        "failOnDataLoss": keys.FAIL_ON_DATA_LOSS.type.format(config[keys.FAIL_ON_DATA_LOSS]),
        "includeHeaders": keys.INCLUDE_HEADERS.type.format(config[keys.INCLUDE_HEADERS]),
        **config[keys.READER_OPTIONS].as_dict(),
    }


def _local_files(config: SinkConfig, data_directories: Iterable[Path]) -> dict[str, str]:
    """Return the option by which tasks read the broker's files, none if they are to request records."""
    given = {name.lower() for name, _ in config[keys.READER_OPTIONS].items}
    if not config[keys.LOCAL_FILES] or any(_elsewhere(config)) or _LOCAL_DIRECTORIES.lower() in given:
        return {}
    # The option has no way to tell a comma of a path from one between paths.
    usable = [text for text in map(str, data_directories) if "," not in text]
    return {_LOCAL_DIRECTORIES: ",".join(usable)} if usable else {}


def _elsewhere(config: SinkConfig) -> Iterator[str]:
    """Yield why tasks may have another host, or another broker, than that of the files."""
    if not _is_local(config):
        yield f"{keys.SPARK_MASTER} is {config[keys.SPARK_MASTER]}"
    if config[keys.BOOTSTRAP_SERVERS] is not None:
        yield f"{keys.BOOTSTRAP_SERVERS} is set"


def _is_local(config: SinkConfig) -> bool:
    return config[keys.SPARK_MASTER].startswith("local")


def _writer_options(config: SinkConfig, servers: str) -> dict[str, str]:
    given = config[keys.WRITER_OPTIONS].as_dict()
    is_topic = config[keys.FOREACH_BATCH] is None and config[keys.FORMAT] in ("tidelog", "kafka")
    if is_topic and SERVERS_OPTION not in {name.lower() for name in given}:
        return {SERVERS_OPTION: servers, **given}
    return given


def _spark_conf(config: SinkConfig) -> dict[str, str]:
    address = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {
        "spark.master": config[keys.SPARK_MASTER],
        "spark.app.name": f"tidelog pipeline {config.name.name}",
        "spark.driver.memory": "1g",
        "spark.log.level": "WARN",
        # A query over topics has few groups, and its checkpoint keeps to this number for ever.
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(address if _is_local(config) else {}),
        **config[keys.SPARK_CONF].as_dict(),
    }


def _problems(config: SinkConfig, servers: str) -> Iterator[str]:
    try:
        require_spark()
    except SparkNotUsable as error:
        yield f"{error}."
    yield from _taken(config, keys.READER_OPTIONS, _READER_KEYS)
    yield from _taken(config, keys.WRITER_OPTIONS, _WRITER_KEYS)
    yield from _taken(config, keys.SPARK_CONF, _SPARK_KEYS)
    yield from _of_source(config, servers)
    yield from _of_local_files(config)
    yield from _of_json(config)
    yield from _of_output(config, servers)
    yield from _of_functions(config)
    for name, _ in config[keys.SPARK_CONF].items:
        if not name.startswith("spark."):
            yield f"{keys.SPARK_CONF} has {name}: the names of Spark's configuration begin with spark."


def _taken(
    config: SinkConfig, key: ConfigKey[Options], elsewhere: Mapping[str, ConfigKey[object]]
) -> Iterator[str]:
    by_lower = {name.lower(): other for name, other in elsewhere.items()}
    for name, _ in config[key].items:
        if other := by_lower.get(name.lower()):
            yield f"{key} has {name}, for which there is the key {other}."


def _of_source(config: SinkConfig, servers: str) -> Iterator[str]:
    for topic in config[TOPICS]:
        if topic in INTERNAL_TOPICS:
            yield f"{TOPICS} has {topic}, which Spark does not read: it is the broker's own."
    try:
        parse_options({**_source_options(config, servers), "subscribe": "t"}, streaming=True)
    except InvalidOption as error:
        yield f"{keys.READER_OPTIONS}: {error}."


def _of_local_files(config: SinkConfig) -> Iterator[str]:
    if config.is_set(keys.LOCAL_FILES) and config[keys.LOCAL_FILES]:
        for reason in _elsewhere(config):
            yield (
                f"{keys.LOCAL_FILES} = true does not fit, since {reason}: remove it, or name the directories "
                f"of the broker that is read in {keys.READER_OPTIONS}, by {_LOCAL_DIRECTORIES}."
            )


def _of_json(config: SinkConfig) -> Iterator[str]:
    for chosen, schema in ((keys.KEY_FORMAT, keys.KEY_SCHEMA), (keys.VALUE_FORMAT, keys.VALUE_SCHEMA)):
        if config[chosen] == "json" and config[schema] is None:
            yield f"{chosen} = json needs {schema}: the fields, such as `station STRING, metres DOUBLE`."


def _of_output(config: SinkConfig, servers: str) -> Iterator[str]:
    if config[keys.FOREACH_BATCH] is not None:
        for key in (keys.FORMAT, keys.PATH, keys.PARTITION_BY, keys.WRITER_OPTIONS):
            if config.is_set(key):
                yield f"{keys.FOREACH_BATCH} and {key} exclude each other: the function writes the rows."
        return
    name = config[keys.FORMAT]
    if near := unknown_format(name):
        yield f"{keys.FORMAT} is {name!r}; did you mean {near}?"
    if config[keys.PATH] is None and name in FILE_FORMATS:
        yield f"{keys.FORMAT} = {name} needs {keys.PATH}: {keys.PATH.documentation}"
    if config[keys.PATH] is not None and name in WITHOUT_PATH:
        yield f"{keys.FORMAT} = {name} has no {keys.PATH}."
    if config[keys.PATH] == config[keys.CHECKPOINT]:
        yield f"{keys.PATH} and {keys.CHECKPOINT} have to be different folders."
    if name in FILE_FORMATS:
        yield from _of_files(config, name)
    if name == "tidelog":
        try:
            parse_writer_options(_writer_options(config, servers), streaming=True)
        except InvalidOption as error:
            yield f"{keys.WRITER_OPTIONS}: {error}."


def _of_files(config: SinkConfig, name: str) -> Iterator[str]:
    if config[keys.OUTPUT_MODE] != "append":
        yield f"{keys.OUTPUT_MODE} = {config[keys.OUTPUT_MODE]} is not for files: Spark only appends to them."
    for option, _ in config[keys.WRITER_OPTIONS].items:
        advice = None if option.lower() in map(str.lower, _WRITER_KEYS) else unknown_option(name, option)
        if advice:
            yield f"{keys.WRITER_OPTIONS} has {option}, and {name} has no such option; {advice}"
    if config[keys.SELECT] is None and config[keys.TRANSFORM] is None:
        yield from _of_partitioning(config)


def _of_partitioning(config: SinkConfig) -> Iterator[str]:
    columns = (*RECORD_COLUMNS, *(HEADERS_COLUMN,) * config[keys.INCLUDE_HEADERS])
    for column in config[keys.PARTITION_BY]:
        if column.lower() not in map(str.lower, columns):
            near = nearest_name(column, columns)
            hint = f"did you mean {near}?" if near else f"there are: {', '.join(columns)}"
            yield f"{keys.PARTITION_BY} has {column}, which is no column; {hint}"


def _of_functions(config: SinkConfig) -> Iterator[str]:
    folders = config[keys.PYTHON_PATH]
    for folder in folders:
        if not Path(folder).is_dir():
            yield f"{keys.PYTHON_PATH} has {folder}, which is no folder."
    for key in (keys.TRANSFORM, keys.FOREACH_BATCH):
        text = config[key]
        if text is None:
            continue
        module = text.partition(":")[0].partition(".")[0]
        # Looked for, not imported: it is the user's, and may import Spark.
        if PathFinder.find_spec(module, [str(Path.cwd()), *folders, *sys.path]) is None:
            yield (
                f"{key} is {text}, and there is no module {module} in the working directory, in "
                f"{keys.PYTHON_PATH} or in Python's own path."
            )
