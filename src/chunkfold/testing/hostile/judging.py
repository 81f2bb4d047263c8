"""Whether a reading is right, by the counting rules in the package's docstring; if not, the wrong result."""

from typing import Final

from chunkfold.models.outcome import outcome_of
from chunkfold.testing.hostile.values import HostileStream
from chunkfold.testing.readings import Call, Reading, has_right_ending, one_line, same_calls

_LONGEST: Final = 150


def judge(stream: HostileStream, reading: Reading) -> str | None:
    """None if the reading is right; else the wrong result in one line."""
    if not has_right_ending(stream.ending, reading):
        return _mistaken(stream, reading)
    if stream.ending == "complete":
        return _judge_answer(stream, reading) or _judge_facts(stream, reading)
    if reading.refused is None or reading.ending is None:
        return None
    if stream.message not in reading.refused:
        return f"without the provider's words: {reading.refused}"
    return _judge_answer(stream, reading)


def _mistaken(stream: HostileStream, reading: Reading) -> str:
    """The wrong result, in one line."""
    came = _shown_answer(reading) if reading.refused is None else reading.refused
    if reading.ending not in (None, stream.ending):
        return f"taken as {reading.ending}: {came}"
    if stream.ending == "complete":
        return came
    if reading.has_crashed:
        return f"crashed: {came}"
    return f"{'no error' if stream.ending == 'error' else 'accepted as whole'}: {came}"


def _judge_answer(stream: HostileStream, reading: Reading) -> str | None:
    """The texts and the calls; where there is a whole answer and where it was refused after a part."""
    if reading.texts is not None:
        for index, (expected, text) in enumerate(zip(stream.texts, reading.texts or ("",), strict=False)):
            if text != expected:
                return _differs("text" if index == 0 else f"text of choice {index}", expected, text)
    if reading.calls is not None and not same_calls(stream.calls, reading.calls):
        with_ids = _without_ids(reading.calls) == _without_ids(stream.calls)
        return f"calls: {_shown_calls(reading.calls, with_ids=with_ids)}"
    return None


def _judge_facts(stream: HostileStream, reading: Reading) -> str | None:
    if None not in (stream.reasoning, reading.reasoning) and stream.reasoning != reading.reasoning:
        return _differs("reasoning", stream.reasoning or "", reading.reasoning or "")
    if not _same_finish(stream, reading.finish_reason):
        return f"finish reason: {one_line(repr(reading.finish_reason))}"
    if reading.usage is not None:
        found = {name: reading.usage.get(name, "missing") for name in stream.usage}
        wrong = [f"{name} {count}" for name, count in found.items() if count != stream.usage[name]]
        if wrong:
            return f"usage: {', '.join(wrong)}"
    return None


def _same_finish(stream: HostileStream, came: str | None) -> bool:
    """Whether it is the word that was sent, or another one for the same reading."""
    if None in (stream.finish_reason, came) or stream.finish_reason == came:
        return True
    called = bool(stream.calls)
    return outcome_of(stream.finish_reason, has_tool_calls=called) == outcome_of(came, has_tool_calls=called)


def _differs(what: str, expected: str, came: str) -> str:
    if len(expected) > _LONGEST:
        return f"{what}: {len(came)} characters of {len(expected)}"
    return f"{what}: {one_line(ascii(came))}"


def _shown_answer(reading: Reading) -> str:
    text = one_line(ascii("".join(reading.texts or ())))
    finish = f", finish reason {one_line(ascii(str(reading.finish_reason))[1:-1])}" if reading.finish_reason else ""
    return f"{text}{finish}" if not reading.calls else f"{_shown_calls(reading.calls)}{finish}"


def _shown_calls(calls: tuple[Call, ...], *, with_ids: bool = False) -> str:
    shown = (f"{call.name}({call.arguments})" + (f" with the id {call.id}" if with_ids else "") for call in calls)
    return one_line(", ".join(shown)) or "none"


def _without_ids(calls: tuple[Call, ...]) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in calls]
