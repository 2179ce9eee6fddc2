"""`tidelog certs`: what it makes gets a client in, and nothing that is there is lost."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidelog.client import Admin
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.tls.certs_command import certs
from tidelog.plugins.tls.development_certificates import CertificatesNotMade


def run(*arguments: str) -> str:
    """What the command prints."""
    return CliRunner().invoke(certs, arguments, catch_exceptions=False).output


def settings_of(output: str, heading: str) -> dict[str, str]:
    """The settings below a heading."""
    lines = output.partition(f"{heading}\n")[2].splitlines()
    own = lines[: next((at for at, line in enumerate(lines) if not line.startswith("  ")), None)]
    return dict(line.strip().split("=", 1) for line in own)


def test_certs_makes_what_a_broker_and_its_clients_need(tmp_path: Path) -> None:
    output = run(str(tmp_path), "--client", "alice")
    settings = {**settings_of(output, "The broker:"), "listeners": "SSL://127.0.0.1:0"}
    assert settings["ssl.client.auth"] == "required"
    with broker_in_thread(settings) as broker:
        options = {"security_protocol": "SSL", "ssl_cafile": str(tmp_path / "ca.pem")}
        with Admin(broker.bootstrap, **options, ssl_certfile=str(tmp_path / "alice.pem")) as admin:  # type: ignore[arg-type]
            assert admin.list_topics() == []
        with (
            Admin(broker.bootstrap, **options, retries=0, default_api_timeout_ms=5000) as admin,  # type: ignore[arg-type]
            pytest.raises(ClientError, match="requires a certificate"),
        ):
            admin.list_topics()


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    run(str(tmp_path), "--client", "alice")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes["ca.pem"] == 0o644
    assert {modes[name] for name in ("ca.key", "broker.pem", "alice.pem")} == {0o600}
    assert set(modes) == {"ca.pem", "ca.key", "broker.pem", "alice.pem"}


def test_certs_keeps_the_authority_and_replaces_nothing_by_accident(tmp_path: Path) -> None:
    run(str(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CertificatesNotMade, match=r"broker\.pem is there already; --force replaces it"):
        run(str(tmp_path), "--client", "alice")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    run(str(tmp_path), "--client", "alice", "--force")
    assert (tmp_path / "ca.key").read_bytes() == before["ca.key"]
    assert (tmp_path / "broker.pem").read_bytes() != before["broker.pem"]


@pytest.mark.parametrize("name", ["../x", "ca", "broker", "a/b"])
def test_names_that_are_no_files_of_their_own_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CertificatesNotMade, match="cannot be the name of a client"):
        run(str(tmp_path), "--client", name)
    assert list(tmp_path.iterdir()) == []
