"""What fuzzing found, and that fuzzing finds: the promises of `invariants`, held for inputs that are kept here.

`tests/fuzz` looks for inputs that break a promise; each that it found has a name here and stays. The golden bodies and
the hostile set go through the same checks, and so do some inputs of each target, the same each time. That the checks
can fail is shown by bugs that are planted.
"""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cases import each_case
from fuzz.made_bodies import made_body
from fuzz.seeds import bodies, dictionary, seeds_of
from fuzz.targets import HEAD, PLAIN, TARGETS, Input
from invariants import check
from invariants.holding import Broken
from invariants.live_json import check_json
from invariants.readings import Options
from made_streams import STOP
from parsed_bodies import parsed
from short_inputs import short_runs

from chunkfold import ChatCompletionChunk, ChatCompletionParser, EventStreamDecoder, PartialJSON, StreamEnd, errors
from chunkfold.events.recorder import EventRecorder
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.parser import parser as parser_module
from chunkfold.parser.lifecycle import Lifecycle
from chunkfold.parser.surrogate_joiner import SurrogateJoiner
from chunkfold.parser.template import EventTemplate
from chunkfold.testing import DONE, choice, chunk, delta, event, fragment
from chunkfold.wire import payload

FUZZ = Path(__file__).parents[1] / "fuzz"
CUTS = [1, 7, 61, 300]
HUGE = 100_000  # bytes; such a body is read in one way only
LONGEST_INPUT = 4096  # bytes


@pytest.fixture(autouse=True, scope="module")
def _short_runs() -> Iterator[None]:
    with short_runs():
        yield


# What was found


class Found(NamedTuple):
    """An input that broke a promise, and how it was read."""

    what: str
    body: bytes
    options: Options = Options()


BARE = {"object": "chat.completion.chunk", "id": "c1", "model": "m"}
HALF = "\ud83d"

FOUND = [
    Found("folding data that begins with a line end", b"data:\ndata: a\n\n"),
    Found(
        "filling a gap with parts that have no text, twice",
        event(chunk({"index": 0, "message": {"content": [{}]}, "finish_reason": None})) + event(chunk(usage={})),
    ),
    Found("folding data that is a line end", b"data:\ndata\n\n" + delta(content="a") + STOP + DONE),
    Found("a function call that is no object, beside a stop", delta("stop", content="a", function_call=True)),
    Found("usage whose total an empty one changes", chunk(usage={"prompt_tokens": 0, "completion_tokens": 1, "total_tokens": 0}) + chunk(usage={})),
    Found("usage in two parts, of which one comes again", chunk(usage={"prompt_tokens": 9}) + chunk(usage={"completion_tokens": 5, "total_tokens": 5}) * 2),
    Found("usage of which only the total changes", chunk(usage={"total_tokens": 1}) + chunk(usage={"total_tokens": 2})),
    Found("half a pair in a call's id, and in its arguments", delta(tool_calls=[{"id": HALF, "function": {"arguments": HALF}}])),
    Found("half a pair in a chunk in an error field", delta(content=HALF).replace(b"data:", b"error:")),
    Found("a wrong type in a chunk in an error field", event({**BARE, "usage": "x", "choices": [{"delta": {}}]}).replace(b"data:", b"error:")),
    Found("a summary in a part of no known type", delta(content=[{"type": "x", "summary": [{"type": "text", "text": "a"}]}])),
    Found(
        "leaving a strict stream that would end with an anomaly",
        event({**BARE, "choices": [choice("stop", content="a")]}),
        Options(strict=True, is_left=True),
    ),
]  # fmt: skip


@each_case("found", FOUND, ids=lambda found: found.what)
def test_what_was_found_stays_mended(found: Found) -> None:
    check(found.body, CUTS, found.options)
    check(delta(content="a") + found.body, CUTS, found.options)


# What is known


WAYS = [
    Options(),
    Options(strict=True, is_reset=True),
    Options(is_left=True, is_transformed=True),
    Options(max_event_size=250, max_output_size=30),
]
KNOWN = [body for body in bodies() if len(body) < HUGE]


