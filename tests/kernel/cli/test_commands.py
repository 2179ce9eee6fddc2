"""`tidelog config`, `tidelog plugins`, help and errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import (
    COMMAND,
    clean_environment,
    printed_json,
    tidelog,
    tidelog_in_process,
    write_plugin,
)
from tests.tables import for_each
from tidelog import __version__
from tidelog.kernel.cli.main import tidelog as tidelog_command
from tidelog.kernel.plugins import load_plugins


def test_the_script_and_the_module_are_the_same_command() -> None:
    script = Path(sys.executable).with_name("tidelog")
    assert script.exists(), "tidelog is not installed in this environment"
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == tidelog("--version").stdout
    assert done.stdout.startswith("tidelog, version ")


def every_command(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, name
            yield from every_command(found, (*path, name))


def test_help_of_every_command_has_examples() -> None:
    commands = list(every_command(tidelog_command))
    assert {("serve",), ("topics", "create"), ("consume",)} <= set(commands)
    for command in commands:
        done = tidelog_in_process(*command, "--help")
        assert (done.returncode, done.stderr) == (0, ""), command
        # Line by line, and not as a paragraph that is filled.
        assert "Examples:\n    tidelog" in done.stdout, command


def test_to_look_up_a_command_imports_no_event_loop() -> None:
    """It takes longer than what most commands do."""
    program = """
import sys, click
from tidelog.kernel.cli.main import tidelog
assert tidelog.get_command(click.Context(tidelog), "topics") is not None
print({"trio", "numpy", "rich", "cryptography"} & {*sys.modules})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_without_a_command_the_help_goes_to_standard_error() -> None:
    done = tidelog()
    assert (done.returncode, done.stdout) == (2, "")
    assert "serve" in done.stderr


WRONG = [
    (("srve",), "tidelog: There is no command 'srve'. Did you mean serve? See `tidelog --help`."),
    (("frobnicate",), "tidelog: There is no command 'frobnicate'. See `tidelog --help`."),
    (("serve", "extra"), "tidelog: Got unexpected extra argument (extra). See `tidelog serve --help`."),
    (("serve", "--frobnicate"), "tidelog: No such option"),
    (
        ("serve", "--config", "nowhere.toml"),
        "tidelog: The configuration file nowhere.toml cannot be read: No such file",
    ),
    (("serve", "--set", "num.partitons=3"), "num.partitons (--set) is no key; did you mean num.partitions?"),
    (("serve", "--set", "storage=fil"), "There is no storage named 'fil'. Installed are: "),
    (("serve", "--log-format", "xml"), "log.format = 'xml' (--set): is none of auto, human, json"),
    (("serve", "--set", "plugins.blocked=x"), "plugins.blocked names x, but no such plugin is installed"),
    (("config", "num.partition"), "tidelog: There is no key 'num.partition'. Did you mean num.partitions?"),
    (("config", "--set", "node.id=x"), "node.id = 'x' (--set): is not a whole number (int)"),
    (
        ("serve", "--ready-file", "no/such/folder/ready"),
        "cannot be written: there is no folder no/such/folder.",
    ),
]


