"""What a notebook shows of a completion: all that matters, every character of it escaped, in bounded size."""

import re

import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from made_recordings import HOSTILE
from own_process import loaded_by
from parsed_bodies import parsed
from shown_html import ACTING, ShownHtml

from chunkfold import ChatCompletion, ChatCompletionMessage, Choice
from chunkfold.models.html import Html, escaped, tag
from chunkfold.testing import choice, chunk, delta, fragment, usage

CALL = fragment(0, "call_a", "look_up", '{"city": "Porto"}')
ALLOWED_TAGS = {"div", "strong", "em", "details", "summary", "table", "thead", "tbody", "tr", "th", "td"}
ALLOWED_ATTRIBUTES = {"style", "class", "dir", "scope"}


def read(*body: bytes) -> ChatCompletion:
    return parsed(b"".join(body)).snapshot


def shown(completion: ChatCompletion) -> ShownHtml:
    return ShownHtml(completion._repr_html_())


def test_it_shows_role_reasoning_text_calls_finish_reason_and_usage() -> None:
    completion = read(
        delta(role="assistant", reasoning_content="Let me think."),
        delta(content="One  moment,\n\tplease."),
        delta("tool_calls", tool_calls=[CALL]),
        chunk(usage=usage(12, 7, completion_tokens_details={"reasoning_tokens": 3})),
    )
    assert shown(completion).text.splitlines() == [
        "assistant",
        ", m",
        "reasoning (13 characters)",
        "Let me think.",
        "One  moment,",
        "\tplease.",
        "tool call",
        "arguments",
        "id",
        "look_up",
        '{"city": "Porto"}',
        "call_a",
        "finish reason: tool_calls",
        "usage: 12 prompt tokens, 7 completion tokens (3 reasoning)",
    ]


def test_reasoning_is_folded_and_space_is_kept() -> None:
    markup = read(delta(reasoning="hm"), delta("stop", content="a  b"))._repr_html_()
    assert re.search(r"<details><summary[^>]*>reasoning \(2 characters\)</summary><div[^>]*>hm</div></details>", markup)
    assert re.search(r'<div dir="auto" style="white-space:pre-wrap[^"]*">a  b</div>', markup)


def test_it_takes_the_notebooks_colours_and_nothing_from_outside() -> None:
    found = shown(read(delta(reasoning="hm"), delta("stop", content="a", tool_calls=[CALL])))
    assert found.tags <= ALLOWED_TAGS
    assert {name for name, _ in found.attributes} <= ALLOWED_ATTRIBUTES
    styles = " ".join(value or "" for name, value in found.attributes if name == "style")
    assert "color" not in styles
    assert "background" not in styles
    assert "url(" not in styles


SHOWN = {
    "a refusal": ([delta(refusal="No.")], "refusal\nNo.\n"),
    "what stands beside the text": (
        [
            delta(images=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]),
            delta("stop", audio={"id": "a", "data": "AAAA", "transcript": "hi"}),
            delta(content=[{"type": "reference", "reference_ids": [place]} for place in range(2)]),
        ],
        "with audio, 1 image, 2 content parts\n",
    ),
    "a legacy function call": ([delta(function_call={"name": "f", "arguments": "{}"})], "f\n{}\n"),
    "a count that was not sent": (
        [chunk(usage={"prompt_tokens": 12, "prompt_tokens_details": {"cached_tokens": 5}})],
        "usage: 12 prompt tokens (5 cached), ? completion tokens\n",
    ),
    "no finish reason yet": ([delta(content="a")], "finish reason: none so far"),
    "a long text": ([delta(content="t" * 1_000_000)], "t" * 4000 + "\n... and 996,000 more characters\n"),
    "long reasoning": (
        [delta(reasoning="r" * 5000)],
        "reasoning (5,000 characters)\n" + "r" * 4000 + "\n... and 1,000 more characters\n",
    ),
}


@each_case(("body", "expected"), SHOWN.values(), ids=SHOWN)
def test_this_is_shown_too(body: list[bytes], expected: str) -> None:
    assert expected in shown(read(*body)).text


def test_a_call_that_is_sent_in_both_forms_is_shown_once() -> None:
    function = {"name": "look_up", "arguments": "{}"}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    assert shown(read(delta("tool_calls", tool_calls=[call], function_call=function))).text.count("look_up") == 1


