"""Names in certificates: distinguished names as Java writes them, and alternative names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 has words for; others are written by their numbers."""
_TEXTS: Final = frozenset({12, 19, 20, 22, 27, 30})
"""Tags of UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString; others are in hex."""
_ESCAPED: Final = str.maketrans({**{each: f"\\{each}" for each in ',=+<>#;"\\'}, "\0": "\\00"})
_BLANK: Final = " \r"
_LONG_FORM: Final = 0x80
_LONG_TAG: Final = 0x1F
_VERSION_TAG: Final = 0xA0
_SUBJECT: Final = 4
"""What is before the subject besides the version: serial number, algorithm, issuer, validity."""


def subject_name(certificate: x509.Certificate) -> str:
    """Return the distinguished name of a certificate's subject as `X500Principal.getName()` of Java does.

    The encoding is read here, as `certificate.subject` refuses texts that Java takes.

    Raises:
        ValueError: the encoding is none.
    """
    (content,) = _elements(certificate.tbs_certificate_bytes)
    fields = [each for each in _elements(content.value) if each.tag != _VERSION_TAG]
    return distinguished_name(fields[_SUBJECT].encoded)


def distinguished_name(encoded: bytes) -> str:
    """Return an encoded name as Java does (RFC 2253): the last attribute comes first.

    As in Java 17 the bytes of each type of text are read as UTF-8, those of a T61String or BMPString among
    them: entries of access control that are in use there have such names.

    Raises:
        ValueError: the encoding is none.
    """
    (name,) = _elements(encoded)
    parts = [
        "+".join(_attribute(each.value) for each in _elements(rdn.value)) for rdn in _elements(name.value)
    ]
    return ",".join(reversed(parts))


def alternative_names(certificate: x509.Certificate) -> frozenset[str]:
    """Return the hosts and addresses that a certificate is for, beside its subject."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(f"{type(each).__name__}:{each.value}" for each in names)


class _Element(NamedTuple):
    """One value in DER: its tag, what is in it, and all of its bytes."""

    tag: int
    value: bytes
    encoded: bytes


def _elements(content: bytes) -> Iterator[_Element]:
    """Iterate over the values that follow each other.

    Raises:
        ValueError: one is cut, or has a tag or a length of a form that no certificate has.
    """
    start = 0
    while start < len(content):
        tag, length, at = content[start], *_length_at(content, start + 1)
        end = at + length
        if tag & _LONG_TAG == _LONG_TAG or end > len(content):
            raise ValueError(f"byte {start} of {len(content)} begins no value")
        yield _Element(tag, content[at:end], content[start:end])
        start = end


def _length_at(content: bytes, at: int) -> tuple[int, int]:
    """Return a length, and where it ends."""
    first = content[at] if at < len(content) else _LONG_FORM
    if first < _LONG_FORM:
        return first, at + 1
    end = at + 1 + first - _LONG_FORM
    if first == _LONG_FORM or end > len(content):
        raise ValueError(f"byte {at} of {len(content)} begins no length")
    return int.from_bytes(content[at + 1 : end]), end


def _attribute(content: bytes) -> str:
    number, value = _elements(content)
    dotted = _dotted(number.value)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or dotted}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.value.decode(errors='replace'))}"


def _dotted(encoded: bytes) -> str:
    """Return an object identifier as numbers with dots: seven bits a byte, the first two numbers in one."""
    numbers = [0]
    for each in encoded:
        numbers[-1] = numbers[-1] << 7 | each & 0x7F
        if each < _LONG_FORM:
            numbers.append(0)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:-1]]))


def _escaped(text: str) -> str:
    """Escape what has a meaning in a name, and each blank at its ends."""
    middle = text.strip(_BLANK)
    if not middle:
        return "".join(f"\\{each}" for each in text)
    before, _, after = text.partition(middle)
    lead, trail = ("".join(f"\\{each}" for each in blanks) for blanks in (before, after))
    return f"{lead}{middle.translate(_ESCAPED)}{trail}"