@pytest.mark.parametrize("is_all", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_golden_bodies_and_the_hostile_set_keep_every_promise(is_all: bool) -> None:
    """Every seventh, read in one way; the ways take turns. The slow suite reads all of them in all ways."""
    for number, body in enumerate(KNOWN if is_all else KNOWN[1::7]):
        for options in WAYS if is_all else [WAYS[number % len(WAYS)]]:
            check(body, CUTS, options)


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "accumulator"])
def test_some_inputs_keep_every_promise(name: str) -> None:
    """A little fuzzing without a fuzzer: what it begins with, spliced and changed by chance, the same each time."""
    chance = random.Random(1)
    seeds = [seed for seed in seeds_of(name) if len(seed) < HUGE]
    for _ in range(40):
        one, other = chance.choice(seeds), chance.choice(seeds)
        place = chance.randrange(HEAD, len(one) + 1)
        body = one[HEAD:place] + chance.randbytes(2) + other[place:]
        TARGETS[name](chance.choice([PLAIN, chance.randbytes(HEAD)]) + body)


@pytest.mark.parametrize(("seed", "times"), [(1, 40), pytest.param(2, 1000, marks=pytest.mark.slow)])
def test_made_bodies_keep_every_promise(seed: int, times: int) -> None:
    chance = random.Random(seed)
    for _ in range(times):
        data = chance.randbytes(chance.randrange(120))
        TARGETS["accumulator"](chance.choice([PLAIN, chance.randbytes(HEAD)]) + data)


@pytest.mark.parametrize("target", TARGETS)
def test_any_bytes_are_an_input(target: str) -> None:
    for size in (0, 1, HEAD, HEAD + 1):
        TARGETS[target](bytes(size))
        TARGETS[target](b"\xff" * size)


def test_the_words_are_in_the_fuzzers_format() -> None:
    lines = dictionary().splitlines()
    assert '"\\x64\\x61\\x74\\x61\\x3a"' in lines
    assert all(set(line[1:-1]) <= set("\\x0123456789abcdef") for line in lines)


LINE_ENDS = (b"", b"\n", b"\n\n")
LINES = [body.splitlines(keepends=True) for body in KNOWN if 0 < len(body) < LONGEST_INPUT]


@pytest.mark.parametrize(("seed", "times"), [(1, 40), pytest.param(2, 2000, marks=pytest.mark.slow)])
def test_lines_of_several_bodies_in_one_keep_every_promise(seed: int, times: int) -> None:
    """So quirks of several providers come together, and blank lines and fields are lost."""
    chance = random.Random(seed)
    for _ in range(times):
        pieces: list[bytes] = []
        for lines in chance.sample(LINES, chance.randrange(2, 5)):
            begin = chance.randrange(len(lines))
            pieces.append(b"".join(lines[begin : begin + chance.choice((1, 1, 2, 5))]))
            pieces.append(chance.choice((b"", b"data: ", b": c\n", b"event: error\n", *LINE_ENDS)))
            if chance.random() < 0.3:
                pieces[-2] = pieces[-2].rstrip() + chance.choice(LINE_ENDS)
        body = b"".join(pieces)
        check(body, [chance.randrange(len(body) + 1) for _ in range(3)])


# Inputs


def test_the_first_bytes_of_an_input_are_its_options() -> None:
    given = Input.of(b"\x09\x05\x01" + b"\x00\x10" * 3 + b"rest")
    assert given.options == Options(strict=True, is_transformed=True, max_event_size=4, max_output_size=0)
    assert (given.cuts, given.rest) == ([16, 16, 16], b"rest")


def test_made_bodies_have_something_to_fold() -> None:
    """Else the accumulator would not be reached, and its promises be kept by nobody asking."""
    chance = random.Random(3)
    ends = set()
    fields = set()
    for _ in range(150):
        parser = parsed(made_body(chance.randbytes(80)))
        ends.add(parser.end)
        for one in parser.snapshot.choices:
            fields |= {name for name, value in vars(one.message).items() if value}
    assert ends >= {StreamEnd.FINISHED, StreamEnd.DONE, StreamEnd.TRUNCATED, StreamEnd.FAILED, StreamEnd.INVALID}
    assert fields >= {"content", "reasoning", "refusal", "tool_calls", "audio", "function_call", "reasoning_details"}


# Planted bugs


class Planted(NamedTuple):
    """A bug: what is replaced by what, and the input that shows it; by a promise that it breaks, or an exception."""

    where: Any
    name: str
    wrong: Any
    body: bytes
    options: Options = Options()
    breaks_a_promise: bool = True


