"""Clients that update keys, and try to renegotiate: what they are served, and what bounds them."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from tests.kernel.network.line_protocol import RunningServer
from tests.plugins.tls.raw_records import RawRecords
from tests.plugins.tls.test_tls_listener import ask, connect, refused_count, tls_server
from tests.tls_certificates import client_context
from tidelog.plugins.tls import long_reads


async def raw_client(
    server: RunningServer, folder: Path
) -> tuple[trio.SSLStream[trio.SocketStream], RawRecords]:
    """A connection after its handshake, and what makes its records."""
    context = client_context(folder)
    context.keylog_filename = str(folder / "key-log")
    return await connect(server, context), RawRecords(folder / "key-log")


@pytest.mark.parametrize("asks", [False, True])
async def test_key_updates_between_requests_are_followed(tmp_path: Path, *, asks: bool) -> None:
    async with tls_server(tmp_path) as server:
        client, raw = await raw_client(server, tmp_path)
        for text in (b"one", b"two"):
            updates = b"".join(raw.key_update(asks=asks) for _ in range(5))
            await client.transport_stream.send_all(updates + raw.record(b"echo " + text + b"\n"))
            assert await ask(client, b"", 4) == text + b"\n"


@pytest.mark.parametrize("asks", [False, True])
async def test_key_updates_without_a_pause_end_the_connection_and_others_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, *, asks: bool
) -> None:
    monkeypatch.setattr(long_reads, "TICK_S", 0.002)
    monkeypatch.setattr(long_reads, "IDLE_S", 0.002)
    async with tls_server(tmp_path) as server:
        client, raw = await raw_client(server, tmp_path)
        other = await connect(server, client_context(tmp_path))
        flood = b"".join(raw.key_update(asks=asks) for _ in range(4000))
        with suppress(trio.BrokenResourceError):
            await client.transport_stream.send_all(flood)
        await server.wait_connections(1)
        assert await ask(other, b"echo two\n", 4) == b"two\n"
        await refused_count(caplog, "its key updates or attempts to renegotiate took", 1)


async def test_a_read_that_is_short_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "TICK_S", 0.002)
    monkeypatch.setattr(long_reads, "IDLE_S", 0.002)
    async with tls_server(tmp_path) as server:
        client = await connect(server, client_context(tmp_path))
        for _ in range(50):
            assert await ask(client, b"echo " + b"x" * 20_000 + b"\n", 20_001) == b"x" * 20_000 + b"\n"


async def test_renegotiation_is_refused(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no `openssl` is on the PATH")
    async with tls_server(tmp_path) as server:
        other = await connect(server, client_context(tmp_path))
        _, port = server.bound["PLAINTEXT"]
        # `R` renegotiates; the end of the input would end the client before.
        source, target = os.pipe()
        os.write(target, b"R\n")
        command = [openssl, "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_2"]
        try:
            with trio.fail_after(20):
                ended = await trio.run_process(
                    command, stdin=source, capture_stdout=True, stderr=subprocess.STDOUT, check=False
                )
        finally:
            os.close(source)
            os.close(target)
        assert b"no renegotiation" in ended.stdout
        assert ended.returncode
        assert await ask(other, b"echo one\n", 4) == b"one\n"
