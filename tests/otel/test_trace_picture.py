"""The picture of a trace on the telemetry page shows what is recorded: times differ from run to run, nothing else."""

import re
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk (group `test`)")

import trace_picture

PICTURE = Path(__file__).parents[2] / "docs" / "trace.svg"


def words_of(svg: str) -> list[str]:
    """What the picture says, without times and without the axis, which depends on them."""
    words = re.findall(r"<text [^>]*>([^<]*)</text>", svg)
    return [re.sub(r"\d+ ms", "# ms", each) for each in words if not re.fullmatch(r"\d+ ms", each)]


@pytest.mark.slow
def test_the_picture_shows_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_SEMCONV_STABILITY_OPT_IN", raising=False)
    drawn = words_of(trace_picture.picture(trace_picture.trace()))
    assert "error.type ConnectError" in drawn
    assert words_of(PICTURE.read_text("utf-8")) == drawn, "python tests/trace_picture.py docs/trace.svg"
