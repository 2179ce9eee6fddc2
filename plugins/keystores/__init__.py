"""Keys and certificates from files and text, and TLS contexts of them: a library of plugins, not a plugin."""

from typing import Final

STORE_KINDS: Final = ("JKS", "PKCS12", "PEM")
"""Values of Kafka's keys for the type of a store."""
