"""The catalogue of known deviations: every rule has a body that shows it, that rule and no other.

What must come of each stands beside it; the docs page is made from what does come of it.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from made_up_ids import MADE_UP, shown_id
from parsed_bodies import noted, parsed

from chunkfold import RULES, Anomaly, APIError, ChatCompletionParser, InvalidStreamError, Rule, StreamEnd
from chunkfold.anomaly_log import AnomalyLog
from chunkfold.rule_examples import EXAMPLES, Example, ExampleCall, example_of
from chunkfold.testing import DONE, delta

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "providers.md"
GOLDEN = Path(__file__).parent / "golden"
BY_ID = {rule.id: rule for rule in RULES}


# The ids
GIVEN_UP = {"CF503"}  # ids of rules that were removed


def test_ids_are_in_order_without_a_gap() -> None:
    """An id is never used for another rule, so none may be missing unless it was given up on purpose."""
    assert [rule.id for rule in RULES] == sorted(BY_ID)
    assert GIVEN_UP.isdisjoint(BY_ID)
    known = sorted(GIVEN_UP | BY_ID.keys())
    counts = Counter(id_[:3] for id_ in known)
    assert counts.keys() <= {f"CF{group}" for group in range(1, 7)}
    assert known == [f"{group}{place:02}" for group, count in counts.items() for place in range(1, count + 1)]


@each_case("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_who_and_how(rule: Rule) -> None:
    for text in (rule.sentence, rule.senders, rule.handling):
        assert text == text.strip() != ""
        assert not text.endswith(".")
        assert "|" not in text  # it stands in a table
    assert str(rule) == f"{rule.id}: {rule.sentence}"


def test_no_two_rules_say_the_same() -> None:
    examples = {(example.body, example.is_broken) for example in (example_of(rule.id) for rule in RULES)}
    assert len({rule.sentence for rule in RULES}) == len(examples) == len(RULES)


# The examples


def read_example(rule: Rule, **options: Any) -> ChatCompletionParser:
    example = example_of(rule.id)
    parser = ChatCompletionParser(one_choice=example.is_for_one, **options)
    parser.feed(example.body)
    if example.is_broken:
        parser.interrupt(OSError("connection reset"))
    else:
        parser.close()
    return parser


def result_of(parser: ChatCompletionParser, body: bytes) -> Example:
    """What came of a body, as the table says what must."""
    error, snapshot = parser.error, parser.snapshot
    assert error is None or type(error) is APIError
    audio, usage = snapshot.message.audio, snapshot.usage
    return Example(
        body,
        snapshot.text,
        snapshot.reasoning,
        tuple(ExampleCall(call.name, call.arguments, shown_id(call.id)) for call in snapshot.tool_calls),
        (audio and audio.data) or "",
        snapshot.finish_reason,
        {} if usage is None else usage.model_dump(exclude_none=True),
        str(parser.end),
        error and (error.message, error.status_code),
    )


def expected_of(example: Example, usage: Mapping[str, int]) -> Example:
    """What must come of an example; other counts of the usage may be there."""
    calls = tuple(call._replace(id=MADE_UP) if call.id is None else call for call in example.calls)
    return example._replace(calls=calls, usage={**usage, **example.usage}, is_broken=False, is_for_one=False)


def test_every_rule_has_an_example_and_no_other_id_has_one() -> None:
    assert list(EXAMPLES) == [rule.id for rule in RULES]
    with pytest.raises(LookupError, match="rule CF999 has no example: add a body to EXAMPLES in"):
        _ = Rule("CF999", "", "", "").example


@each_case("rule", RULES, ids=lambda rule: rule.id)
def test_the_example_shows_its_rule_and_no_other(rule: Rule) -> None:
    parser = read_example(rule)
    assert list(noted(parser)) == [rule.id]
    result = result_of(parser, rule.example)
    assert result == expected_of(example_of(rule.id), result.usage)


@each_case("rule", RULES, ids=lambda rule: rule.id)
def test_strict_mode_names_the_rule(rule: Rule) -> None:
    """But a provider's own error goes first, whatever its shape, and the transport's fault is not the provider's."""
    example = example_of(rule.id)
    error = read_example(rule, strict=(rule.id,) if example.is_broken else True).error
    if example.error:
        assert type(error) is APIError
        assert (error.message, error.status_code) == example.error
    else:
        assert type(error) is InvalidStreamError
        assert error.rule is rule
        assert rule.id in str(error)
        assert not error.retryable


# What is noted is said, where it was and how often; and that is all that is kept


def test_an_anomaly_has_a_count_and_the_first_place() -> None:
    first, again = (delta(role=role, content="a") for role in ("assistant", "model"))
    pieces = [b": a comment\n\n", first, again, again, delta(role=7), again, DONE]
    places = [sum(map(len, pieces[:place])) for place in range(len(pieces))]
    repeated, wrong_type, finish_missing = parsed(b"".join(pieces)).anomalies
    assert repeated == Anomaly(BY_ID["CF204"], 3, places[2], "'model'")
    assert repeated.first == f"byte {places[2]}: 'model'"
    assert wrong_type == Anomaly(BY_ID["CF209"], 1, places[4], "choices[0].delta.role: expected a string, received int")
    assert finish_missing == Anomaly(BY_ID["CF502"], 1, places[6], "")
    assert finish_missing.first == f"byte {places[6]}"


