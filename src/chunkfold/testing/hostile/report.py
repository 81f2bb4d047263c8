"""The results as tables: for a terminal, and for the documentation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chunkfold.testing.hostile.clients import Client, Verdict
from chunkfold.testing.hostile.peers import PEERS, is_installed

Results = Sequence[tuple[Client, Sequence[Verdict]]]

BEGIN: Final = "<!-- begin: python -m chunkfold.testing --markdown -->"
END: Final = "<!-- end -->"
_GET_PEERS: Final = "uv run --no-default-groups --group peers python -m chunkfold.testing"


def plain_text(results: Results, *, with_peers: bool = True) -> str:
    """How many streams each client got right, then what came instead where it did not.

    Args:
        results: What came of it, client by client.
        with_peers: Whether other libraries were wanted, so that those which are not installed are named.
    """
    names = [_title(client) for client, _ in results]
    width = max(map(len, names))
    lines = [f"{name:<{width}}  {_score(verdicts)}" for name, (_, verdicts) in zip(names, results, strict=True)]
    for name, (_, verdicts) in zip(names, results, strict=True):
        wrong = _wrong(verdicts)
        if wrong:
            wide = max(len(verdict.stream.name) for verdict in wrong)
            lines += ["", f"{name}: what came instead"]
            lines += [f"  {v.stream.name:<{wide}}  {v.stream.ending:<8}  {v.instead}" for v in wrong]
    return "\n".join([*lines, *(_missing() if with_peers else [])])


def markdown(results: Results) -> str:
    """The same for the documentation, and a table of all streams."""
    names = [client.name for client, _ in results]
    score = [f"| {client.name} | {client.version} | {_score(verdicts)} |" for client, verdicts in results]
    streams = [verdict.stream for verdict in results[0][1]]
    marks = [["✓" if verdict.right else "✗" for verdict in verdicts] for _, verdicts in results]
    rows = [
        _row(f"`{stream.name}`", _cell(stream.sentence), _cell(stream.senders), stream.ending, *of_stream)
        for stream, *of_stream in zip(streams, *marks, strict=True)
    ]
    lines = [_row("client", "version", "right"), _row(*["---"] * 3), *score, ""]
    lines += [_row("stream", "what comes", "who sends it", "ending", *names), _row(*["---"] * (4 + len(names))), *rows]
    for client, verdicts in results:
        wrong = [
            _row(f"`{v.stream.name}`", f"`{_cell(v.instead or '').replace('`', chr(39))}`") for v in _wrong(verdicts)
        ]
        if wrong:
            lines += ["", f"### {_title(client)}", "", _row("stream", "what came instead"), _row("---", "---"), *wrong]
    return "\n".join(lines)


def check_page(path: Path) -> None:
    """See whether tables can be put into a page, before they are made.

    Raises:
        OSError: It cannot be read.
        ValueError: It has no markers, or is no UTF-8.
    """
    _parts(path)


def write_markdown(path: Path, results: Results) -> None:
    """Put the tables between the markers of a page.

    Raises:
        OSError: It cannot be read or written.
        ValueError: It has no markers, or is no UTF-8.
    """
    before, after = _parts(path)
    path.write_text(f"{before}{BEGIN}\n\n{markdown(results)}\n\n{END}{after}", "utf-8")


def _parts(path: Path) -> tuple[str, str]:
    """What stands before the markers of a page, and what behind them."""
    before, begin, rest = path.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path}: expected {BEGIN} and {END}")
    return before, after


def _title(client: Client) -> str:
    return f"{client.name} {client.version}".rstrip()


def _score(verdicts: Sequence[Verdict]) -> str:
    return f"{len(verdicts) - len(_wrong(verdicts))} of {len(verdicts)}"


def _wrong(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if not verdict.right]


def _missing() -> list[str]:
    names = [name for name in PEERS if not is_installed(name)]
    return ["", f"Not installed: {', '.join(names)}. To see them too: {_GET_PEERS}"] if names else []


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
