"""The engine without a network: operations side by side, connections, timers, brokers that misbehave."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.plugins.client.fakes import ALL_VERSIONS, FakeBroker, metadata_message
from tests.plugins.client.manual_driver import Closed, ManualDriver
from tests.tables import for_each
from tidelog.plugins.client import ClientSettings
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.engine import Engine, result_of
from tidelog.plugins.client.errors import (
    BrokerClosed,
    BrokerUnreachable,
    ClientClosed,
    ProtocolError,
    RequestTimedOut,
)
from tidelog.plugins.client.operations.sending import refresh, retrying, send_request
from tidelog.plugins.client.steps import Pause, Session, Steps
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest

ONE, TWO = Address("one", 1), Address("two", 2)
BROKERS = {1: ONE, 2: TWO}
SETTINGS = ClientSettings(request_timeout_s=10, operation_timeout_s=60, connect_timeout_s=5)


def honest(**answers: Any) -> FakeBroker:
    return FakeBroker({"Metadata": metadata_message({"t": [1]}, brokers=BROKERS), **answers})


_drivers: list[ManualDriver] = []


@pytest.fixture(autouse=True)
def closed_drivers() -> Iterator[None]:
    yield
    while _drivers:
        _drivers.pop().close()


def engine_of(driver: ManualDriver, bootstrap: str = "one:1,two:2") -> Engine:
    _drivers.append(driver)
    return driver.attach(Engine(bootstrap, SETTINGS, driver))


class Outcome:
    """What an operation ends with."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def __call__(self, value: Any) -> None:
        self.values.append(value)

    @property
    def is_there(self) -> bool:
        return bool(self.values)


def run(driver: ManualDriver, steps: Any, timeout_s: float | None = 60.0) -> Any:
    outcome = Outcome()
    driver.engine.spawn(steps, outcome, timeout_s=timeout_s)
    driver.run(lambda: outcome.is_there)
    (value,) = outcome.values
    return value


def test_an_engine_connects_negotiates_and_answers() -> None:
    broker = honest()
    driver = ManualDriver({ONE: broker})
    found = run(driver, refresh(engine_of(driver).session, ["t"]))
    assert found.brokers == BROKERS
    assert driver.now == 1000.0
    run(driver, refresh(driver.engine.session, ["t"]))
    assert (driver.connects, len(broker.asked)) == (1, 2)


def test_an_engine_runs_operations_side_by_side_over_one_connection() -> None:
    driver = ManualDriver({ONE: honest()})
    engine = engine_of(driver)
    outcomes = [Outcome() for _ in range(50)]
    for outcome in outcomes:
        engine.spawn(refresh(engine.session, ["t"]), outcome)
    driver.run(lambda: all(outcome.is_there for outcome in outcomes))
    assert driver.connects == 1


def test_an_engine_receives_answers_cut_at_every_byte() -> None:
    driver = ManualDriver({ONE: honest()})
    driver.pieces = 1
    assert run(driver, refresh(engine_of(driver).session, ["t"])).brokers == BROKERS


def test_an_engine_tries_the_next_address_where_one_refuses_or_is_silent() -> None:
    driver = ManualDriver({TWO: honest()})
    assert run(driver, refresh(engine_of(driver).session)).brokers == BROKERS
    driver = ManualDriver({ONE: honest(), TWO: honest()})
    driver.silent.add(ONE)
    assert run(driver, refresh(engine_of(driver).session)).brokers == BROKERS
    assert driver.now == 1005.0


def test_an_engine_without_any_broker_names_each_address() -> None:
    driver = ManualDriver({})
    error = run(driver, refresh(engine_of(driver).session))
    assert isinstance(error, BrokerUnreachable)
    assert [address for address, _ in error.attempts] == [ONE, TWO]


def test_an_engine_fails_what_is_in_flight_when_a_connection_ends_and_connects_again() -> None:
    broker = honest()
    broker.answers["Metadata"] = [Closed(), metadata_message({"t": [1]}, brokers=BROKERS)]
    driver = ManualDriver({ONE: broker})
    engine = engine_of(driver, "one:1")
    error = run(driver, refresh(engine.session))
    assert isinstance(error, BrokerClosed)
    assert run(driver, refresh(engine.session)).brokers == BROKERS
    assert driver.connects == 2


def test_an_engine_closes_a_connection_whose_response_does_not_come() -> None:
    broker = honest()
    broker.answers["Metadata"] = lambda _request: metadata_message({"t": [1]}, brokers=BROKERS)
    driver = ManualDriver({ONE: broker})
    engine = engine_of(driver, "one:1")
    run(driver, refresh(engine.session))
    driver.silent.add(ONE)
    first, second = Outcome(), Outcome()
    engine.spawn(send_request(engine.session, MetadataRequest(topics=[])), first)
    engine.spawn(send_request(engine.session, MetadataRequest(topics=[])), second)
    driver.run(lambda: first.is_there and second.is_there)
    assert isinstance(first.values[0], RequestTimedOut)
    assert isinstance(second.values[0], BrokerClosed)
    assert driver.now == 1010.0


