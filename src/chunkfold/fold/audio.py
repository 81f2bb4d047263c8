"""Fold audio that arrives in pieces of base64, and decode it while it arrives.

In OpenAI's API each piece is encoded separately. If a server cuts one encoded text instead, the texts are joined.
"""

import base64
import string
from typing import Any, Final

from chunkfold import anomalies
from chunkfold.anomaly_log import AnomalyLog
from chunkfold.fold.footprint import Kept
from chunkfold.fold.merging import keep_unknown
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.json_text.surrogates import well_formed
from chunkfold.models.base import validate_leniently, with_unknown
from chunkfold.models.chunk import ChoiceDeltaAudio
from chunkfold.models.shared import ChatCompletionAudio

_BLANKS: Final = str.maketrans("", "", string.whitespace)


class Audio:
    """Spoken output while it is folded: the last id and expiry; data and transcript append."""

    def __init__(self) -> None:
        self.transcript = TextBuffer()
        self._pieces: list[str] = []  # of the data
        self._is_cut = False  # whether a piece is not base64 by itself
        self._fields: dict[str, Any] = {}  # the id and the expiry
        self._extra: dict[str, Any] = {}

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((self.transcript,), (self._pieces,), (self._fields, self._extra))

    def add(self, audio: ChoiceDeltaAudio, log: AnomalyLog) -> tuple[str, str]:
        """Fold a piece in; return what it added to the data and to the transcript."""
        fields = audio.__dict__
        self._fields |= {name: fields[name] for name in ("id", "expires_at") if fields.get(name)}
        keep_unknown(self._extra, audio.__pydantic_extra__)
        data, transcript = fields.get("data") or "", fields.get("transcript") or ""
        if data:
            piece = data
            if _decoded(piece) is None:
                log.note(anomalies.AUDIO_NOT_BASE64)
                piece = _without_blanks(piece)
                self._is_cut |= _decoded(piece) is None
            self._pieces.append(piece)
        self.transcript.write(transcript)
        return data, transcript

    @property
    def data(self) -> str:
        """All of it as one text of base64."""
        if self._is_cut:
            return "".join(self._pieces)
        return base64.b64encode(b"".join(map(base64.b64decode, self._pieces))).decode()

    def snapshot(self) -> ChatCompletionAudio:
        """The audio so far."""
        texts = {"data": self.data, "transcript": well_formed(self.transcript.getvalue())}
        fields = {**self._fields, **{name: text for name, text in texts.items() if text}}
        return validate_leniently(ChatCompletionAudio, with_unknown(self._extra, fields))[0]


class AudioDecoder:
    """Decode audio piece by piece. Data that is not base64 decodes to nothing."""

    def __init__(self) -> None:
        self._rest = ""  # of one encoded text that is cut anywhere: fewer than four characters

    def feed(self, piece: str) -> bytes:
        """The bytes that a piece completes."""
        if not self._rest and (data := _decoded(piece)) is not None:
            return data
        text = self._rest + _without_blanks(piece)
        whole = len(text) - len(text) % 4
        self._rest = text[whole:]
        return _decoded(text[:whole]) or b""


def _without_blanks(piece: str) -> str:
    """Base64 without the ends of the lines that some encoders break it into; only ASCII can be base64."""
    return piece.translate(_BLANKS) if piece.isascii() else piece


def _decoded(text: str) -> bytes | None:
    if len(text) % 4 or text.endswith("==="):  # which Python before 3.13 takes
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
