"""The keys of a pipeline: what they say together, and what is refused before the broker starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tidelog.kernel.config import Config, ConfigKeys, SinkConfig, read_sources
from tidelog.kernel.config.sources import Sources
from tidelog.kernel.errors import ConfigError
from tidelog.plugins.spark_sink.pipelines.checks import pipeline_of
from tidelog.plugins.spark_sink.pipelines.definition import Decoding, Pipeline
from tidelog.plugins.spark_sink.pipelines.keys import KEYS, READER_OPTIONS, SPARK_CONF, WRITER_OPTIONS

ADDRESS = "127.0.0.1:1234"
OPTIONS = (READER_OPTIONS, SPARK_CONF, WRITER_OPTIONS)
PARQUET = ("topics=tides,moons", "path=/t", "checkpoint=/c")


def configured(*settings: str) -> SinkConfig:
    """The configuration of a pipeline named p."""
    return _configured(read_sources(None, {}, [f"sinks.spark.p.{setting}" for setting in settings]))


def _configured(sources: Sources) -> SinkConfig:
    return Config(sources, ConfigKeys(sink_kinds={"spark": KEYS})).sinks[0]


def configured_by_file(folder: Path, *settings: str) -> SinkConfig:
    """The same, of a file."""
    file = folder / "server.properties"
    file.write_text("".join(f"sinks.spark.p.{setting}\n" for setting in settings))
    return _configured(read_sources(file))


def pipeline(*settings: str, data_directories: Sequence[str] = ()) -> Pipeline:
    """The pipeline of a configuration, as its process gets it."""
    made = pipeline_of(configured(*settings), ADDRESS, map(Path, data_directories))
    assert Pipeline.from_text(made.to_text()) == made
    return made


def test_pipeline_of_a_short_table_has_defaults() -> None:
    made = pipeline(*PARQUET)
    assert (made.name, made.topics, made.topics_regex) == ("p", ("tides", "moons"), None)
    assert (made.output.format, made.output.path, made.checkpoint) == ("parquet", "/t", "/c")
    assert made.source_options == {
        "kafka.bootstrap.servers": ADDRESS,
        "kafka.client.id": "tidelog-spark-p",
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "includeHeaders": "false",
    }
    assert made.spark_conf["spark.master"] == "local[2]"


def test_pipeline_of_a_long_table_has_all_of_it() -> None:
    made = pipeline(
        *("topics.regex=t.*", "checkpoint=/c", "path=/t", "format=json", "partition.by=day,station"),
        *("value.format=json", "value.schema=station STRING, at STRUCT<x: INT>", "key.format=string"),
        "malformed.json=fail",
        *(
            "select=value.station AS station, date(timestamp) AS day, concat('a,b', key)",
            "where=value IS NOT NULL",
        ),
        *('starting.offsets={"t": {"0": 5}}', "max.offsets.per.trigger=9", "fail.on.data.loss=false"),
        *("include.headers=true", "trigger.interval.ms=500", "nice=3", "bootstrap.servers=host:1"),
        *("isolation.level=read_uncommitted", "reader.options=minPartitions=4", "transform=json:loads"),
        'writer.options={"compression": "gzip", "timestampFormat": "H,m", "x.y": 1, "encoding": true}',
        *("spark.master=spark://host:7077", "spark.conf=spark.log.level=ERROR"),
    )
    assert made.topics_regex == "t.*"
    assert made.key == Decoding(format="string")
    assert made.value == Decoding(format="json", schema="station STRING, at STRUCT<x: INT>")
    assert made.select == ("value.station AS station", "date(timestamp) AS day", "concat('a,b', key)")
    assert made.source_options == {
        "kafka.bootstrap.servers": "host:1",
        "kafka.client.id": "tidelog-spark-p",
        "kafka.isolation.level": "read_uncommitted",
        "startingOffsets": '{"t": {"0": 5}}',
        "maxOffsetsPerTrigger": "9",
        "failOnDataLoss": "false",
        "includeHeaders": "true",
        "minPartitions": "4",
    }
    assert made.output.options == {
        "compression": "gzip",
        "timestampFormat": "H,m",
        "x.y": "1",
        "encoding": "true",
    }
    assert made.output.partition_by == ("day", "station")
    assert (made.transform, made.nice, made.trigger_interval_ms) == ("json:loads", 3, 500)
    assert made.spark_conf["spark.log.level"] == "ERROR"
    assert "spark.driver.host" not in made.spark_conf


@pytest.mark.parametrize(
    ("settings", "directories", "read"),
    [
        ((), ("/a", "/b c"), {"localLogDirs": "/a,/b c"}),
        (("local.files=true", "spark.master=local-cluster[2,1,1024]"), ("/a",), {"localLogDirs": "/a"}),
        ((), ("/a,b", "/c"), {"localLogDirs": "/c"}),
        ((), ("/a,b",), {}),
        ((), (), {}),
        (("local.files=false",), ("/a",), {}),
        (("bootstrap.servers=host:1",), ("/a",), {}),
        (("spark.master=spark://host:7077",), ("/a",), {}),
        (("reader.options=LocalLogDirs=/x",), ("/a",), {"LocalLogDirs": "/x"}),
        (("reader.options=LocalLogDirs=/x", "bootstrap.servers=host:1"), ("/a",), {"LocalLogDirs": "/x"}),
    ],
)
def test_a_pipeline_reads_the_files_of_its_own_broker(
    settings: tuple[str, ...], directories: tuple[str, ...], read: dict[str, str]
) -> None:
    found = pipeline(*PARQUET, *settings, data_directories=directories).source_options
    assert {name: text for name, text in found.items() if name.lower() == "locallogdirs"} == read


def test_pipeline_of_a_topic_to_a_topic_uses_the_same_broker() -> None:
    made = pipeline("topics=a", "checkpoint=/c", "format=tidelog", "writer.options=topic=b")
    assert made.output.options == {"kafka.bootstrap.servers": ADDRESS, "topic": "b"}


def test_pipeline_of_a_function_has_no_format_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    made = pipeline("topics=a", "checkpoint=/c", "foreach.batch=mine:f", f"python.path={tmp_path}")
    assert (made.output.foreach_batch, made.python_path) == ("mine:f", (str(tmp_path),))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (("chekpoint=/c",), "chekpoint .* is no key of a sink of the kind spark; did you mean checkpoint?"),
        (("valu.schema=x INT",), "did you mean value.schema?"),
        (("nice=20",), "nice = '20' .* is out of range"),
        (("output.mode=appendix",), "is none of append, update, complete"),
        (("foreach.batch=module.function",), "is not like module:function"),
        (("starting.offsets=first",), "is neither earliest nor latest nor a JSON object"),
        (('starting.offsets={"t": 5}',), 'is not like {"topic": {"0": 23, "1": -2}}'),
        (("writer.options=compression",), "has 'compression', which is no NAME=VALUE pair"),
        (("writer.options=a=1,A=2",), "names an option twice"),
        (('writer.options={"a": [1]}',), "has a value for a that is neither text nor a number"),
        (('writer.options={"a"}',), "is no JSON object"),
        (("select=a, concat(b",), r"has a \( that is not closed"),
        (("value.schema=station STRIN",), "station, which Spark does not know; did you mean STRING?"),
    ],
)  # fmt: skip
def test_a_key_with_a_wrong_value_is_refused(settings: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        configured(*PARQUET, *settings)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (("topics=__consumer_offsets",), "which Spark does not read: it is the broker's own"),
        (("format=parqet",), "format is 'parqet'; did you mean parquet?"),
        (("path=",), "format = parquet needs path: The folder"),
        (("format=noop",), "format = noop has no path"),
        (("path=/c",), "path and checkpoint have to be different folders"),
        (("output.mode=complete",), "output.mode = complete is not for files"),
        (("writer.options=compresion=zstd",), "has compresion, and parquet .*; did you mean compression?"),
        (("writer.options=header=true",), "parquet has no such option; there are: compression, maxRecords"),
        (("writer.options=checkpointlocation=/x",), "for which there is the key checkpoint"),
        (("partition.by=topik",), "partition.by has topik, which is no column; did you mean topic?"),
        (("partition.by=day",), "there are: key, value, topic,"),
        (("value.format=json",), "value.format = json needs value.schema: the fields"),
        (("reader.options=minPartition=3",), "no option minPartition; the nearest one is minPartitions"),
        (("reader.options=minPartitions=x",), "minPartitions has to be a number"),
        (("reader.options=endingOffsets=latest",), "endingOffsets is for batch queries"),
        (("reader.options=startingoffsets=latest",), "for which there is the key starting.offsets"),
        (("reader.options=subscribe=x",), "reader.options has subscribe, for which there is the key topics"),
        (("bootstrap.servers=host",), "kafka.bootstrap.servers: .*host"),
        (("bootstrap.servers=host:1", "local.files=true"), "since bootstrap.servers is set: remove it, or"),
        (("spark.master=yarn", "local.files=true"), "true does not fit, since spark.master is yarn"),
        (("spark.conf=driver.memory=1g",), "has driver.memory: the names of Spark's configuration begin"),
        (("spark.conf=spark.master=local",), "for which there is the key spark.master"),
        (("transform=no_such_module:f",), "transform is no_such_module:f, and there is no module no_such"),
        (("python.path=/no/such/folder",), "python.path has /no/such/folder, which is no folder"),
        (("foreach.batch=json:dumps",), "foreach.batch and path exclude each other"),
        (("format=tidelog", "path=", "writer.options=topik=x"), "writer.options: .* nearest one is topic"),
        (("format=parqet", "path=/c"), "did you mean parquet.* have to be different"),
    ],
)  # fmt: skip
def test_pipeline_of_values_that_do_not_fit_is_refused(settings: tuple[str, ...], problem: str) -> None:
    given = dict(setting.split("=", 1) for setting in (*PARQUET, *settings))
    with pytest.raises(ConfigError, match=problem):
        pipeline(*(f"{name}={text}" for name, text in given.items()))


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        (
            "spark.conf=spark.hadoop.fs.s3a.secret.key=moin,spark.log.level=INFO",
            "spark.hadoop.fs.s3a.secret.key=[hidden],spark.log.level=INFO",
        ),
        ('writer.options={"kafka.SASL.jaas.config": "moin, moin"}', "kafka.SASL.jaas.config=[hidden]"),
        ("reader.options=kafka.ssl.keystore.key=moin", "kafka.ssl.keystore.key=[hidden]"),
    ],
)
def test_secrets_in_options_are_hidden(tmp_path: Path, setting: str, shown: str) -> None:
    given = configured_by_file(tmp_path, *PARQUET, setting)
    key = next(each for each in OPTIONS if setting.startswith(each.name))
    assert key.type.format(given[key]) == shown
    assert "moin" not in repr(given[key])
    if key is SPARK_CONF:
        made = pipeline_of(given)
        assert "moin" in made.to_text()
        assert "moin" not in repr(made)


@pytest.mark.parametrize(
    "setting",
    [
        'reader.options=kafka.sasl.jaas.config=x password="a,moin",failOnDataLoss=true',
        'writer.options={"kafka.ssl.key.password": "moin"',
        "spark.conf=spark.ssl.keyPassword=moin,moin",
    ],
)
def test_secrets_in_malformed_options_are_in_no_error(tmp_path: Path, setting: str) -> None:
    with pytest.raises(ConfigError, match=r"options|spark\.conf") as refused:
        configured_by_file(tmp_path, *PARQUET, setting)
    assert "moin" not in str(refused.value)
