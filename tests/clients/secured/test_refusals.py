"""Clients that do not fit a listener: each ends soon, in a clear error at both ends."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import attrs
import pytest

from benchmarks.procfs import peak_resident_bytes
from tests.deadlines import DEADLINE_S

from .refusals import CLIENTS, EXPIRED, RARE, TIMEOUT_S, Misfit, refusing_kafka, refusing_tidelog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.peers import TidelogServer

MOST_GROWTH_BYTES = 16 * 1024 * 1024
YEAR = timedelta(days=365)
# What each client shows. Some show of a reason only that the connection was closed, or has no answer.
JAVA = "kafka-clients 2.8"
INVALID = dict.fromkeys(CLIENTS, "Authentication failed: Invalid username or password")
INVALID_SCRAM = dict.fromkeys(CLIENTS, "invalid credentials with SASL mechanism SCRAM-SHA-256")
CLOSED = {
    "librdkafka": "brokers are down",
    "aiokafka": "Connection at .* closed",
    JAVA: "not present in metadata",
    "kcat": "verify that security.protocol is|caused by incorrect security.protocol",
}
NO_SASL = {**CLOSED, "tidelog": "does its listener have another security_protocol"}
UNTRUSTED = {
    **dict.fromkeys(("librdkafka", "kcat"), "certificate verify failed"),
    JAVA: "SslAuthenticationException: SSL handshake failed",
}
JAVA_REFUSED = "SslAuthenticationException: (Failed to process post-handshake messages|SSL handshake failed)"
MISFITS = (
    Misfit("password", "SASL_SSL", "SASL_SSL", "with PLAIN failed: wrong password of user 'alice'", INVALID),
    Misfit(
        "password of SCRAM",
        "SASL_SSL",
        "SASL_SSL",
        # The second one is of the librdkafka in Debian's kcat.
        "with SCRAM-SHA-256 failed: unknown user (user 'alice')|failed: its own nonce comes twice",
        INVALID_SCRAM,
        mechanism="SCRAM-SHA-256",
    ),
    Misfit("unknown user", "SASL_PLAINTEXT", "SASL_PLAINTEXT", "unknown user 'carol'", INVALID, user="carol"),
    Misfit(
        "mechanism",
        "SASL_PLAINTEXT",
        "SASL_PLAINTEXT",
        "it asks for the SASL mechanism 'SCRAM-SHA-512'; sasl.enabled.mechanisms has PLAIN, SCRAM-SHA-256",
        {
            **dict.fromkeys(
                ("librdkafka", "kcat"),
                "broker's supported mechanisms: PLAIN,SCRAM-SHA-256|SCRAM-SHA-256,PLAIN",
            ),
            "aiokafka": "UnsupportedSaslMechanism",
            JAVA: "UnsupportedSaslMechanismException: Client SASL mechanism 'SCRAM-SHA-512' not enabled",
            "tidelog": "the broker has only (PLAIN, SCRAM-SHA-256|SCRAM-SHA-256, PLAIN)",
        },
        mechanism="SCRAM-SHA-512",
    ),
    Misfit(
        "expired client",
        "SSL",
        "SSL",
        "the client's certificate is refused: certificate has expired",
        {
            **dict.fromkeys(CLIENTS, "alert certificate (expired|unknown)"),
            JAVA: JAVA_REFUSED,
            "aiokafka": CLOSED["aiokafka"],
        },
        certificate=EXPIRED,
    ),
    Misfit(
        "no certificate",
        "SSL",
        "SSL",
        "the client presents no certificate, and ssl.client.auth=required",
        {
            **dict.fromkeys(CLIENTS, "alert (certificate required|bad certificate)"),
            JAVA: JAVA_REFUSED,
            "aiokafka": CLOSED["aiokafka"],
            "tidelog": "requires a certificate of the client|alert bad certificate",
        },
    ),
    Misfit(
        "another host",
        "ELSEWHERE",
        "SSL",
        "the client refuses the broker's certificate|its TLS failed",
        {
            **UNTRUSTED,
            "aiokafka": "IP address mismatch",
            "tidelog": "ip address mismatch",
        },
    ),
    Misfit(
        "expired broker",
        "EXPIRED",
        "SSL",
        "the client refuses the broker's certificate: it has expired|its TLS failed",
        {**dict.fromkeys(CLIENTS, "certificate has expired"), **UNTRUSTED},
    ),
    Misfit(
        "plain on TLS",
        "SSL",
        "PLAINTEXT",
        "this listener needs TLS, .*; set security.protocol=SSL or SASL_SSL in the client",
        {**CLOSED, "tidelog": "does its listener have another security_protocol|it looks like TLS"},
    ),
    Misfit(
        "TLS on plain",
        "PLAINTEXT",
        "SSL",
        "it looks like TLS, .*: set security.protocol=PLAINTEXT or SASL_PLAINTEXT in the client",
        {
            "librdkafka": "connecting to a PLAINTEXT broker listener",
            "aiokafka": "Unable to bootstrap",
            "kcat": "unexpected eof|connecting to a PLAINTEXT broker listener",
            JAVA: CLOSED[JAVA],
            "tidelog": "ended the connection within the tls handshake|reset",
        },
    ),
    Misfit(
        "downgrade",
        "SSL",
        "SSL",
        "the client offers no version of TLS that ssl.enabled.protocols allows",
        dict.fromkeys(("aiokafka", "tidelog"), "alert protocol version"),
        certificate=YEAR,
        tls_1_1=True,
    ),
    Misfit(
        "no SASL",
        "SASL_PLAINTEXT",
        "PLAINTEXT",
        "a Metadata request came before .*; set security.protocol and sasl.mechanism in the client",
        NO_SASL,
    ),
    Misfit("no SASL in TLS", "SASL_SSL", "SSL", "a Metadata request came before the client", NO_SASL),
)


@attrs.frozen
class Refusing:
    """A broker's addresses, its files, and the broker itself, None where it is not ours."""

    addresses: dict[str, str]
    folder: Path
    server: TidelogServer | None


