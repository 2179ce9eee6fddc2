"""Certificates of brokers that are measured over TLS: one authority for each run of the benchmark."""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tidelog.plugins.tls.development_certificates import make_certificates

_DAYS = 2


@cache
def ca_file() -> str:
    """Return the file of the authority that clients trust; it is deleted when this process ends."""
    return str(_directory() / "ca.pem")


def tls_settings() -> dict[str, str]:
    """Return the settings of a broker that offers TLS 1.3 with one cipher, the same for both products."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(_directory() / "broker.pem"),
        "ssl.enabled.protocols": "TLSv1.3",
        "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
    }


@cache
def _directory() -> Path:
    folder = TemporaryDirectory(prefix="tidelog-benchmarks-")
    atexit.register(folder.cleanup)
    directory = Path(folder.name)
    make_certificates(directory, ["127.0.0.1", "localhost"], [], _DAYS, force=True)
    return directory
