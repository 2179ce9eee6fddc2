"""The plugin and the line that an error is from."""

from __future__ import annotations

import json

from tidelog.kernel.code_places import plugins_by_module, raised_in


def _error() -> ValueError:
    try:
        json.loads("{")
    except ValueError as error:
        return error
    raise AssertionError("it is no JSON")


def test_raised_in_returns_the_line_of_a_plugin_though_a_library_has_raised() -> None:
    raised = raised_in(_error(), {"tests.kernel": "mine"})
    assert raised.plugin == "mine"
    assert str(raised).startswith(f"the plugin mine at {__name__}:")
    assert str(raised).endswith(" (_error)")


def test_raised_in_returns_the_last_line_without_a_plugin() -> None:
    assert str(raised_in(_error(), {})).startswith("json.decoder:")
    assert str(raised_in(ValueError(), {})) == "an unknown place"


def test_plugins_by_module_has_packages_of_one_plugin_alone() -> None:
    modules = {"shop.plugin": "shop", "tools.a": "a", "tools.b": "b", "single": "single"}
    assert plugins_by_module({**modules, "tidelog.plugins.tls.plugin": "tls"}) == {
        **modules,
        "shop": "shop",
        "tidelog.plugins.tls.plugin": "tls",
    }