@pytest.mark.parametrize("completion", [ChatCompletion(), read(b"")], ids=["empty", "of an empty body"])
def test_a_completion_without_choices_says_so(completion: ChatCompletion) -> None:
    assert shown(completion).text == "a completion without choices\nusage: not reported\n"


def test_several_choices_are_told_apart_and_the_rest_is_counted() -> None:
    text = shown(read(*(delta("stop", index, content=f"text {index}") for index in range(5)))).text
    assert [line for line in text.splitlines() if line.startswith("text")] == ["text 0", "text 1", "text 2"]
    assert "assistant\n, choice 2, m\ntext 2\n" in text
    assert "and 2 more choices\n" in text
    assert "more" not in shown(read(*(delta("stop", index, content="a") for index in range(3)))).text
    assert "more" not in shown(read(delta(tool_calls=[fragment(at, f"{at}", "f", "{}") for at in range(12)]))).text


HOSTILE_BODIES = {
    "a text": delta("stop", content=HOSTILE),
    "reasoning": delta("stop", reasoning=HOSTILE),
    "a refusal": delta("stop", refusal=HOSTILE),
    "a role": delta("stop", role=HOSTILE, content="a"),
    "a finish reason": delta(HOSTILE, content="a"),
    "a model": chunk(choice(content="a"), model=HOSTILE),
    "a call": delta(tool_calls=[fragment(0, HOSTILE, HOSTILE, HOSTILE)]),
    "a function call": delta(function_call={"name": HOSTILE, "arguments": HOSTILE}),
}


@each_case("name", HOSTILE_BODIES)
def test_what_a_provider_sends_is_text_and_every_character_of_it_can_be_seen(name: str) -> None:
    completion = read(HOSTILE_BODIES[name])
    markup, found = completion._repr_html_(), shown(completion)
    assert found.tags <= ALLOWED_TAGS
    assert "</script><script>alert(1)</script><img src=x onerror=alert(1)>" in found.text
    assert not ACTING.search(markup.replace("\n", ""))
    assert r"\x00\x1b[31m\u202eevil\u2066\u2028" in found.text


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_any_text_is_escaped(text: str) -> None:
    message = ChatCompletionMessage.model_construct(content=text, role=text, reasoning=text)
    completion = ChatCompletion.model_construct(
        choices=[Choice.model_construct(message=message, index=0, finish_reason=text, logprobs=None)], model=text
    )
    markup = completion._repr_html_()
    markup.encode()
    assert ShownHtml(markup).tags <= ALLOWED_TAGS
    assert not ACTING.search(markup.replace("\n", ""))


def test_its_size_is_bounded_whatever_comes() -> None:
    long = "\u202e" * 5_000
    calls = [fragment(place, long, long, long) for place in range(20)]
    said = {"role": long, "content": long, "reasoning": long, "refusal": long, "tool_calls": calls}
    completion = read(chunk(*(choice(long, index, **said) for index in range(4)), model=long))
    markup = completion._repr_html_()
    assert len(markup) < 400_000
    assert "and 8 more tool calls" in markup


def test_what_is_html_already_is_not_escaped_again() -> None:
    assert tag("b", "<i>", Html("<i>"), title='"') == '<b title="&quot;">&lt;i&gt;<i></b>'
    assert escaped("a\r\nb\x07") == "a\nb\\x07"
    assert tag("a", class_="x", aria_label="y", href=None) == '<a class="x" aria-label="y"></a>'


def test_visible_characters_are_shown_as_they_are() -> None:
    """The neighbors of those that are not, too."""
    text = "\t\n ~\xa0\u061b\u061d\u200a\u200c\u200d\u2010\u2027\u202f\u205f\u2065\u206a\ud7ff\ue000\ufefe\uff00\ufff8\ufffd"
    text += "\U00010000\U000dffff\U000e0080"
    assert escaped(text) == text


def test_others_are_shown_as_their_number() -> None:
    assert escaped("\x00\x9f\u061c\uffff\U000e0000\U000e007f") == r"\x00\x9f\u061c\uffff\U000e0000\U000e007f"
    assert escaped("\u200b\u2060\u2064\ufeff\ufff9\ufffb\ufffe") == r"\u200b\u2060\u2064\ufeff\ufff9\ufffb\ufffe"


def test_nobody_pays_for_it_who_does_not_ask() -> None:
    loaded = loaded_by("import chunkfold; chunkfold.ChatCompletion()")
    assert "chunkfold.models" in loaded
    assert "chunkfold.models.html" not in loaded
