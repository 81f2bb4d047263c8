"""The catalogue of known deviations: every rule has a body that shows it, that rule and no other.

What must come of each example stands in a table written by hand; the docs page is made from what does come of it.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chunkfold import RULES, Anomaly, APIError, ChatCompletionParser, InvalidStreamError, Rule, StreamEnd
from chunkfold.anomalies import AnomalyLog
from chunkfold.testing import DONE, catalogue, delta

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "providers.md"
GOLDEN = Path(__file__).parent / "golden"
BY_ID = {rule.id: rule for rule in RULES}


def read(body: bytes, *, exc: Exception | None = None, **options: Any) -> ChatCompletionParser:
    """A parser that read the body to its end, or until the transport raised."""
    parser = ChatCompletionParser(**options)
    parser.feed(body)
    if exc is None:
        parser.close()
    else:
        parser.interrupt(exc)
    return parser


def read_example(rule: Rule, **options: Any) -> ChatCompletionParser:
    """What CF507 is about comes after the body."""
    return read(rule.example, exc=OSError("connection reset") if rule.id == "CF507" else None, **options)


def noted(parser: ChatCompletionParser) -> dict[str, int]:
    return {anomaly.rule.id: anomaly.count for anomaly in parser.anomalies}


# The ids


def test_ids_are_unique_well_formed_and_in_order() -> None:
    ids = [rule.id for rule in RULES]
    assert [id_ for id_ in ids if not re.fullmatch(r"CF[1-6][0-9]{2}", id_)] == []
    assert ids == sorted(set(ids))


def test_ids_of_a_group_have_no_gap() -> None:
    """An id is never used for another rule, so none may be missing unless it was given up on purpose."""
    for group, count in Counter(rule.id[:3] for rule in RULES).items():
        assert [rule.id for rule in RULES if rule.id.startswith(group)] == [
            f"{group}{place:02}" for place in range(1, count + 1)
        ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_who_and_how(rule: Rule) -> None:
    for text in (rule.sentence, rule.senders, rule.handling):
        assert text == text.strip() != ""
        assert not text.endswith(".")
        assert "|" not in text  # it stands in a table
    assert str(rule) == f"{rule.id}: {rule.sentence}"


def test_no_two_rules_say_the_same() -> None:
    assert len({rule.sentence for rule in RULES}) == len({rule.example for rule in RULES} | {b""}) == len(RULES)


# The examples


class Result(NamedTuple):
    """What must come of an example.

    Attributes:
        calls: The tool calls: id, name and arguments.
        error: The message and the status of the `APIError`.
        more: Other fields of the message that came, and the usage's total.
    """

    end: StreamEnd = StreamEnd.FINISHED
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    error: tuple[str, int | None] | None = None
    more: tuple[Any, ...] = ()


HI = Result(text="Hi")
CALL = Result(calls=(("call_a", "look_up", '{"q":1}'),))


def failed(message: str, status: int | None, text: str = "Hi") -> Result:
    return Result(StreamEnd.FAILED, text, error=(message, status))


RESULTS = {
    "CF101": HI,
    "CF102": HI,
    "CF103": HI,
    "CF104": HI,
    "CF105": HI,
    "CF106": HI,
    "CF107": Result(text="H\ufffd"),
    "CF108": HI,
    "CF109": HI,
    "CF201": HI,
    "CF202": HI,
    "CF203": HI,
    "CF204": HI,
    "CF205": HI,
    "CF206": HI,
    "CF207": HI,
    "CF208": Result(text="Hi", more=("Hm",)),
    "CF209": HI,
    "CF210": HI,
    "CF211": Result(text="\U0001f600"),
    "CF212": HI,
    "CF213": Result(text="H\ti"),
    "CF214": HI,
    "CF215": HI,
    "CF216": HI,
    "CF217": CALL,
    "CF218": Result(more=("aGVsbG8=",)),
    "CF301": CALL,
    "CF302": Result(calls=(("call_0", "look_up", '{"q":1}'),)),
    "CF303": Result(calls=(("7", "look_up", '{"q":1}'),)),
    "CF304": Result(calls=(("call_a", "look_up", "{}"),)),
    "CF305": Result(calls=(("call_a", "look_up", '{"q":1}'), ("call_b", "look_up", '{"q":1}'))),
    "CF306": Result(calls=(("call_a", "look_up", '{"q":1}'), ("call_a", "look_up", '{"q":1}'))),
    "CF307": Result(calls=(("call_a", "look_up", '{"q":1} '),)),
    "CF308": Result(calls=(("call_a", "look_up", "{}"),)),
    "CF309": Result(calls=(("call_a", "look_up", '{"q":1} '),)),
    "CF310": CALL,
    "CF311": Result(calls=(("call_a", "look_up", '{}{"q":1}'),)),
    "CF401": Result(text="Hi", more=(15,)),
    "CF402": Result(text="Hi", more=(77,)),
    "CF501": HI,
    "CF502": Result(StreamEnd.DONE, "Hi"),
    "CF503": CALL,
    "CF504": HI,
    "CF505": Result(text="Hi!"),
    "CF506": HI,
    "CF507": HI,
    "CF601": failed("overloaded", 503),
    "CF602": failed("the context is too long", 400),
    "CF603": failed("overloaded", 503),
    "CF604": failed("bad prompt", 400),
    "CF605": failed("rate limit", 429),
    "CF606": failed("the provider ended choice 0 with the finish reason 'network_error'", 502),
    "CF607": failed("no such model", 404, text=""),
}


def result_of(parser: ChatCompletionParser) -> Result:
    error, snapshot = parser.error, parser.snapshot
    assert error is None or type(error) is APIError
    message, usage = snapshot.message, snapshot.usage
    more = (snapshot.reasoning, message.audio and message.audio.data, usage and usage.total_tokens)
    return Result(
        StreamEnd(parser.end or ""),
        snapshot.text,
        tuple((call.id or "", call.name, call.arguments) for call in snapshot.tool_calls),
        error and (error.message, error.status_code),
        tuple(one for one in more if one),
    )


def test_every_rule_has_a_result_in_the_table() -> None:
    assert list(RESULTS) == [rule.id for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_example_shows_its_rule_and_no_other(rule: Rule) -> None:
    parser = read_example(rule)
    assert list(noted(parser)) == [rule.id]
    assert result_of(parser) == RESULTS[rule.id]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_strict_mode_names_the_rule(rule: Rule) -> None:
    """But a provider's own error goes first, whatever its shape."""
    error = read_example(rule, strict=True).error
    if rule.id.startswith("CF6"):
        assert type(error) is APIError
        assert (error.message, error.status_code) == RESULTS[rule.id].error
    else:
        assert type(error) is InvalidStreamError
        assert error.rule is rule
        assert rule.id in str(error)


