"""Distinguished names: each is written as Java does, so that entries of access control carry over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from tests.clients.java_programs import run_inside_kafka
from tests.tls_certificates import client_entry
from tidelog.plugins.keystores.names import distinguished_name, subject_name

UTF8, BITS, NUMERIC, PRINTABLE, T61, IA5, VISIBLE, UNIVERSAL, BMP = 12, 3, 18, 19, 20, 22, 26, 28, 30
CN, C, L, ST, STREET, O, OU, TITLE = (bytes((0x55, 4, each)) for each in (3, 6, 7, 8, 9, 10, 11, 12))  # noqa: E741
UID, DC = (bytes.fromhex("0992268993f22c6401") + bytes((each,)) for each in (1, 25))
EMAIL, PRIVATE, LARGE = (bytes.fromhex(each) for each in ("2a864886f70d010901", "2b060104018237", "883703"))


def der(tag: int, *parts: bytes) -> bytes:
    """A value of that tag."""
    value = b"".join(parts)
    if len(value) < 0x80:
        return bytes((tag, len(value))) + value
    size = len(value).to_bytes((len(value).bit_length() + 7) // 8)
    return bytes((tag, 0x80 + len(size))) + size + value


def attribute(value: str | bytes, kind: bytes = CN, tag: int = UTF8) -> bytes:
    """An attribute of a name."""
    return der(0x30, der(6, kind), der(tag, value.encode() if isinstance(value, str) else value))


def name(*parts: Sequence[bytes]) -> bytes:
    """A name; each part has one attribute, or several."""
    return der(0x30, *(der(0x31, *part) for part in parts))


def one(value: str | bytes, kind: bytes = CN, tag: int = UTF8) -> bytes:
    """A name of one attribute."""
    return name([attribute(value, kind, tag)])


NAMES: Final[Mapping[bytes, str]] = {
    name(): "",
    name([attribute("US", C, PRINTABLE)], [attribute("Tide, Inc.", O)], [attribute("alice")]): (
        r"CN=alice,O=Tide\, Inc.,C=US"
    ),
    name(*([attribute(each, each_kind)] for each, each_kind in (("l", L), ("s", ST), ("1", STREET)))): (
        "STREET=1,ST=s,L=l"
    ),
    name([attribute("org", DC, IA5)], [attribute("b"), attribute("a", OU)], [attribute("u", UID)]): (
        "UID=u,CN=b+OU=a,DC=org"
    ),
    # What RFC 2253 escapes, and what it does not.
    one("a=b"): r"CN=a\=b",
    one('<a+b>;c,"d\\e'): r"CN=\<a\+b\>\;c\,\"d\\e",
    one("#a#"): r"CN=\#a\#",
    one("a'()/:?.-&*@!{}|~^%$"): "CN=a'()/:?.-&*@!{}|~^%$",
    # Blanks at the ends, each of them.
    one(" "): "CN=\\ ",
    one("   "): "CN=\\ \\ \\ ",
    one("  a  b  "): "CN=\\ \\ a  b\\ \\ ",
    one(" a = "): "CN=\\ a \\=\\ ",
    one("\r\ra \rb \r"): "CN=\\\r\\\ra \rb\\ \\\r",
    one("\ta\n"): "CN=\ta\n",
    one(""): "CN=",
    # Characters beyond what is printable.
    one("a\0b"): r"CN=a\00b",
    one("\0"): r"CN=\00",
    one("a\x01\x1f\x7fb"): "CN=a\x01\x1f\x7fb",
    one("ünï☃\u202e😀"): "CN=ünï☃\u202e😀",
    one(b"a\xffb\xc3"): "CN=a\ufffdb\ufffd",
    # Other types of texts, and what is none.
    one(b"M\xfcller", CN, T61): "CN=M\ufffdller",
    one("Mü", CN, T61): "CN=Mü",
    one("x".encode("utf-16-be"), CN, BMP): r"CN=\00x",
    one("x".encode("utf-32-be"), CN, UNIVERSAL): "CN=#1c0400000078",
    one("12", CN, NUMERIC): "CN=#12023132",
    one("ab", CN, VISIBLE): "CN=#1a026162",
    one(b"\0\1", CN, BITS): "CN=#03020001",
    # Attributes without a word.
    one("a@b.c", EMAIL, IA5): "1.2.840.113549.1.9.1=#16056140622e63",
    one("t", TITLE): "2.5.4.12=#0c0174",
    one("x", PRIVATE): "1.3.6.1.4.1.311=#0c0178",
    one("x", LARGE): "2.999.3=#0c0178",
    one("y" * 128, PRIVATE): "1.3.6.1.4.1.311=#0c8180" + "79" * 128,
    one("y" * 300): "CN=" + "y" * 300,
}


@pytest.mark.parametrize(("encoded", "written"), NAMES.items(), ids=map(repr, NAMES.values()))
def test_a_distinguished_name_is_written_as_java_does(encoded: bytes, written: str) -> None:
    assert distinguished_name(encoded) == written


@pytest.mark.long
def test_java_writes_these_names() -> None:
    lines = run_inside_kafka("CertificateNames", [], "".join(f"{each.hex()}\n" for each in NAMES))
    theirs = [bytes.fromhex(each).decode() for each in lines.split("\n")[:-1]]
    assert theirs == [*NAMES.values()]


def test_subject_name_finds_the_name_in_a_certificate() -> None:
    assert subject_name(client_entry(" a=#b").certificate) == r"CN=\ a\=\#b,O=Tide"


@pytest.mark.parametrize(
    "damaged",
    [
        one("a")[:-1],
        one("a")[:1],
        b"",
        one("a") * 2,
        b"\x30\x80\0\0",
        b"\x30\x84\1",
        b"\x3f\1\0",
        name([b"\1\0"]),
    ],
    ids=bytes.hex,
)
def test_what_is_no_name_is_an_error(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"byte|unpack"):
        distinguished_name(damaged)
