"""What plugins hand over, found by name and checked."""

from __future__ import annotations

import pytest

from tests.kernel.plugins.distributions import Folder
from tidelog.kernel.cli.plugins import Offer, installed_plugins
from tidelog.kernel.config import Config
from tidelog.kernel.errors import ConfigError, PluginError
from tidelog.kernel.plugins import Plugins, configure
from tidelog.kernel.testing.broker import new_broker


def offering(hook: str, *names: str) -> str:
    """A plugin whose hook hands over things of these names."""
    takes_broker = ("tidelog_background_tasks", "tidelog_event_listeners", "tidelog_request_stages")
    parameter = "broker" if hook in takes_broker else ""
    return f"""
    from types import SimpleNamespace
    from tidelog.kernel import hookimpl
    @hookimpl
    def {hook}({parameter}):
        return [SimpleNamespace(name=name) for name in {names!r}]
    """


def load(folder: Folder, **modules: str) -> Plugins:
    for name, source in modules.items():
        folder.module(name, source)
    return folder.load(extra=tuple(modules))


def test_a_storage_is_found_by_name(folder: Folder) -> None:
    plugins = load(folder, one=offering("tidelog_storage_backends", "tape", "drum"))
    assert plugins.storage_backend("drum").name == "drum"


def test_a_codec_is_found_by_name(folder: Folder) -> None:
    plugins = load(folder, one=offering("tidelog_wire_codecs", "morse"))
    assert plugins.wire_codec("morse").name == "morse"


def test_storage_backend_of_an_unknown_name_lists_the_installed_and_the_nearest(folder: Folder) -> None:
    plugins = load(folder, one=offering("tidelog_storage_backends", "tape", "drum"))
    with pytest.raises(PluginError) as caught:
        plugins.storage_backend("tap")
    message = str(caught.value)
    assert message.startswith(
        "There is no storage named 'tap'. Installed are: drum, tape. Did you mean tape?"
    )
    assert "Blocked plugins: " in message
    with pytest.raises(PluginError, match=r"There is no wire codec named 'kafka'\. Installed are: none\."):
        plugins.wire_codec("kafka")


def test_two_plugins_that_offer_one_name_are_named(folder: Folder) -> None:
    plugins = load(
        folder,
        one=offering("tidelog_storage_backends", "tape"),
        two=offering("tidelog_storage_backends", "tape"),
    )
    with pytest.raises(PluginError) as caught:
        plugins.storage_backend("tape")
    assert str(caught.value) == (
        "The plugins one and two both offer a storage named tape; block one of them: plugins.blocked=two"
    )


MISBEHAVING = {
    "raises": ("raise OSError('disk')", "The plugin one failed in tidelog_storage_backends: OSError: disk"),
    "raises late": ("yield 1 / 0", "The plugin one failed in tidelog_storage_backends: ZeroDivisionError"),
    "no list": ("return 5", "The plugin one failed in tidelog_storage_backends: TypeError"),
    "no name": ("return [5]", "The plugin one hands over 5 as a storage, but it has no name."),
}


@pytest.mark.parametrize("name", MISBEHAVING)
def test_storage_backend_names_the_plugin_whose_hook_fails(folder: Folder, name: str) -> None:
    body, sentence = MISBEHAVING[name]
    source = f"""
    from tidelog.kernel import hookimpl
    @hookimpl
    def tidelog_storage_backends():
        {body}
    """
    with pytest.raises(PluginError) as caught:
        load(folder, one=source).storage_backend("tape")
    assert sentence in str(caught.value)


REFUSING = """
    from tidelog.kernel import hookimpl
    from tidelog.kernel.errors import ConfigError
    @hookimpl
    def tidelog_request_stages(broker):
        raise ConfigError("moon.phase is not set")
    @hookimpl
    def tidelog_storage_backends():
        raise ConfigError("no configuration was here")
"""


def test_a_hook_that_refuses_the_configuration_is_not_at_fault(folder: Folder) -> None:
    plugins = load(folder, one=REFUSING)
    with pytest.raises(ConfigError) as caught:
        list(plugins.ask("tidelog_request_stages", broker=None))
    assert str(caught.value) == "moon.phase is not set"
    with pytest.raises(PluginError, match="The plugin one failed in tidelog_storage_backends: ConfigError"):
        plugins.storage_backend("tape")


@pytest.mark.parametrize("name", ["", "a/b", "a,b", " a", "x" * 101])
def test_cleanup_policies_refuses_a_name_that_no_file_and_no_list_can_have(folder: Folder, name: str) -> None:
    with pytest.raises(PluginError, match="has a name with other than"):
        load(folder, one=offering("tidelog_cleanup_policies", name)).cleanup_policies()