@pytest.fixture(scope="module", params=["tidelog", pytest.param("kafka", marks=pytest.mark.long)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refusing]:
    """Each broker with all listeners."""
    folder = tmp_path_factory.mktemp("refusals")
    if request.param == "kafka":
        with refusing_kafka(folder) as addresses:
            yield Refusing(addresses, folder, None)
    else:
        with refusing_tidelog(folder) as (server, addresses):
            before = peak_resident_bytes(server.pid)
            yield Refusing(addresses, folder, server)
            # What the clients of all tests have sent together, the first bytes of TLS as a length among it.
            assert peak_resident_bytes(server.pid) - before < MOST_GROWTH_BYTES


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    "client", [pytest.param(each, marks=[pytest.mark.long] if each in RARE else []) for each in CLIENTS]
)
def test_a_client_that_does_not_fit_sees_why_and_the_broker_logs_it(client: str, broker: Refusing) -> None:
    misfits = [each for each in MISFITS if client in each.at_the_client]
    assert len(misfits) >= len(MISFITS) - 1
    began = time.monotonic()
    errors = CLIENTS[client](broker.addresses, broker.folder, misfits)
    assert time.monotonic() - began < max(5 * TIMEOUT_S, DEADLINE_S / 2)
    unclear = {each.name: errors[each.name] for each in misfits if not shows(errors[each.name], each, client)}
    assert unclear == {}
    if broker.server is not None:
        log = broker.server.process.log_path
        began = time.monotonic()
        # So many lines about one host in ten seconds are left out: who has none comes again.
        while silent := [each for each in misfits if not wanted_line(each).search(log.read_text())]:
            assert time.monotonic() - began < DEADLINE_S, [wanted_line(each).pattern for each in silent]
            CLIENTS[client](broker.addresses, broker.folder, silent)


def wanted_line(misfit: Misfit) -> re.Pattern[str]:
    """Return what the broker's log has about it."""
    where = f"closing the connection of 127.0.0.1:[0-9]+ at {misfit.listener}: .*"
    return re.compile("|".join(where + part for part in patterns_of(misfit.at_the_broker)))


def shows(error: str, misfit: Misfit, client: str) -> bool:
    """Whether the client's error has what it should."""
    return re.search(misfit.at_the_client[client], error) is not None


def patterns_of(text: str) -> list[str]:
    """The parts of a description, with brackets for themselves."""
    return [part.replace("(", r"\(").replace(")", r"\)") for part in text.split("|")]
