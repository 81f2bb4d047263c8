"""The pages about other libraries are true: their code is run, and their figures are counted.

A block of a migration page whose title names a library needs it, and shows what one writes there. Such blocks are run
here, in order with all others of their page; `test_docs` runs the others alone. Where a block before has no output of
its own, it prints what the block after it prints. A figure of a page is taken from what it was counted in.
"""

import base64
import importlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from doc_blocks import blocks_of, run, text_of
from shared_data import event_stream_suites, shared_data

from chunkfold import ChatCompletionParser, EventStreamDecoder, InvalidStreamError, StreamEnd
from chunkfold.testing import ERROR_SHAPES, FakeProvider, StreamBuilder, hold, hostile_streams
from chunkfold.testing.hostile.peers import PEERS, is_installed, running_peers

PAGES = ["migrate-from-openai", "migrate-from-httpx-sse", "migrate-from-langchain", "migrate-from-litellm"]


def words_of(page: str) -> str:
    """The page on one line, so that a sentence can be looked for."""
    return " ".join(text_of(f"docs/{page}.md").split())


def needed(library: str) -> Any:
    """The library; without it the test skips."""
    group = "dev" if library == "openai" else "peers"
    reason = f"needs {library}{'>=3' if library == 'openai' else ''} (group `{group}`)"
    return pytest.importorskip(library.replace("-", "_"), "3" if library == "openai" else None, reason=reason)


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page == "migrate-from-openai" else pytest.mark.peers) for page in PAGES]
)
def test_both_sides_run_and_print_the_output_below(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks the network
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    blocks = blocks_of(f"docs/{page}.md")
    for library in sorted({block.library for block in blocks if block.library}):
        needed(library)
    namespace = {"__name__": "__main__"}
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        run(block.code, f"docs/{page}.md", namespace)
        is_alike = block.output is None and block.library and after is not None and not after.library
        assert capsys.readouterr().out == ((after if is_alike else block).output or "")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_and_both_sides_are_shown(page: str) -> None:
    """A fence that is written in another way would not be run."""
    blocks = blocks_of(f"docs/{page}.md")
    assert len(blocks) == len(re.findall(r"^\s*(?:```|~~~)\s*py", text_of(f"docs/{page}.md"), re.MULTILINE))
    assert sum(block.library is not None for block in blocks) >= 5


def test_how_many_shapes_of_errors_openai_tells() -> None:
    openai = needed("openai")
    told = [shape for shape in ERROR_SHAPES if isinstance(raised_by_openai(openai, shape), openai.APIError)]
    assert f"{len(told)} of the {len(ERROR_SHAPES)} [shapes of errors]" in words_of("migrate-from-openai")


def raised_by_openai(openai: Any, shape: Any) -> Exception | None:
    failing = StreamBuilder().text("Hi").error("Overloaded.", code=503, shape=shape)
    with FakeProvider(failing) as provider, openai.OpenAI(base_url=provider.base_url, api_key="x") as client:
        try:
            for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
                assert isinstance(chunk.choices, list) or chunk.choices is None
                [choice.delta for choice in chunk.choices]
        except Exception as error:  # noqa: BLE001 - any exception is compared
            return error
    return None


# A stream of the hostile set, and what a library makes of it, as the tables of the pages have it.
SAID = {
    "openai": {"calls-without-index": "TypeError", "two-choices": "IndexError"},
    "langchain-openai": {
        "id-and-name-on-each": "weatherweather",
        "pieces-without-index": "weather(), (",
        "two-choices": "text: 'BA21'",
        "usage-on-each": "prompt_tokens 30",
        "CF504": "stopstop",
    },
    "litellm": {
        "calls-without-index": '{"city":"Paris"}{"zone":"CET"}',
        "html": "accepted as whole: '', finish reason stop",
        "cut-between-events": "right",
        "CF302": "calls: none",
    },
}


@pytest.mark.peers
@pytest.mark.parametrize("name", PEERS)
def test_they_do_what_the_tables_say(name: str) -> None:
    if not is_installed(name):
        pytest.skip(f"needs {name} (group `peers`)")
    streams = [stream for stream in hostile_streams() if stream.name in SAID[name]]
    with running_peers() as peers:
        client = next(peer for peer in peers if peer.name == name)
        instead = {verdict.stream.name: verdict.instead or "right" for verdict in hold(client, streams)}
    assert {stream for stream, words in SAID[name].items() if words not in instead[stream]} == set()


# The figures of the conformance page


def says(*figures: str) -> None:
    page = words_of("conformance")
    assert [figure for figure in figures if figure not in page] == []


def pieces_of(case: dict[str, Any]) -> Iterator[bytes]:
    """The body as the suite feeds it."""
    return map(base64.b64decode, case.get("chunks_base64", [case["input_base64"]]))


def expected_events(case: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(event["event"], event["data"], event["id"]) for event in case["expected_events"]]


def test_the_figures_of_the_event_streams() -> None:
    cases = event_stream_suites()
    suites = Counter(case["suite"] for case in cases)
    right = 0
    for case in cases:
        decoder = EventStreamDecoder()
        events = [event for piece in pieces_of(case) for event in decoder.feed(piece)]
        right += [(event.event, event.text, event.id) for event in events] == expected_events(case)
    says(f"the test suites of {len(suites)} projects | {len(cases)} cases | {right} |", f"streams: {len(cases)} cases")
    says(*(f"{suite} ({count})" for suite, count in suites.items()))
    says(f"{sum('chunks_base64' in case for case in cases)} of the suites' cases")
    says(f"a table of {len(importlib.import_module('event_stream.test_event_stream').WIRE)} bodies")
    assert f"agrees in {right}, httpx-sse" in words_of("migrate-from-httpx-sse")


@pytest.mark.peers
def test_the_figure_of_httpx_sse() -> None:
    httpx_sse = needed("httpx-sse")
    cases = event_stream_suites()
    right = sum(read_by(httpx_sse, case) == expected_events(case) for case in cases)
    says(f"gets the events of {right} right")
    words = words_of("migrate-from-httpx-sse")
    assert f"On the {len(cases)} [conformance cases]" in words
    assert f"httpx-sse in {right}." in words


def read_by(httpx_sse: Any, case: dict[str, Any]) -> list[tuple[str, str, str]]:
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=pieces_of(case))
    return [(sse.event, sse.data, sse.id) for sse in httpx_sse.EventSource(response).iter_sse()]