def plant(found: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function, with what it returns changed."""

    def planted(*args: Any, **options: Any) -> Any:
        return change(found(*args, **options))

    return planted


TEXT = b"".join(delta(content=word) for word in "abcdef") + STOP + DONE
CALLS = delta(tool_calls=[fragment(0, "a", "f", "{}")]) + STOP + DONE
PLANTED = {
    "a BOM that is kept": Planted(EventStreamDecoder, "_without_bom", lambda self, data: data, b"\xef\xbb\xbf" + TEXT),
    "an offset that is one off": Planted(EventStreamDecoder, "feed", plant(EventStreamDecoder.feed, lambda events: [one._replace(offset=one.offset + 1) for one in events]), TEXT),
    "an event that is lost": Planted(EventStreamDecoder, "feed", plant(EventStreamDecoder.feed, lambda events: events[:2]), TEXT),
    "a retry of any kind": Planted(EventStreamDecoder, "_take_retry", lambda self, value: setattr(self, "reconnection_time", 5), b"retry: x\n\n"),
    "a limit that is not looked at": Planted(EventStreamDecoder, "_exceed", lambda self: None, TEXT, Options(max_event_size=9)),
    "a text that is folded twice": Planted(StreamFold, "add_again", lambda self, state, head, rule, value, count=1: bool(rule(state, value) + rule(state, value)), TEXT),
    "a short way that is none": Planted(EventTemplate, "fold_event", lambda self, event, chunks: chunks is None or not chunks.append(ChatCompletionChunk()), TEXT),
    "a snapshot that is shared": Planted(ChatCompletionParser, "snapshot", property(lambda self: self.__dict__.setdefault("x", self._fold.snapshot)), TEXT),
    "every end complete": Planted(StreamEnd, "complete", property(lambda self: True), delta(content="a")),
    "an error that is lost": Planted(Lifecycle, "_with_context", lambda self, error: error if "no completion" in str(error) else None, delta(content="a")),
    "an end that comes twice": Planted(ChatCompletionParser, "leave", lambda self: self._body._flush() or setattr(self, "end", StreamEnd.CLOSED), TEXT),
    "output that is not counted": Planted(StreamFold, "has_output", property(lambda self: False), TEXT),
    "strict that is tolerant": Planted(parser_module, "refused_rules", lambda **_: frozenset(), delta(content="a", role="") + STOP),
    "a message that is not escaped": Planted(payload, "excerpt_of", bytes.decode, b"data: {\x1b\n\n"),
    "a message without end": Planted(payload, "excerpt_of", bytes.decode, b"data: {" + b"x" * 5000 + b"\n\n"),
    "halves that are handed out": Planted(SurrogateJoiner, "join", lambda self, chunk, is_split: chunk, delta(content=HALF) + STOP),
    "a call that is never done": Planted(EventRecorder, "_end", lambda self, progress: None, CALLS),
    "an exception of another kind": Planted(ChatCompletionParser, "close", lambda self: self.nothing, TEXT, breaks_a_promise=False),
    "is_retryable that raises": Planted(errors, "is_retryable", lambda error, after_output=False: 1 / 0, delta(content="a"), breaks_a_promise=False),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = PLANTED[name]
    check(bug.body, CUTS, bug.options)
    monkeypatch.setattr(bug.where, bug.name, bug.wrong)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Broken, or what a call raised that must not
        check(bug.body, CUTS, bug.options)
    assert isinstance(caught.value, Broken) is bug.breaks_a_promise, caught.value


def test_a_planted_bug_in_live_json_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"a": [1, "b"]}'
    check_json(text, CUTS)
    monkeypatch.setattr(PartialJSON, "close", lambda self: self.value)
    check_json(text, CUTS)
    monkeypatch.setattr(PartialJSON, "_put", lambda self, value: self._end_value())
    with pytest.raises(Broken):
        check_json(text, CUTS)


# The harness


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, FUZZ, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(find_spec("atheris") is None, reason="needs atheris (group `fuzz`)")
def test_with_the_fuzzer_it_fuzzes(tmp_path: Path) -> None:
    done = run("--seconds", "2", "--target", "decoder", "--corpus", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert any((tmp_path / "decoder" / "corpus").iterdir())


def test_an_input_can_be_replayed_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(PLAIN + TEXT)
    done = run("--target", "parser", "--replay", path)
    assert done.returncode == 0, done.stderr
    assert "every promise is kept" in done.stdout
    assert run("--replay", path).returncode == 2  # of which target?
