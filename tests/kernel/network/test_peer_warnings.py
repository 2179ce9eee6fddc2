"""Warnings about peers, of which no peer and no number of them can fill the log."""

from __future__ import annotations

import pytest

from tidelog.kernel.network import server
from tidelog.kernel.network.server import PeerWarnings
from tidelog.kernel.seams.wire import Peer


def test_reasons_that_differ_are_logged_up_to_a_number_for_a_host_and_for_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warnings = PeerWarnings()
    for host in range(1, 5):
        for number in range(200):
            warnings.warn(
                Peer(f"10.0.0.{host}", number, "SSL"), "closing the connection of", f"it sent {number}"
            )
    logged = [sum(f"of 10.0.0.{host}:" in each for each in caplog.messages) for host in range(1, 5)]
    assert logged == [server.MOST_WARNINGS_OF_A_HOST, server.MOST_WARNINGS_OF_A_HOST, 0, 0]
    assert sum(logged) == server.MOST_WARNINGS


def test_what_was_left_out_is_counted_in_the_next_warning(caplog: pytest.LogCaptureFixture) -> None:
    seconds = 0.0
    warnings = PeerWarnings(now=lambda: seconds)
    for number in range(server.MOST_WARNINGS_OF_A_HOST + 7):
        warnings.warn(Peer("10.0.0.1", 1, "SSL"), "closing the connection of", f"it sent {number}")
    seconds = server.WARNING_INTERVAL_SECONDS
    warnings.warn(Peer("10.0.0.1", 1, "SSL"), "closing the connection of", "it sent nothing")
    assert caplog.messages[-1] == (
        "closing the connection of 10.0.0.1:1 at SSL: it sent nothing "
        "(7 other warnings about connections were left out before)"
    )
    assert len(caplog.messages) == server.MOST_WARNINGS_OF_A_HOST + 1
