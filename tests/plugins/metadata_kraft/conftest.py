"""A storage in files to work on, whose metadata is in Kafka's log."""

from __future__ import annotations

from tests.plugins.storage_file.conftest import harness, tasks

__all__ = ["harness", "tasks"]