# What is noted is said, where it was and how often; and that is all that is kept


def test_an_anomaly_has_a_count_and_the_first_place() -> None:
    first, again = (delta(role="assistant", content=text) for text in "ab")
    pieces = [b": a comment\n\n", first, again, again, delta(role=7), again, DONE]
    places = [sum(map(len, pieces[:place])) for place in range(len(pieces))]
    repeated, wrong_type, finish_missing = read(b"".join(pieces)).anomalies
    assert repeated == Anomaly(BY_ID["CF204"], 3, places[2], "'assistant'")
    assert repeated.first == f"byte {places[2]}: 'assistant'"
    assert wrong_type == Anomaly(BY_ID["CF209"], 1, places[4], "choices[0].delta.role: expected a string, received int")
    assert finish_missing == Anomaly(BY_ID["CF502"], 1, places[6], "")
    assert finish_missing.first == f"byte {places[6]}"


def test_they_come_in_the_order_of_their_first_place() -> None:
    parser = ChatCompletionParser()
    for body in (BY_ID["CF106"].example, BY_ID["CF103"].example):
        parser.feed(body.removesuffix(DONE))
    places = [anomaly.offset for anomaly in parser.anomalies]
    assert list(noted(parser)) == ["CF106", "CF204", "CF505", "CF103", "CF504"]
    assert places == sorted(places)


def test_one_entry_for_each_rule_however_often_it_is_broken() -> None:
    log = AnomalyLog()
    for time in range(100):
        log.offset = time
        for rule in RULES:
            log.note(rule, f"{time} " + "x" * 100_000)
    entries = log.entries()
    assert [entry.rule for entry in entries] == list(RULES)
    assert {(entry.count, entry.offset) for entry in entries} == {(100, 0)}
    assert max(len(entry.detail) for entry in entries) < 500


def test_two_thousand_deviations_of_a_stream_are_one_entry() -> None:
    parser = read(delta(role="assistant" + "!" * 500, content="a") * 2000 + DONE)
    assert noted(parser) == {"CF204": 1_999, "CF502": 1}
    assert max(len(anomaly.detail) for anomaly in parser.anomalies) < 500