def test_the_figures_of_the_folding() -> None:
    suites = Counter(case["suite"] for case in json.loads(shared_data("conformance/fold.json").read_text("utf-8")))
    differences = importlib.import_module("fold.test_fold_conformance").DIFFERENCES
    size, rest = suites.total(), len(differences)
    says(f"{len(suites)} projects | {size} cases | {size - rest}, and {rest} by a rule |", f"Folding: {size} cases")
    says(f"{size - rest} cases agree whole. In the other {rest}", *(f"{name} ({n})" for name, n in suites.items()))
    fields = [{re.sub(r"\d+\.", "", place) for place in places} for places in differences.values()]
    assert Counter(map(len, fields)) == {1: rest - 2, 2: 2}  # usage in two of its counts; an id, and arguments
    says(f"| {sum('tool_calls.id' in one for one in fields)} | a tool call without an id |")
    says(f"| {sum(any(field.startswith('usage') for field in one) for one in fields)} | counts of usage")
    rows = re.findall(r"^\| (\d+) \| ", text_of("docs/conformance.md"), re.MULTILINE)
    assert sum(map(int, rows)) == rest


def test_the_figures_of_the_recordings() -> None:
    manifest = json.loads(shared_data("recordings/MANIFEST.json").read_text("utf-8"))
    told = importlib.import_module("promises.test_recordings")
    providers = {entry["provider"] for entry in manifest}
    size, complete = len(manifest), len(told.COMPLETE)
    says(f"{len(providers)} providers and servers | {size} bodies | {complete} are complete, {size - complete} are")
    says(f"Recordings: {size} bodies", f"{len(providers)} providers and servers, as the tests of")
    says(f"tests of {len({entry['source_repo'] for entry in manifest})} open projects")
    ends = Counter(told.ENDS.values())
    says(f"{size - ends.total()} are `finished`, {ends[StreamEnd.DONE]} is `done`")
    says(f"{ends[StreamEnd.FAILED]} are `failed`", f"{ends[StreamEnd.INVALID]} is `invalid`")
    broken = len(told.ANOMALIES)
    rules = Counter(rule for noted in told.ANOMALIES.values() for rule in noted)
    says(f"{size - broken} break no rule", f"other {broken} break {len(rules)} of the rules")
    says(*(f"({rule}, {count})" for rule, count in rules.most_common(3)))
    refused = Counter(field for name in told.COMPLETE for field, _ in told.refused_by_openai(name))
    says(f"takes {complete - refused.total()} of the {complete}", f"The other {refused.total()} have a value")
    says(f"no time ({refused['created']})", f"another service tier ({refused['service_tier']})")
    assert (refused["model"], refused["choices.0.finish_reason"], len(refused)) == (1, 2, 4)
    assert len(told.OTHER_FACTS) == 2


def test_the_figures_of_the_hostile_set() -> None:
    size = len(hostile_streams())
    endings = Counter(stream.ending for stream in hostile_streams())
    says(f"| this project | {size} bodies | {size} |", f"Hostile streams: {size} bodies")
    says(f"{endings['complete']} are complete, {endings['error']} are errors, {endings['cut']} are cut")
    figures = r"^\| (\S+) \| \S+ \| \d+ of \d+ \| \d+ of \d+ \| \d+ \|$"
    assert re.findall(figures, text_of("docs/hostile-streams.md"), re.MULTILINE) == ["chunkfold", *PEERS]


def test_the_figures_of_strict_mode() -> None:
    bodies = [path.read_bytes() for name in ("recordings", "recordings-2") for path in shared_data(name).glob("*.sse")]
    ends: Counter[str] = Counter()
    refused_by: set[str] = set()
    for body in bodies:
        parser = ChatCompletionParser(strict=True)
        parser.fold(body)
        parser.close()
        error = parser.error
        rule = error.rule if isinstance(error, InvalidStreamError) else None
        ends["taken" if error is None else "refused" if rule else "failed"] += 1
        if rule:
            tolerant = ChatCompletionParser()
            tolerant.fold(body)
            tolerant.close()
            refused_by |= {anomaly.rule.id for anomaly in tolerant.anomalies}
    says(f"ran over {len(bodies)} recorded bodies", f"Strict mode takes {ends['taken']} of them; {ends['failed']} end")
    says(f"The other {ends['refused']} are refused")
    table = text_of("docs/conformance.md").partition("| rule | sent by | why it is a rule |")[2].partition("\n\n")[0]
    assert set(re.findall(r"CF\d{3}", table)) == refused_by - {"CF106"}  # DashScope's own API is refused in any case


def test_every_ending_has_a_row_and_an_example() -> None:
    text = text_of("docs/endings.md")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\w+)", text, re.MULTILINE)
    assert rows == [(end.value, "returns" if end.complete else "raises") for end in StreamEnd]
    assert re.findall(r"^(\w+): '", text, re.MULTILINE) == list(StreamEnd)
