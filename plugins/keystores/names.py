"""Names in certificates: distinguished names as Java writes them, and alternative names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from cryptography.x509.name import NameAttribute

_KEYWORDS: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
"""The attributes that RFC 2253 has words for; others are written by their numbers."""
_ESCAPED: Final = frozenset('",+;<>\\')
_LONG_FORM: Final = 0x80


def distinguished_name(name: x509.Name) -> str:
    """Return a name as `X500Principal.getName()` of Java does (RFC 2253): the last attribute comes first."""
    return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(name.rdns))


def alternative_names(certificate: x509.Certificate) -> frozenset[str]:
    """Return the hosts and addresses that a certificate is for, beside its subject."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(f"{type(each).__name__}:{each.value}" for each in names)


def _attribute(attribute: NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    if keyword is None:
        return f"{attribute.oid.dotted_string}=#{_der_value(attribute).hex()}"
    return f"{keyword}={_escaped(str(attribute.value))}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in _ESCAPED else each for each in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text


def _der_value(attribute: NameAttribute[str | bytes]) -> bytes:
    """Return the encoded value: a name is SEQUENCE { SET { SEQUENCE { number, value } } }."""
    content = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        content = content[_header_bytes(content) :]
    return content[_header_bytes(content) + content[1] :]


def _header_bytes(content: bytes) -> int:
    length = content[1]
    return 2 + (length - _LONG_FORM if length > _LONG_FORM else 0)