# Five providers

# What they send for good, and in which of the clean bodies: the reasons are those of the five-provider table of
# QUIRKS.md. Everything else that they do is no anomaly: where the usage stands, reasoning fields, unknown fields.
OWN: dict[str, dict[str, tuple[str, set[str]]]] = {
    "opentoken": {},
    "sansa": {
        "CF206": (
            "the last chunk may lack `object` and `created`",
            {"reasoning", "structured", "text", "tool_call", "usage"},
        ),
    },
    "stepfun": {
        "CF203": (
            'the role is "" on every chunk, and so is the finish reason until the end',
            {"reasoning", "reasoning_twice", "text", "tool_call", "usage"},
        ),
        "CF301": ("tool calls by id, `index` not promised", {"tool_call"}),
    },
    "nagaai": {
        "CF206": ("the usage comes in a trailer with `choices: []` and nothing else: no id, no object", {"usage"}),
        "CF301": ("tool call deltas without `index`", {"tool_call"}),
        "CF501": ("the trailer may be missing, and [DONE] is with it", {"usage_missing"}),
    },
    "nameless": {
        "CF216": ("it sends no `created` and no `model`", {"text", "tool_call", "usage", "usage_on_finish"}),
        "CF308": ("the function's name comes in pieces", {"tool_call"}),
    },
}
CLEAN = sorted(
    f"{path.parent.name}/{path.stem}" for path in GOLDEN.rglob("*.sse") if not path.stem.startswith(("error", "cut_"))
)


def test_the_five_providers_are_those_with_golden_bodies() -> None:
    assert {case.partition("/")[0] for case in CLEAN} == OWN.keys()
    named = {f"{provider}/{case}" for provider, own in OWN.items() for _, cases in own.values() for case in cases}
    assert named <= set(CLEAN)


@pytest.mark.parametrize("case", CLEAN)
def test_a_clean_stream_breaks_no_rule_but_its_providers_own(case: str) -> None:
    provider, _, name = case.partition("/")
    expected = {id_ for id_, (_, cases) in OWN[provider].items() if name in cases}
    body = (GOLDEN / f"{case}.sse").read_bytes()
    parser = read(body)
    assert parser.end is StreamEnd.FINISHED
    assert noted(parser).keys() == expected
    strict = read(body, strict=True)
    assert (strict.end, strict.error and strict.error.rule) == (
        (StreamEnd.INVALID, parser.anomalies[0].rule) if expected else (StreamEnd.FINISHED, None)
    )


# The page


def test_the_page_is_up_to_date() -> None:
    """If not: python -m chunkfold.testing.catalogue docs/providers.md."""
    assert PAGE.read_text("utf-8") == catalogue.page()


def test_the_page_has_every_rule_and_its_body() -> None:
    text = PAGE.read_text("utf-8")
    sections = re.findall(r"^### (CF\d+): (.+)\n\n(?:- .+\n){2}\n```text\n((?:.*\n)*?)```$", text, re.MULTILINE)
    assert [(id_, sentence) for id_, sentence, _ in sections] == [(rule.id, rule.sentence) for rule in RULES]
    assert {id_: body_shown(shown) for id_, _, shown in sections} == {rule.id: rule.example for rule in RULES}


def body_shown(shown: str) -> bytes:
    """The body that the page shows: the reverse of the generator's way of showing it."""
    text = re.sub(r"⟨(\d+) times (.)⟩", lambda match: int(match[1]) * match[2], shown)
    data = text.removesuffix("⟨end⟩\n")
    return b"".join(
        bytes.fromhex(hidden) if hidden else plain.encode()
        for hidden, plain in re.findall(r"⟨([0-9a-f]{2})⟩|([^⟨]+)", data)
    )


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chunkfold.testing.catalogue", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_command_checks_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run("docs/providers.md", "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    stale = tmp_path / "page.md"
    for content in (None, "old"):
        if content is not None:
            stale.write_text(content, "utf-8")
        assert catalogue.main([str(stale), "--check"]) == 1
        assert "is not up to date: python -m chunkfold.testing.catalogue" in capsys.readouterr().err
    assert stale.read_text("utf-8") == "old"


def test_one_command_writes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    assert catalogue.main([str(path)]) == 0
    assert path.read_bytes() == PAGE.read_bytes()
