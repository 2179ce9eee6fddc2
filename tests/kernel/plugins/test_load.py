"""Finding and loading plugins, and what is said when that goes wrong."""

from __future__ import annotations

import pytest

from tests.kernel.plugins.distributions import HOOK, Folder, import_folder
from tidelog.kernel.config import ConfigKey, integer, read_sources
from tidelog.kernel.errors import ConfigError, PluginError
from tidelog.kernel.plugins import configure, load_plugins
from tidelog.kernel.plugins.discovery import find_candidates


def test_find_candidates_finds_the_default_bundle_by_entry_points() -> None:
    bundle = {name: candidate.module for name, candidate in find_candidates().items()}
    for name in ("protocol_kafka", "storage_file", "storage_memory", "client_commands"):
        assert bundle[name] == f"tidelog.plugins.{name}.plugin"


def test_a_strangers_plugin_is_loaded_through_its_entry_point(folder: Folder) -> None:
    folder.module("stranger")
    folder.distribution("strange-things", "2.1", strange="stranger")
    plugins = folder.load()
    (candidate,) = [item for item in plugins.candidates if item.name == "strange"]
    assert str(candidate) == "strange (module stranger, from strange-things 2.1)"


def test_load_plugins_does_not_import_a_blocked_plugin(folder: Folder) -> None:
    folder.module("stranger", "raise RuntimeError('imported')")
    folder.distribution("strange-things", strange="stranger")
    assert "strange" in folder.load(blocked=("strange",)).blocked


def test_a_named_module_is_loaded_without_a_distribution(folder: Folder) -> None:
    folder.module("loner")
    plugins = folder.load(extra=("loner",))
    assert [item.name for item in plugins.candidates if item.source is None] == ["loner"]


def test_a_named_module_that_is_announced_too_is_loaded_once(folder: Folder) -> None:
    folder.module("stranger")
    folder.distribution("strange-things", strange="stranger")
    plugins = folder.load(extra=("stranger",))
    assert [item.name for item in plugins.candidates if item.module == "stranger"] == ["strange"]


BROKEN = {
    "raises": (
        "raise RuntimeError('no luck')",
        "The plugin strange (module stranger, from strange-things 1.0) cannot be imported: RuntimeError: "
        "no luck. Repair that distribution, or block the plugin: plugins.blocked=strange",
    ),
    "needs what is missing": (
        "import not_installed_anywhere",
        "ModuleNotFoundError: No module named 'not_installed",
    ),
    "has no hook": ("x = 1", "implements no hook. Its hooks have to be functions in the module itself"),
    "has an unknown hook": (
        HOOK.replace("tidelog_config_keys", "tidelog_config_kyes"),
        "does not fit the hooks of this version: unknown hook 'tidelog_config_kyes' in plugin",
    ),
    "wants an unknown argument": (
        HOOK.replace("tidelog_config_keys()", "tidelog_config_keys(broker)"),
        "does not fit the hooks of this version",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_load_plugins_names_distribution_and_cause_of_a_broken_plugin(folder: Folder, name: str) -> None:
    source, sentence = BROKEN[name]
    folder.module("stranger", source)
    folder.distribution("strange-things", strange="stranger")
    with pytest.raises(PluginError) as caught:
        folder.load()
    assert sentence in str(caught.value)
    assert "strange-things 1.0" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_load_plugins_explains_a_missing_module_of_the_key_plugins(folder: Folder) -> None:
    with pytest.raises(PluginError) as caught:
        folder.load(extra=("nowhere",))
    assert str(caught.value) == (
        "The plugin nowhere (named in the key `plugins`) cannot be imported: ModuleNotFoundError: No module "
        "named 'nowhere'. Install it, or put its folder into PYTHONPATH."
    )


def test_load_plugins_explains_a_broken_module_of_the_key_plugins(folder: Folder) -> None:
    folder.module("loner", "1 / 0")
    with pytest.raises(PluginError, match=r"ZeroDivisionError: division by zero\. Repair it, or take it out"):
        folder.load(extra=("loner",))


def test_load_plugins_refuses_two_distributions_with_one_plugin_name(folder: Folder) -> None:
    folder.module("one")
    folder.module("two")
    folder.distribution("first", twin="one")
    folder.distribution("second", twin="two")
    with pytest.raises(PluginError) as caught:
        load_plugins()
    message = str(caught.value)
    assert message.startswith("Two plugins have the same name: twin (module ")
    assert "from first 1.0" in message
    assert "from second 1.0" in message


def test_find_candidates_has_the_first_of_two_distributions_of_one_name(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder.distribution("twins", "1.0", twin="old", gone="old")
    with import_folder(tmp_path_factory.mktemp("before")) as before:
        before.distribution("twins", "2.0", twin="new")
        found = find_candidates()
    assert str(found["twin"]) == "twin (module new, from twins 2.0)"
    assert "gone" not in found


def test_load_plugins_refuses_to_block_an_unknown_name_and_suggests_the_nearest() -> None:
    with pytest.raises(PluginError) as caught:
        load_plugins(blocked=["storage_fil"])
    message = str(caught.value)
    assert "plugins.blocked names storage_fil, but no such plugin is installed" in message
    assert message.endswith("Did you mean storage_file?")


WITH_KEY = """
    from tidelog.kernel import hookimpl
    from tidelog.kernel.config import ConfigKey, integer
    RETRIES = ConfigKey(name="stranger.retries", type=integer(0), default=3, documentation="How often.")
    @hookimpl
    def tidelog_config_keys():
        return [RETRIES]
"""


def test_configure_knows_the_keys_of_a_plugin_named_in_the_configuration(folder: Folder) -> None:
    folder.module("stranger", WITH_KEY)
    sources = read_sources(
        environment={"TIDELOG_PLUGINS": "stranger", "TIDELOG_STRANGER_RETRIES": "7"},
        assignments=[f"plugins.blocked={','.join(find_candidates())}"],
    )
    config, plugins = configure(sources)
    (key,) = [key for key in plugins.config_keys() if key.name.startswith("stranger.")]
    assert (key.name, config[key], str(config.origin(key))) == (
        "stranger.retries",
        7,
        "TIDELOG_STRANGER_RETRIES",
    )


def test_configure_refuses_the_keys_of_a_blocked_plugin(folder: Folder) -> None:
    folder.module("stranger", WITH_KEY)
    folder.distribution("strange-things", strange="stranger")
    with pytest.raises(ConfigError, match=r"stranger\.retries \(--set\) is no key"):
        configure(
            read_sources(assignments=["stranger.retries=7", f"plugins.blocked={','.join(find_candidates())}"])
        )


def test_configure_reports_an_invalid_value_of_plugins_with_other_errors() -> None:
    with pytest.raises(ConfigError) as caught:
        configure(
            read_sources(
                assignments=["plugins=a,,b", "node.id=x", f"plugins.blocked={','.join(find_candidates())}"]
            )
        )
    assert "plugins = 'a,,b' (--set): has an empty item" in str(caught.value)
    assert "node.id = 'x'" in str(caught.value)


def test_config_keys_refuses_two_different_declarations_of_one_key(folder: Folder) -> None:
    folder.module("one", WITH_KEY)
    folder.module("two", WITH_KEY.replace("default=3", "default=4"))
    with pytest.raises(PluginError, match=r"'stranger\.retries' is declared twice, differently"):
        folder.load(extra=("one", "two")).config_keys()


def test_config_key_as_text_is_its_name() -> None:
    key = ConfigKey(name="x", type=integer(), default=1, documentation="")
    assert str(key) == "x"
