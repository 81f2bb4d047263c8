"""The rules' own examples as hostile streams: the bodies are the catalogue's, here is what must come of them."""

from typing import Any, Final

from chunkfold.testing.hostile.values import HostileStream
from chunkfold.testing.outcomes import Call
from chunkfold.testing.wire import usage

_LOOK_UP: Final = Call("look_up", '{"q":1}', "call_a")


def _called(*calls: Call) -> dict[str, Any]:
    return {"texts": ("",), "calls": calls, "finish_reason": "tool_calls"}


def _failed(message: str, text: str = "Hi") -> dict[str, Any]:
    return {"texts": (text,), "finish_reason": None, "ending": "error", "message": message}


_SAYS_HI: Final[dict[str, Any]] = {"texts": ("Hi",), "finish_reason": "stop"}
# Where a rule's example does something else.
_EXPECTED: Final[dict[str, dict[str, Any]]] = {
    "CF107": {"texts": ("H\ufffd",)},
    "CF208": {"reasoning": "Hm"},
    "CF211": {"texts": ("😀",)},
    "CF213": {"texts": ("H\ti",)},
    "CF217": _called(_LOOK_UP),
    "CF218": {"texts": ("",)},
    "CF301": _called(_LOOK_UP),
    "CF302": _called(Call("look_up", '{"q":1}')),
    "CF303": _called(Call("look_up", '{"q":1}', "7")),
    "CF304": _called(Call("look_up", "{}", "call_a")),
    "CF305": _called(_LOOK_UP, Call("look_up", '{"q":1}', "call_b")),
    "CF306": _called(_LOOK_UP, Call("look_up", '{"q":1}')),
    "CF307": _called(Call("look_up", '{"q":1} ', "call_a")),
    "CF308": _called(Call("look_up", "{}", "call_a")),
    "CF309": _called(Call("look_up", '{"q":1} ', "call_a")),
    "CF310": _called(_LOOK_UP),
    "CF311": _called(Call("look_up", '{}{"q":1}', "call_a")),
    "CF401": {"usage": usage(10, 5)},
    "CF402": {"usage": {"prompt_tokens": 50, "completion_tokens": 27}},
    "CF502": {"finish_reason": None},
    "CF503": {**_called(_LOOK_UP), "finish_reason": "stop"},
    "CF505": {"texts": ("Hi!",)},
    "CF506": {"finish_reason": "eos"},
    "CF601": _failed("overloaded"),
    "CF602": _failed("the context is too long"),
    "CF603": _failed("overloaded"),
    "CF604": _failed("bad prompt"),
    "CF605": _failed("rate limit"),
    "CF606": _failed("network_error"),
    "CF607": _failed("no such model", text=""),
}
_NOT_IN_A_BODY: Final = {"CF507"}  # the transport's fault: as a body its example is that of CF501


def rule_streams() -> tuple[HostileStream, ...]:
    """One for each rule that a body can show."""
    from chunkfold.anomalies import RULES

    return tuple(
        HostileStream(
            rule.id,
            rule.sentence,
            rule.senders,
            rule.example,
            **(_SAYS_HI | _EXPECTED.get(rule.id, {})),
        )
        for rule in RULES
        if rule.id not in _NOT_IN_A_BODY
    )
