"""The fold of audio: pieces that are base64, each of its own or cut anywhere."""

from base64 import b64encode
from typing import Any

import pytest
from folded_payloads import fold, noted, said


def base64(data: bytes) -> str:
    return b64encode(data).decode()


AUDIO = {
    "each piece is base64 of its own: bytes joined, encoded once":
        ([{"data": base64(b"ab")}, {"data": base64(b"c")}, {"data": base64(b"defg")}], {"data": base64(b"abcdefg")},
         set()),
    "one base64 text that was cut anywhere: joined": ([{"data": "YW"}, {"data": "Jj"}], {"data": "YWJj"}, {"CF218"}),
    "no base64: texts joined": ([{"data": "*"}, {"data": base64(b"a")}], {"data": "*" + base64(b"a")}, {"CF218"}),
    "too much padding is no base64, whatever Python takes": ([{"data": "YWJj="}], {"data": "YWJj="}, {"CF218"}),
    "nor is a lot of it": ([{"data": "YWJj===="}], {"data": "YWJj===="}, {"CF218"}),
    "id and expiry: the last that is not empty":
        ([{"id": "a1"}, {"id": "a2", "expires_at": 1}, {"id": "", "expires_at": 2}, {"expires_at": None}],
         {"id": "a2", "expires_at": 2}, set()),
    "the expiry alone at the end":
        ([{"id": "a1", "data": "", "transcript": "He"}, {"transcript": "llo"}, {"expires_at": 9}],
         {"id": "a1", "transcript": "Hello", "expires_at": 9}, set()),
    "unknown keys: the last not null": ([{"x": 1, "y": 2}, {"x": 3, "y": None}], {"x": 3, "y": 2}, set()),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "expected", "rules"), AUDIO.values(), ids=AUDIO)
def test_audio(pieces: list[dict[str, Any]], expected: dict[str, Any], rules: set[str]) -> None:
    parser = fold(*said(*({"audio": piece} for piece in pieces)))
    audio = parser.completion().message.audio
    assert {key: value for key, value in audio.model_dump().items() if value not in (None, "")} == expected
    assert noted(parser) == rules
