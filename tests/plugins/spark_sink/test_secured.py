"""Reading, writing and loading over TLS with SCRAM, and where Spark shows what of the login."""

from __future__ import annotations

import pickle
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from tests.secured_brokers import PASSWORD, SecuredBroker, jaas, secured_tidelog
from tests.tls_certificates import written
from tidelog.client import Producer
from tidelog.plugins.client import BlockingClient, NewTopic, or_raise
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.options import parse_options
from tidelog.plugins.spark_sink.writer.options import parse_writer_options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredBroker]:
    with secured_tidelog(tmp_path_factory.mktemp("secured")) as running:
        yield running


def options(broker: SecuredBroker) -> dict[str, str]:
    """Options of a query, whose password is a reference."""
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
    secrets = written(broker.folder / "secrets.properties", f"password={escaped}".encode())
    reference = jaas(password=f"${{file:{secrets}:password}}")
    keys = broker.keys(
        sasl_jaas_config=reference, config_providers="file", config_providers_file_class=PROVIDER
    )
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        **{f"kafka.{name}": value for name, value in keys.items()},
    }


def test_the_options_of_reading_and_writing_log_in(broker: SecuredBroker) -> None:
    reading = parse_options({**options(broker), "subscribe": "t"}, streaming=True)
    writing = parse_writer_options({**options(broker), "topic": "t"}, streaming=True)
    # Tasks get them with the pickled reader and writer.
    for settings in (pickle.loads(pickle.dumps(each.client)) for each in (reading, writing)):
        with BlockingClient(broker.bootstrap, settings=settings) as client:
            assert client.metadata().brokers


def test_no_password_is_in_a_representation_or_an_error(broker: SecuredBroker) -> None:
    given = {**options(broker), "subscribe": "t"}
    assert "horse" not in repr(parse_options(given, streaming=True))
    wrong = {**given, "kafka.sasl.jaas.config": "no module, but horse"}
    with pytest.raises(InvalidOption, match="sasl_jaas_config") as refused:
        parse_options(wrong, streaming=True)
    assert "horse" not in str(refused.value)


def test_no_password_is_in_a_plan_or_an_error_of_spark(broker: SecuredBroker, spark: SparkSession) -> None:
    with BlockingClient(broker.plain) as client:
        or_raise(client.create_topics([NewTopic("planned", 1)]))

    def load(password: str) -> Any:
        given = {**options(broker), "kafka.sasl.jaas.config": jaas(password=password)}
        return spark.read.format("tidelog").options(**given).option("subscribe", "planned").load()

    table = load(PASSWORD)
    assert table.count() == 0
    plan: Any = table._jdf.queryExecution()
    explained = [spark._jvm.PythonSQLUtils.explainString(plan, mode) for mode in ("extended", "formatted")]  # type: ignore[union-attr]
    with pytest.raises(PySparkException) as refused:
        load("another horse").count()
    shown = [*map(str, explained), str(plan.toString()), repr(table), str(refused.value), repr(refused.value)]
    assert [text for text in shown if "horse" in text] == []


@pytest.mark.long
def test_no_password_is_in_a_checkpoint_or_the_progress_of_a_query(
    broker: SecuredBroker, spark: SparkSession, tmp_path: Path
) -> None:
    with BlockingClient(broker.plain) as client:
        or_raise(client.create_topics([NewTopic("streamed", 1), NewTopic("copied", 1)]))
    with Producer(broker.plain) as producer:
        producer.send_and_wait("streamed", b"x")
    given = {**options(broker), "kafka.sasl.jaas.config": jaas(password=PASSWORD)}
    source = spark.readStream.format("tidelog").options(**given).option("subscribe", "streamed")
    rows = source.option("startingOffsets", "earliest").load()
    sink = rows.select("value").writeStream.format("tidelog").options(**given).option("topic", "copied")
    query = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.recentProgress[0].numInputRows == 1
    assert "horse" not in "".join(each.json for each in query.recentProgress)
    files = {
        str(each.relative_to(tmp_path)): each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()
    }
    assert {"metadata", "offsets/0", "commits/0"} <= files.keys()
    assert [name for name, content in files.items() if b"horse" in content] == []
