"""Keys that nothing here reads: what becomes of each value, and which description counts for a name."""

from __future__ import annotations

import pytest

from tidelog.kernel.config import Config, ConfigKeys, Sources, UnsupportedKey, settings_from_mapping
from tidelog.kernel.config.unsupported import Judgement, UnsupportedKeys
from tidelog.kernel.errors import ConfigError

MEANINGLESS = UnsupportedKey("threads", "broker", meaningless="there are none")
MISSING = UnsupportedKey("tls.*", "broker", missing="TLS", neutral=("off", ""))
RENAMED = UnsupportedKey("port", "topic", renamed="listeners")
ANYWHERE = UnsupportedKey("*.pool.*", "broker", missing="pools")
AT_THE_END = UnsupportedKey("*.pool", "broker", missing="one pool")
EXACT = UnsupportedKey("tls.version", "broker", meaningless="it is always the newest")
KNOWN = UnsupportedKeys([MEANINGLESS, MISSING, RENAMED, ANYWHERE, AT_THE_END, EXACT])


@pytest.mark.parametrize(
    ("key", "text", "judgement"),
    [
        (MEANINGLESS, "8", Judgement(True, "has no meaning here: there are none")),
        (MISSING, "on", Judgement(False, "is a Kafka key that this broker has no part for (TLS)")),
        (MISSING, " OFF ", Judgement(True, "changes nothing: this broker has no part for TLS")),
        (MISSING, "", Judgement(True, "changes nothing: this broker has no part for TLS")),
        (RENAMED, "1", Judgement(False, "is a key of older Kafkas; set listeners instead")),
    ],
)
def test_unsupported_key_judges_a_value(key: UnsupportedKey, text: str, judgement: Judgement) -> None:
    assert key.judge(text) == judgement


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("threads", "there are none"),
        ("tls.key", "(TLS)"),
        ("tls.version", "always the newest"),
        ("my.pool.size", "(pools)"),
        ("my.pool", "(one pool)"),
    ],
)
def test_unsupported_keys_find_a_name_before_a_pattern(name: str, reason: str) -> None:
    judgement = KNOWN.judge(name, "x", "broker")
    assert judgement is not None
    assert reason in judgement.reason


@pytest.mark.parametrize("name", ["port", "thread", "threads.more", "my.tls.x", "pool.x"])
def test_unsupported_keys_do_not_know_other_names(name: str) -> None:
    assert KNOWN.judge(name, "x", "broker") is None


def test_unsupported_keys_are_accepted_with_a_warning_or_refused() -> None:
    known = ConfigKeys(unsupported=[MEANINGLESS, MISSING])

    def configured(name: str) -> Config:
        return Config(Sources().over(settings_from_mapping({name: "8"})), known)

    assert configured("threads").warnings == ("threads (code) has no meaning here: there are none.",)
    with pytest.raises(ConfigError, match=r"tls\.x \(code\) is a Kafka key that this broker has no part for"):
        configured("tls.x")
