"""How `python -m chunkfold.testing` is used wrongly, and what it says where nobody asked for other libraries."""

import sys
from pathlib import Path

import pytest

from chunkfold.testing import HostileStream, hostile_streams
from chunkfold.testing.__main__ import main


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def few() -> tuple[HostileStream, ...]:
        return hostile_streams()[:2]

    for place in ("peers", "report"):
        monkeypatch.setattr(f"chunkfold.testing.hostile.{place}.is_installed", lambda _: False)
    monkeypatch.setattr("chunkfold.testing.__main__.hostile_streams", few)


def test_what_is_not_installed_is_named_if_it_was_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert "Not installed: openai, langchain-openai, litellm." in capsys.readouterr().out
    main(["--no-peers"])
    shown = capsys.readouterr().out
    assert "Not installed" not in shown
    assert shown.endswith("2 of 2\n")


@pytest.mark.parametrize(("content", "message"), [(None, "No such file"), (b"no markers", "expected <!-- begin"), (b"\xff", "utf-8")])  # fmt: skip
def test_a_page_that_cannot_be_written_is_a_wrong_argument(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    if content is not None:
        page.write_bytes(content)
    assert usage_error(capsys, "--markdown", str(page)).startswith("--markdown: ")
    assert message in usage_error(capsys, "--markdown", str(page))
    assert page.exists() is (content is not None)


def test_a_client_that_is_no_python_is_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "half_a_client.py").write_text("def fold(body:\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert "half_a_client.py, line 1" in usage_error(capsys, "--client", "half_a_client:fold")
    assert "half_a_client" not in sys.modules


def usage_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What it says where it ends with the exit code of wrong use."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err.partition(" error: ")[2]
