"""The command in a pipe: bytes go in and come out."""

from __future__ import annotations

import os
import sys
import uuid
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from unittest import mock

import attrs
import pytest

from tests.kernel.cli.running import clean_environment
from tidelog.kernel.cli import main


@attrs.frozen
class Piped:
    """What came out."""

    code: int
    out: bytes
    errors: str


@attrs.frozen
class Shell:
    """Runs commands with one broker, each in this process and without a terminal."""

    bootstrap: str
    topic: str = attrs.field(factory=lambda: f"piped-{uuid.uuid4().hex[:12]}")

    def run(self, *arguments: str, given: bytes = b"") -> Piped:
        out, errors = TextIOWrapper(BytesIO(), "utf-8", write_through=True), StringIO()
        given_file = TextIOWrapper(BytesIO(given), "utf-8")
        with (
            redirect_stdout(out),
            redirect_stderr(errors),
            mock.patch.object(sys, "stdin", given_file),
            mock.patch.dict(os.environ, clean_environment(), clear=True),
            pytest.raises(SystemExit) as ended,
        ):
            main([*arguments, "--bootstrap-server", self.bootstrap])
        buffer = out.buffer
        assert isinstance(buffer, BytesIO)
        return Piped(int(ended.value.code or 0), buffer.getvalue(), errors.getvalue())

    def produce(self, *arguments: str, given: bytes = b"") -> str:
        """What it prints on standard error; it has to succeed."""
        done = self.run("produce", *arguments, given=given)
        assert done.code == 0, done.errors
        return done.errors

    def consume(self, *arguments: str) -> bytes:
        """What it prints; it has to succeed, and to be silent on standard error."""
        done = self.run("consume", *arguments)
        assert (done.code, done.errors) == (0, "")
        return done.out

    def refused(self, *arguments: str, given: bytes = b"", code: int = 1) -> str:
        done = self.run(*arguments, given=given)
        assert done.code == code, done
        return done.errors