# What the anomalies of the examples tell, where they quote what was sent
DETAILS = {
    "CF106": "'progress'",
    "CF202": "choice 0",
    "CF204": "'model'",
    "CF205": "id: 'chatcmpl-2' after 'chatcmpl-1'",
    "CF206": "None",
    "CF207": "choice 0",
    "CF219": '\'{"status":"worker restarted"}\'',
    "CF220": "role 'tool'",
    "CF221": "index 1",
    "CF223": "int",
    "CF301": "'look_up'",
    "CF302": "'look_up': call_0_d9703c35b3ba9f6467725b69",
    "CF303": "id 7",
    "CF304": "id 'call_b' after 'call_a'",
    "CF305": "index 0, id 'call_b'",
    "CF306": "id 'call_a', index 1",
    "CF307": "'look_up'",
    "CF308": "'_up'",
    "CF309": "'other'",
    "CF311": "'look_up'",
    "CF312": "'look_up': '{\"q\":1}{\"q\":2}'",
    "CF314": "index 1 after 0",
    "CF315": "choice 0: 'tool_calls'",
    "CF316": "'call_a'",
    "CF401": "'prompt_tokens'",
    "CF404": "'count_100'",
    "CF504": "choice 0: 'stop' after 'stop'",
    "CF505": "choice 0",
    "CF506": "'eos'",
}


def test_an_anomaly_quotes_what_was_sent() -> None:
    told = {one.rule.id: one.detail for rule in RULES for one in read_example(rule).anomalies}
    assert told.items() >= DETAILS.items()


def test_they_come_in_the_order_of_their_first_place() -> None:
    parser = ChatCompletionParser()
    for body in (BY_ID["CF106"].example, BY_ID["CF103"].example):
        parser.feed(body.removesuffix(DONE))
    places = [anomaly.offset for anomaly in parser.anomalies]
    assert list(noted(parser)) == ["CF106", "CF505", "CF103", "CF504"]
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


# Five providers

# What they send for good, and in which of the clean bodies: the reasons are what each of the five is known
# to do. Everything else that they do is no anomaly: where the usage stands, reasoning fields, unknown fields.
OWN: dict[str, dict[str, set[str]]] = {
    "opentoken": {},
    "sansa": {
        # The last chunk may lack `object` and `created`.
        "CF206": {"reasoning", "structured", "text", "tool_call", "usage"},
    },
    "stepfun": {
        # The role is "" on every chunk, and so is the finish reason until the end.
        "CF203": {"reasoning", "reasoning_twice", "text", "tool_call", "usage"},
        "CF301": {"tool_call"},  # tool calls by id, `index` not promised
    },
    "nagaai": {
        "CF206": {"usage"},  # it comes in a trailer with `choices: []` and nothing else: no id, no object
        "CF301": {"tool_call"},  # tool call deltas without `index`
        "CF501": {"usage_missing"},  # the trailer may be missing, and [DONE] is with it
    },
    "nameless": {
        "CF216": {"text", "tool_call", "usage", "usage_on_finish"},  # it sends no `created` and no `model`
        "CF308": {"tool_call"},  # the function's name comes in pieces
    },
}
CLEAN = sorted(
    f"{path.parent.name}/{path.stem}" for path in GOLDEN.rglob("*.sse") if not path.stem.startswith(("error", "cut_"))
)


def test_the_five_providers_are_those_with_golden_bodies() -> None:
    assert {case.partition("/")[0] for case in CLEAN} == OWN.keys()
    named = {f"{provider}/{case}" for provider, own in OWN.items() for cases in own.values() for case in cases}
    assert named <= set(CLEAN)


@each_case("case", CLEAN)
def test_a_clean_stream_breaks_no_rule_but_its_providers_own(case: str) -> None:
    provider, _, name = case.partition("/")
    expected = {id_ for id_, cases in OWN[provider].items() if name in cases}
    body = (GOLDEN / f"{case}.sse").read_bytes()
    parser = parsed(body)
    assert parser.end is StreamEnd.FINISHED
    assert noted(parser).keys() == expected
    strict = parsed(body, strict=True)
    assert (strict.end, strict.error and strict.error.rule) == (
        (StreamEnd.INVALID, parser.anomalies[0].rule) if expected else (StreamEnd.FINISHED, None)
    )


# The page


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


def test_the_page_is_what_one_command_writes(tmp_path: Path) -> None:
    """If not: python tests/providers_page.py docs/providers.md."""
    path = tmp_path / "page.md"
    subprocess.run([sys.executable, "tests/providers_page.py", str(path)], cwd=ROOT, check=True)
    assert path.read_bytes() == PAGE.read_bytes()


def test_the_modules_that_the_page_of_quirks_names_are_there() -> None:
    """Its table says where a new quirk is handled."""
    packages = "event_stream|wire|models|json_text|fold|events|parser|stream"
    named = re.findall(rf"`((?:{packages})/\w+)(?:\.\w+)?`", (ROOT / "docs" / "quirks.md").read_text("utf-8"))
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "src" / "chunkfold" / f"{name}.py").is_file()] == []
