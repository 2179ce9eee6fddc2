"""Reading, writing and loading over TLS with SCRAM, and where Spark shows what of the login."""

from __future__ import annotations

import pickle
from collections.abc import Generator

import pytest

from tests.secured_brokers import PASSWORD, SecuredBroker, jaas, secured_tidelog
from tests.tls_certificates import written
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.options import parse_options
from tidelog.plugins.spark_sink.writer.options import parse_writer_options

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
