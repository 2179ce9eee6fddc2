"""Messages of SCRAM: the examples of RFC 5802's successor RFC 7677, and what is malformed."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.kernel.metadata.scram import ScramMechanism
from tidelog.plugins.credentials import scram
from tidelog.plugins.credentials.scram import BadScramMessage

KIND = ScramMechanism.SCRAM_SHA_256
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_both_ends_compute_the_example_of_rfc_7677() -> None:
    first, answer = scram.parse_client_first(FIRST), scram.parse_server_first(SERVER_FIRST)
    final = scram.parse_client_final(FINAL)
    signed = f"{first.bare},{SERVER_FIRST.decode()},{final.without_proof}".encode()
    salted = scram.salted_password(KIND, "pencil", answer.salt, answer.iterations)
    credential = scram.credential_of(KIND, salted, answer.salt, answer.iterations)
    assert scram.client_proof(KIND, salted, signed) == final.proof
    assert scram.is_proven(KIND, credential.stored_key, final.proof, signed)
    assert not scram.is_proven(KIND, credential.stored_key, final.proof[::-1], signed)
    assert not scram.is_proven(KIND, credential.stored_key, b"", signed)
    signature = scram.server_signature(KIND, credential.server_key, signed)
    assert (signature, "") == scram.parse_server_final(SERVER_FINAL)
    assert scram.server_key_of(KIND, salted) == credential.server_key
    assert final.channel == first.header.encode() == b"n,,"


def test_names_and_extensions() -> None:
    found = scram.parse_client_first(b"n,a=x=2Cy,n=x=2Cy=3D=,r=1,tokenauth=true".replace(b"=3D=", b"=3D"))
    assert (found.user, found.authorize_as, found.header) == ("x,y=", "x,y", "n,a=x=2Cy,")
    assert found.extensions == {"tokenauth": "true"}
    assert scram.escaped("x,y=") == "x=2Cy=3D"


@for_each(
    "message",
    [
        b"",
        b"n,,",
        b"y,,n=a,r=b",
        b"p=tls-unique,,n=a,r=b",
        b"n,x,n=a,r=b",
        b"n,,n=,r=b",
        b"n,,n=a,r=",
        b"n,,r=b",
        b"n,,n=a",
        b"n,,m=x,n=a,r=b",
        b"n,,n=a,n=c,r=b",
        b"n,,n=a=2,r=b",
        b"n,,n=a,r=b,x",
        b"n,,n=a\0,r=b",
        b"n,,n=\xff,r=b",
    ],
)
def test_parse_client_first_refuses(message: bytes) -> None:
    with pytest.raises(BadScramMessage):
        scram.parse_client_first(message)


@for_each(
    "message", [b"", b"c=biws,r=x", b"r=x,p=AA==", b"c=biws,p=AA==", b"c=biws,r=x,p=A", b"c=?,r=x,p=AA=="]
)
def test_parse_client_final_refuses(message: bytes) -> None:
    with pytest.raises(BadScramMessage):
        scram.parse_client_final(message)


@for_each(
    "message",
    [b"", b"r=x,s=AA==", b"r=x,s=AA==,i=", b"r=x,s=AA==,i=-1", b"r=x,s=AA==,i=\xc2\xb2", b"r=x,s=A,i=1"],
)
def test_parse_server_first_refuses(message: bytes) -> None:
    with pytest.raises(BadScramMessage):
        scram.parse_server_first(message)


def test_parse_server_final_has_an_error_or_a_signature() -> None:
    assert scram.parse_server_final(b"e=invalid-proof") == (b"", "invalid-proof")
    with pytest.raises(BadScramMessage):
        scram.parse_server_final(b"x=1")
