"""Join audio that arrives in pieces of base64, and decode it while it arrives.

In OpenAI's API each piece is encoded separately. If a server cuts one encoded text instead, the texts are joined.
"""

import base64
import binascii


def is_base64(piece: str) -> bool:
    """Whether a piece of audio is base64 by itself."""
    return _decoded(piece) is not None


def join_audio(pieces: list[str]) -> str:
    """Join base64 pieces that were encoded separately; if a piece is not base64 by itself, join the texts."""
    if not all(map(is_base64, pieces)):
        return "".join(pieces)
    return base64.b64encode(b"".join(map(base64.b64decode, pieces))).decode()


class AudioDecoder:
    """Decode audio piece by piece. Data that is not base64 decodes to nothing."""

    def __init__(self) -> None:
        self._rest = ""  # of one encoded text that is cut anywhere: fewer than four characters

    def feed(self, piece: str) -> bytes:
        """The bytes that a piece completes."""
        if not self._rest and (data := _decoded(piece)) is not None:
            return data
        text = self._rest + "".join(piece.split())  # some encoders break their lines
        whole = len(text) - len(text) % 4
        self._rest = text[whole:]
        return _decoded(text[:whole]) or b""


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