def test_hooks_whose_objects_have_no_names_refuse_a_wrong_type(folder: Folder) -> None:
    plugins = load(
        folder,
        one=offering("tidelog_config_keys", "x"),
        two=offering("tidelog_background_tasks", "x"),
        three=offering("tidelog_event_listeners", "x"),
        four=offering("tidelog_request_stages", "x"),
    )
    with pytest.raises(PluginError, match=r"The plugin one hands over .*, which is no configuration key"):
        plugins.config_keys()
    with pytest.raises(PluginError, match=r"The plugin two hands over .*, which is no background task"):
        plugins.background_tasks(new_broker())
    with pytest.raises(PluginError, match=r"The plugin three hands over .*, which is no event listener"):
        plugins.event_listeners(new_broker())
    with pytest.raises(PluginError, match=r"The plugin four hands over .*, which is no request stage"):
        plugins.request_stages(new_broker())


def test_commands_of_a_hook_that_returns_none_are_empty(folder: Folder) -> None:
    source = """
    from tidelog.kernel import hookimpl
    @hookimpl
    def tidelog_commands():
        pass
    """
    assert load(folder, one=source).commands() == []


def test_hooks_are_asked_once_in_the_order_of_loading(folder: Folder) -> None:
    counting = """
    from types import SimpleNamespace
    from tidelog.kernel import hookimpl
    calls = []
    @hookimpl
    def tidelog_storage_backends():
        calls.append(1)
        return [SimpleNamespace(name="NAME", calls=calls)]
    """
    plugins = load(folder, one=counting.replace("NAME", "a"), two=counting.replace("NAME", "b"))
    for _ in range(2):
        assert vars(plugins.storage_backend("a"))["calls"] == [1]
    assert plugins.implementers("tidelog_storage_backends") == ["one", "two"]


def test_storage_backend_passes_through_a_hook_wrapper_of_another_plugin(folder: Folder) -> None:
    wrapper = """
    from tidelog.kernel import hookimpl
    @hookimpl(wrapper=True)
    def tidelog_storage_backends():
        handed_over = yield
        for items in handed_over:
            for item in items:
                item.wrapped = True
        return handed_over
    """
    plugins = load(folder, one=offering("tidelog_storage_backends", "tape"), two=wrapper)
    assert vars(plugins.storage_backend("tape"))["wrapped"] is True


def test_installed_plugins_lists_what_is_installed_and_what_is_active(folder: Folder) -> None:
    folder.module("stranger", offering("tidelog_storage_backends", "tape", "drum"))
    folder.module("idler", offering("tidelog_wire_codecs", "morse"))
    folder.distribution("strange-things", "2.1", strange="stranger", silent="silent_module")
    plugins = folder.load(extra=("idler",), blocked=("silent",))
    config = Config.from_mapping({"storage": "drum", "metadata": "memory"})
    listed = {item.name: item for item in installed_plugins(plugins, config)}
    strange, idler, silent = listed["strange"], listed["idler"], listed["silent"]
    assert (strange.distribution, strange.version, strange.module) == ("strange-things", "2.1", "stranger")
    assert strange.offers == (Offer("storage", "tape", active=False), Offer("storage", "drum", active=True))
    assert (strange.active, strange.seams) == (True, ("storage",))
    assert (idler.distribution, idler.active, idler.offers) == (
        None,
        False,
        (Offer("wire codec", "morse", active=False),),
    )
    assert (silent.blocked, silent.active, silent.offers) == (True, False, ())


@pytest.mark.parametrize(("storage", "active"), [("file", True), ("memory", False)])
def test_installed_plugins_marks_an_index_format_active_only_with_storage_file(
    storage: str, active: bool
) -> None:
    config, plugins = configure({"storage": storage, "log.index.format": "memory"})
    listed = {item.name: item for item in installed_plugins(plugins, config)}
    assert listed["index_memory"].offers == (Offer("index format", "memory", active=active),)
    assert not any(offer.active for offer in listed["storage_file"].offers if offer.name == "sparse")


STAGE = """
from types import SimpleNamespace
from tidelog.kernel import hookimpl
from tidelog.kernel.seams.requests import Phase
@hookimpl
def tidelog_request_stages(broker):
    return [SimpleNamespace(phase=Phase.{}, plugin={!r})]
"""


def test_request_stages_are_in_the_order_of_their_phases_and_then_of_plugins(folder: Folder) -> None:
    phases = {"one": "FAULTS", "two": "QUOTA", "three": "AUTHORIZATION", "four": "QUOTA"}
    plugins = load(folder, **{name: STAGE.format(phase, name) for name, phase in phases.items()})
    stages = plugins.request_stages(new_broker())
    assert [stage.plugin for stage in stages] == ["three", "two", "four", "one"]  # type: ignore[attr-defined]
