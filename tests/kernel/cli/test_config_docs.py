"""docs/configuration.md says what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidelog.kernel.cli.config_docs import default_bundle_page, render
from tidelog.kernel.config import ConfigKey, integer
from tidelog.kernel.plugins import load_plugins

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_default_bundle_page_equals_docs_configuration_md() -> None:
    assert PAGE.read_text() == default_bundle_page(), "docs/configuration.md is stale: run `make docs`"


def test_config_docs_prints_the_default_bundle_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidelog.kernel.cli.config_docs"], capture_output=True, text=True, check=True
    )
    assert done.stdout == default_bundle_page()


def test_default_bundle_page_has_a_row_for_every_key() -> None:
    page = default_bundle_page()
    for key in load_plugins().config_keys():
        assert f"| `{key.name}`" in page
        assert key.documentation.endswith("."), key.name


def test_render_gives_keys_of_a_plugin_a_table_of_their_own() -> None:
    key = ConfigKey(name="sink.retries", type=integer(0), default=3, documentation="How often | it tries.")
    page = render([("sinks", [key])])
    assert "## Broker keys of `sinks`" in page
    assert "| `sink.retries` | int: >= 0 | `3` | How often \\| it tries. |" in page
