"""`tidelog produce` and `tidelog consume` over TLS."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.client_commands.piped import Shell
from tests.tls_certificates import ca_file, tls_settings
from tidelog.kernel.testing.broker import broker_in_thread


def test_records_are_sent_and_printed_over_tls(tmp_path: Path) -> None:
    with broker_in_thread(tls_settings(tmp_path, None)) as broker:
        shell = Shell(broker.bootstrap)
        trusting = ("-X", "security.protocol=SSL", "-X", f"ssl.cafile={ca_file(tmp_path)}")
        shell.produce(shell.topic, "a", *trusting)
        assert shell.consume(shell.topic, *trusting) == b"a\n"
        assert "has no effect" in shell.refused("consume", shell.topic, *trusting[2:], code=2)
        assert "No broker answers" in shell.refused("consume", shell.topic, *trusting[:2])