def test_an_engine_ends_an_operation_at_its_deadline() -> None:
    driver = ManualDriver({})
    engine = engine_of(driver)

    def endless(session: Session) -> Steps[None]:
        yield from retrying(session, lambda: refresh(session))
        while True:
            yield Pause(1.0)

    def patient(_session: Session) -> Steps[str]:
        yield Pause(30.0, is_extra=True)
        yield Pause(9.0)
        return "done"

    error = run(driver, endless(engine.session), timeout_s=2.0)
    assert isinstance(error, RequestTimedOut)
    assert error.what == "endless"
    assert isinstance(error.last_error, BrokerUnreachable)
    assert driver.now == 1002.0
    assert run(driver, patient(engine.session), timeout_s=10.0) == "done"


def test_an_engine_forgets_an_operation_that_is_cancelled() -> None:
    driver = ManualDriver({ONE: honest()})
    engine = engine_of(driver)
    outcome = Outcome()
    task = engine.spawn(refresh(engine.session), outcome)
    driver.settle()
    other = engine.spawn(refresh(engine.session), outcome)
    task.cancel()
    other.cancel()
    other.cancel()
    assert run(driver, refresh(engine.session)).brokers == BROKERS
    assert len(outcome.values) == 1  # of the first, which had ended


def test_an_engine_that_closes_fails_what_it_runs_and_takes_nothing_new() -> None:
    driver = ManualDriver({ONE: honest()})
    engine = engine_of(driver)
    run(driver, refresh(engine.session))
    outcome = Outcome()
    engine.spawn(refresh(engine.session), outcome)
    engine.close()
    assert isinstance(outcome.values[0], ClientClosed)
    with pytest.raises(ClientClosed):
        engine.spawn(refresh(engine.session), outcome)


def test_an_engine_assumes_versions_of_a_broker_that_closes_at_apiversions() -> None:
    """Kafka before 0.10: the versions are assumed for one connection, and only for that."""

    class Old(FakeBroker):
        def receive(self, data: bytes) -> bytes:
            key, version = struct.unpack_from(">hh", data, 4)
            if key == 18:
                raise Closed
            assert (key, version) == (3, 0)
            return super().receive(data)

    broker = Old({"Metadata": metadata_message({"t": [1]}, brokers=BROKERS)})
    driver = ManualDriver({ONE: broker})
    engine = engine_of(driver, "one:1")
    assert set(run(driver, refresh(engine.session, ["t"])).topics) == {"t"}
    assert driver.connects == 2
    driver.cut(ONE)
    modern = driver.servers[ONE] = honest()
    run(driver, refresh(engine.session, ["t"]))
    assert modern.asked[0].header.api_version == ALL_VERSIONS[3][1]


def test_an_engine_refuses_a_peer_that_is_no_broker() -> None:
    class Stranger:
        def receive(self, data: bytes) -> bytes:
            assert data
            return b"\x00\x00\x00\x08HTTP/1.1"

    driver = ManualDriver({ONE: Stranger()})
    error = run(driver, refresh(engine_of(driver, "one:1").session))
    assert isinstance(error, ProtocolError)
    assert "ApiVersions" in str(error)


@for_each(
    ("connect_timeout_s", "refusing", "reasons"),
    [
        (100.0, 0, ["no answer within 3 s"] * 3),
        (2.0, 0, ["no answer within 2 s"] * 3),
        (100.0, 1, ["refused", "no answer within 4.5 s", "no answer within 4.5 s"]),
        (100.0, 2, ["refused", "refused", "no answer within 9 s"]),
    ],
)
def test_addresses_share_the_time_of_an_operation(
    connect_timeout_s: float, refusing: int, reasons: list[str]
) -> None:
    addresses = [Address(name, 1) for name in ("a", "b", "c")]
    driver = ManualDriver({address: honest() for address in addresses[refusing:]})
    driver.silent.update(addresses)
    settings = ClientSettings(connect_timeout_s=connect_timeout_s)
    engine = driver.attach(Engine("a:1,b:1,c:1", settings, driver))
    error = run(driver, refresh(engine.session), timeout_s=9.0)
    assert isinstance(error, BrokerUnreachable)
    assert [reason for _, reason in error.attempts] == reasons


def test_an_operation_that_raises_ends_with_that_error_alone() -> None:
    driver = ManualDriver({ONE: honest()})
    engine = engine_of(driver)

    def broken(_session: Session) -> Steps[None]:
        yield Pause(1.0)
        raise KeyError("what")

    other = Outcome()
    engine.spawn(refresh(engine.session), other)
    found = run(driver, broken(engine.session))
    with pytest.raises(KeyError):
        result_of(found)
    with pytest.raises(TypeError):
        result_of(run(driver, send_request(engine.session, object())))
    assert result_of(other.values[0]).brokers == BROKERS


def test_an_engine_without_lanes_has_one_connection() -> None:
    driver = ManualDriver({ONE: honest()})
    _drivers.append(driver)
    engine = driver.attach(Engine("one:1", ClientSettings(), driver, has_lanes=False))
    for lane in ("", "coordinator"):
        run(driver, send_request(engine.session, MetadataRequest(topics=[]), lane=lane))
    assert driver.connects == 1