@for_each(("arguments", "sentence"), WRONG)
def test_wrong_usage_and_wrong_settings_are_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], sentence: str
) -> None:
    done = tidelog_in_process(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.startswith("tidelog: ")
    assert done.stderr.count("\n") == 1


def test_serve_command_reports_all_config_problems_at_once() -> None:
    done = tidelog_in_process("serve", "--set", "node.id=x", TIDELOG_NUM_PARTITONS="3")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "tidelog: The configuration has 2 problems:"
    assert len(done.stderr.splitlines()) == 3


@pytest.mark.parametrize(("arguments", "environment"), [(("--debug",), {}), ((), {"TIDELOG_DEBUG": "1"})])
def test_main_prints_a_traceback_only_with_debug_option_or_variable(
    arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    assert "Traceback" not in tidelog_in_process("config", "--set", "node.id=x").stderr
    done = tidelog_in_process(*arguments, "config", "--set", "node.id=x", **environment)
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-1].startswith("tidelog: The configuration has a problem: node.id")


def test_config_shows_every_key() -> None:
    done = tidelog_in_process("config")
    assert (done.returncode, done.stderr) == (0, "")
    for key in load_plugins().config_keys():
        assert f"\n{key.name} = " in "\n" + done.stdout


def test_config_as_json_has_all_there_is_to_know() -> None:
    listed = {item["name"]: item for item in printed_json("config")}
    assert listed["node.id"] == {
        "name": "node.id",
        "scope": "broker",
        "type": "int",
        "allowed": ">= 0",
        "default": "1",
        "value": "1",
        "origin": "default",
        "aliases": ["broker.id"],
        "environment": "TIDELOG_NODE_ID",
        "required": False,
        "broker_defaults": [],
        "documentation": "The id of this broker, which clients see as the leader of every partition.",
    }
    assert listed["segment.ms"]["broker_defaults"] == ["log.roll.ms", "log.roll.hours"]
    assert listed["segment.ms"]["environment"] is None


def test_config_shows_one_key_by_name_or_alias_with_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("node.id = 5\n")
    for name in ("node.id", "broker.id"):
        assert printed_json("config", name, "--config", str(file))["origin"] == f"{file}:1"
    assert printed_json("config", "node.id", TIDELOG_CONFIG=str(file))["value"] == "5"
    text = tidelog_in_process("config", "node.id", "--config", str(file), TIDELOG_NODE_ID="6").stdout
    assert text.splitlines()[0] == "node.id = 6  (TIDELOG_NODE_ID)"


def test_config_shows_what_topics_get_from_a_broker_key() -> None:
    shown = printed_json("config", "segment.ms", "--set", "log.roll.hours=1")
    assert (shown["value"], shown["origin"]) == ("3600000", "log.roll.hours")


def test_config_command_warns_of_a_key_without_effect() -> None:
    done = tidelog_in_process("config", "node.id", "--set", "num.io.threads=8")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: num.io.threads (--set) has no meaning here")


SECRETIVE = """
    from tidelog.kernel import ConfigKey, hookimpl
    from tidelog.kernel.config import nullable, password

    TOKEN = ConfigKey(name="vault.token", type=nullable(password()), default=None, documentation="A key.")

    @hookimpl
    def tidelog_config_keys():
        return [TOKEN]
"""


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    environment = write_plugin(tmp_path, "vault", SECRETIVE)
    for arguments in (("config",), ("config", "--json"), ("config", "vault.token")):
        done = tidelog(*arguments, **environment, TIDELOG_VAULT_TOKEN="hunter2")
        assert done.returncode == 0
        assert "vault.token" in done.stdout
        assert "[hidden]" in done.stdout
        assert "hunter2" not in done.stdout + done.stderr


def test_plugins_lists_the_default_bundle_and_what_is_in_use() -> None:
    rows = {
        line.split()[0]: line for line in tidelog("plugins", "--set", "storage=memory").stdout.splitlines()
    }
    assert "storage memory*" in rows["storage_memory"]
    assert "storage file," in rows["storage_file"]
    assert rows["storage_file"].split()[1] == "idle"
    assert "wire codec kafka*" in rows["protocol_kafka"]
    assert "tidelog.plugins.protocol_kafka.plugin" in rows["protocol_kafka"]


def test_plugins_verbose_describes_why_each_is_in_use_and_what_it_costs() -> None:
    printed = tidelog("plugins", "--verbose", "--set", "storage=memory", "--set", "plugins.blocked=mirror")
    blocks = {block.partition(":")[0]: block for block in printed.stdout.split("\n\n")}
    memory, file, kraft = blocks["storage_memory"], blocks["storage_file"], blocks["metadata_kraft"]
    assert memory.startswith("storage_memory: active\n")
    assert "  offers   storage memory* (storage = memory)\n" in memory
    assert f"  from     tidelog {__version__}, module tidelog.plugins.storage_memory.plugin\n" in memory
    assert re.search(r"\n  import   \d+\.\d ms at each start", memory)
    assert "  offers   storage file (storage = memory)\n" in file
    assert "index format sparse (log.index.format = sparse, which has no effect)" in file
    assert re.search(r"\n  keys     .*log\.dirs", file)
    assert "metadata store kraft (the metadata store is memory)" in kraft
    assert "transport SSL (no listener is mapped to it: PLAINTEXT)" in blocks["tls"]
    assert "wire codec kafka* (of listener PLAINTEXT)" in blocks["protocol_kafka"]
    assert "sink spark (there is no table [sinks.spark.NAME])" in blocks["spark_sink"]
    assert blocks["mirror"].endswith("  blocked  plugins.blocked names it")


def test_plugins_as_json_tells_a_strangers_plugin_too(tmp_path: Path) -> None:
    listed = {
        item["name"]: item for item in printed_json("plugins", **write_plugin(tmp_path, "vault", SECRETIVE))
    }
    assert listed["vault"] == {
        "name": "vault",
        "module": "vault",
        "distribution": None,
        "version": None,
        "blocked": False,
        "refused": None,
        "offers": [],
        "keys": ["vault.token"],
        "import_ms": listed["vault"]["import_ms"],
        "state": "active",
        "active": True,
        "seams": [],
    }
    assert 0 <= listed["vault"]["import_ms"] < 60_000
    assert listed["storage_file"]["distribution"] == "tidelog"
    assert listed["storage_file"]["offers"] == [
        {"seam": "storage", "name": "file", "active": True, "reason": "storage = file"},
        {"seam": "index format", "name": "sparse", "active": True, "reason": "log.index.format = sparse"},
    ]


REFUSED = {
    "cannot be imported": ("1 / 0", "cannot be imported: ZeroDivisionError"),
    "has no hook": ("x = 1", "implements no hook"),
    "has a hook that raises": (
        """
        from tidelog.kernel import hookimpl

        @hookimpl
        def tidelog_sinks():
            raise RuntimeError("no luck")
        """,
        "failed in tidelog_sinks: RuntimeError: no luck",
    ),
    "takes a name": (
        """
        from tidelog.kernel import hookimpl

        class Storage:
            name = "file"
            durable = True

        @hookimpl
        def tidelog_storage_backends():
            return [Storage()]
        """,
        "both offer a storage named file",
    ),
    "takes a key of Kafka's protocol": (
        """
        from tidelog.kernel import hookimpl
        from tidelog.plugins.protocol_kafka.apis import KafkaApi
        from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

        @hookimpl
        def tidelog_kafka_apis():
            return [KafkaApi(12, "Pulse", HeartbeatRequest, HeartbeatResponse, print)]
        """,
        "The plugins protocol_kafka and stranger_4 both serve API key 12, Heartbeat and Pulse",
    ),
    "declares a key differently": (
        """
        from tidelog.kernel import ConfigKey, hookimpl
        from tidelog.kernel.config import integer

        @hookimpl
        def tidelog_config_keys():
            return [ConfigKey(name="num.partitions", type=integer(5), default=7, documentation="Other.")]
        """,
        "'num.partitions' is declared twice, differently",
    ),
}


def test_plugins_lists_all_others_beside_those_that_are_refused(tmp_path: Path) -> None:
    strangers = {f"stranger_{number}": fault for number, fault in enumerate(REFUSED.values())}
    environment = write_plugin(tmp_path, "greeter", COMMANDING.replace("NAME", "greet"))
    for name, (source, _) in strangers.items():
        write_plugin(tmp_path, name, source)
    environment["TIDELOG_PLUGINS"] = ",".join([*strangers, "greeter"])
    done = tidelog("plugins", **environment)
    assert done.returncode == 2
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert (rows["greeter"][1], rows["storage_file"][1]) == ("active", "active")
    assert "Traceback" not in done.stderr
    listed = {item["name"]: item for item in json.loads(tidelog("plugins", "--json", **environment).stdout)}
    for name, (_, reason) in strangers.items():
        assert rows[name][1:3] == ["refused", "-"]
        assert reason in done.stderr
        assert (listed[name]["state"], listed[name]["active"]) == ("refused", False)
        assert reason in listed[name]["refused"]
    # They do not take away the commands of others either.
    assert tidelog("greet", **environment).stdout == "hello\n"


def test_plugins_with_a_configuration_that_is_refused(tmp_path: Path) -> None:
    done = tidelog("plugins", "--set", "metadata=memory")
    assert done.returncode == 2
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert (rows["metadata_memory"][1], rows["metadata_kraft"][1]) == ("idle", "idle")
    assert "metadata = memory loses all topics when the broker stops" in done.stderr
    # The key of a plugin that cannot be loaded is unknown then.
    broken = write_plugin(tmp_path, "vault", "1 / 0")
    done = tidelog("plugins", "--set", "vault.token=x", **broken)
    assert done.returncode == 2
    assert ["vault", "refused"] in [line.split()[:2] for line in done.stdout.splitlines()]
    assert "The plugin vault (named in the key `plugins`) cannot be imported" in done.stderr
    assert "vault.token (--set) is no key" in done.stderr


TIDE_LEVEL = """
    from tidelog.kernel import hookimpl
    from tidelog.plugins.protocol_kafka.apis import KafkaApi
    from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

    @hookimpl
    def tidelog_kafka_apis():
        return [KafkaApi(20_000, "TideLevel", HeartbeatRequest, HeartbeatResponse, print)]

    @hookimpl
    def tidelog_client_telemetry_receivers():
        return [print]
"""


def test_plugins_shows_what_is_offered_to_hooks_of_other_plugins(tmp_path: Path) -> None:
    environment = write_plugin(tmp_path, "tides", TIDE_LEVEL)
    (row,) = [
        line for line in tidelog("plugins", **environment).stdout.splitlines() if line.startswith("tides")
    ]
    assert row.split()[1] == "active"
    assert "client telemetry receivers*, kafka api TideLevel*" in row


COMMANDING = """
    import click
    from tidelog.kernel import hookimpl

    @click.command("NAME", short_help="Say hello.")
    def hello():
        click.echo("hello")

    @hookimpl
    def tidelog_commands():
        return [hello]
"""


def test_a_plugin_adds_a_command(tmp_path: Path) -> None:
    environment = write_plugin(tmp_path, "greeter", COMMANDING.replace("NAME", "greet"))
    assert tidelog("greet", **environment).stdout == "hello\n"
    assert re.search(r"^  greet +Say hello\.$", tidelog("--help", **environment).stdout, re.MULTILINE)
    assert "Did you mean greet?" in tidelog("gret", **environment).stderr


def test_a_plugin_cannot_take_the_name_of_a_command(tmp_path: Path) -> None:
    environment = write_plugin(tmp_path, "greeter", COMMANDING.replace("NAME", "serve"))
    done = tidelog("frobnicate", **environment)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "A plugin offers a command serve, which is one of tidelog's own." in done.stderr


def test_list_commands_serves_the_help_despite_a_broken_plugin(tmp_path: Path) -> None:
    done = tidelog("--help", **write_plugin(tmp_path, "broken", "1 / 0"))
    assert done.returncode == 0
    assert "serve" in done.stdout
    assert (
        "The plugin broken (named in the key `plugins`) cannot be imported: ZeroDivisionError" in done.stderr
    )


def test_config_command_ends_silently_when_its_stdout_is_closed() -> None:
    command = subprocess.Popen(
        [*COMMAND, "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
    )
    assert command.stdout is not None
    command.stdout.close()
    _, errors = command.communicate(timeout=DEADLINE_S)
    assert errors == b""
