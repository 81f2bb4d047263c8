"""A body for each rule of the catalogue, and the expected result.

Each body is the smallest that triggers its rule, and triggers no other. From this one table come `Rule.example`, the
page "What providers really send", the hostile set, and the parser's own tests of its rules. Loaded on demand.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class ExampleCall(NamedTuple):
    """A tool call that is expected from an example."""

    name: str = "look_up"
    arguments: str = '{"q":1}'
    id: str | None = "call_a"  # None where it has to be made up


class Example(NamedTuple):
    """A response's body, and the expected result."""

    body: bytes
    text: str = "Hi"  # as far as it came
    reasoning: str = ""
    calls: tuple[ExampleCall, ...] = ()
    audio: str = ""  # base64
    finish_reason: str | None = "stop"  # as sent
    usage: Mapping[str, int] = MappingProxyType({})  # counts that have to come out, by OpenAI's names, among others
    end: str = "finished"
    error: tuple[str, int | None] | None = None  # the provider's message, and the HTTP status that it means
    is_broken: bool = False  # whether the transport has to fail after the body to trigger the rule
    is_for_one: bool = False  # whether the request has to ask for one choice to trigger the rule


_OBJECT: Final = '"object":"chat.completion.chunk"'
_HEAD: Final = f'"id":"chatcmpl-1",{_OBJECT},"created":1760000000,"model":"m"'
_DONE: Final = b"data: [DONE]\n\n"


def _chunk(choices: str, more: str = "") -> bytes:
    """An event whose chunk has these choices, as JSON without the brackets."""
    return f'data: {{{_HEAD},"choices":[{choices}]{more}}}\n\n'.encode()


def _delta(delta: str, finish_reason: str = "null", more: str = "") -> bytes:
    return _chunk(f'{{"index":0,"delta":{delta},"finish_reason":{finish_reason}}}', more)


def _stream(*deltas: str, finish_reason: str = '"stop"') -> bytes:
    """A whole stream: a chunk for each delta, the finish reason, `[DONE]`."""
    return b"".join(map(_delta, deltas)) + _delta("{}", finish_reason) + _DONE


_HI: Final = _delta('{"role":"assistant","content":"Hi"}')
_STOP: Final = _delta("{}", '"stop"')
_MESSAGE: Final = _chunk('{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}')
_CALL: Final = '{"index":0,"id":"call_a","type":"function","function":{"name":"look_up","arguments":"{\\"q\\":1}"}}'


def _counted(*usages: str, usage: Mapping[str, int] = MappingProxyType({})) -> Example:
    """Text, and usage after the finish reason; with two usages, the first one before it."""
    *before, last = [_chunk("", f',"usage":{{{counts}}}') for counts in usages]
    return Example(_HI + b"".join(before) + _STOP + last + _DONE, usage=usage)


def _diffused(text: str, progress: str, finish_reason: str = "null") -> bytes:
    meta = f',"diffusion_meta":{{"diffusion_content":true,"diffusion_progress":{progress}}}'
    return _delta(f'{{"role":"assistant","content":"{text}"}}', finish_reason, meta)


def _fragment(id: str | None, index: int = 0, **function: str) -> str:
    fields = {"index": index, "id": id, "function": function}
    return json.dumps({name: field for name, field in fields.items() if field is not None}, separators=(",", ":"))


def _called(*fragments: str, calls: tuple[ExampleCall, ...] = (), arguments: str = '{"q":1}') -> Example:
    """A whole stream with one tool call fragment in each chunk; by default of one call, which has these arguments."""
    body = _stream(*(f'{{"tool_calls":[{fragment}]}}' for fragment in fragments), finish_reason='"tool_calls"')
    return Example(body, "", calls=calls or (ExampleCall(arguments=arguments),), finish_reason="tool_calls")


def _failed(events: bytes, message: str, status: int | None) -> Example:
    """Text, then events that end the stream with an error."""
    return Example(_HI + events, finish_reason=None, end="failed", error=(message, status))


EXAMPLES: Final[dict[str, Example]] = {
    "CF101": Example(_HI + _STOP + _DONE.rstrip()),
    "CF102": Example(b"\n".join((_HI.rstrip(), _STOP.rstrip(), _DONE))),
    "CF103": Example(_HI + b"data:\n\n" + _STOP + _DONE),
    "CF104": Example(_HI + b"data: : keepalive\n\n" + _STOP + _DONE),
    "CF105": Example(_HI + b"data: null\n\n" + _STOP + _DONE),
    "CF106": Example(b'event: progress\ndata: {"step":1}\n\n' + _HI + _STOP + _DONE),
    "CF107": Example(_HI.replace(b"Hi", b"H\xff") + _STOP + _DONE, text="H\ufffd"),
    "CF108": Example(_HI + _STOP + b"data: [DONE] \n\n"),
    "CF109": Example(_MESSAGE[6:-2].replace(b"chat.completion.chunk", b"chat.completion")),
    "CF110": Example(_HI + b'Data: {"choices":[]}\n\n' + _STOP + _DONE),
    "CF111": Example(b"data: " + _HI + _STOP + _DONE),
    "CF112": Example(_HI + _STOP + b"data: ]\n\n" + _DONE),
    "CF201": Example(f'data: {{{_HEAD},"choices":null}}\n\n'.encode() + _HI + _STOP + _DONE),
    "CF202": Example(_chunk('{"index":0,"finish_reason":null,"content_filter_offsets":{}}') + _HI + _STOP + _DONE),
    "CF203": Example(_delta('{"role":"","content":"Hi"}', '""') + _STOP + _DONE),
    "CF204": Example(_stream('{"role":"assistant","content":"H"}', '{"role":"model","content":"i"}')),
    "CF205": Example(_HI + _STOP.replace(b"chatcmpl-1", b"chatcmpl-2") + _DONE),
    "CF206": Example((_HI + _STOP).replace(b'"object":"chat.completion.chunk",', b"") + _DONE),
    "CF207": Example(_MESSAGE + _DONE),
    "CF208": Example(
        _stream('{"content":[{"type":"thinking","thinking":"Hm"},{"type":"text","text":"Hi"}]}'), reasoning="Hm"
    ),
    "CF209": Example(_stream('{"role":7,"content":"Hi"}')),
    "CF210": Example(_chunk('{"delta":{"content":"Hi"},"finish_reason":"stop"}') + _DONE),
    "CF211": Example(_stream('{"content":"\\ud83d"}', '{"content":"\\ude00"}'), "\U0001f600"),
    "CF212": Example(_stream('{"content":"Hi","nested":' + "[" * 201 + "]" * 201 + "}")),
    "CF213": Example(_HI.replace(b"Hi", b"H\ti") + _STOP + _DONE, "H\ti"),
    "CF214": Example(b"data: [" + _HI[6:-2] + b"]\n\n" + _STOP + _DONE),
    "CF215": Example(_HI.replace(b"1760000000", b'"1760000000"') + _STOP + _DONE),
    "CF216": Example(_delta('{"content":"Hi"}', '"stop"').replace(_HEAD.encode(), _OBJECT.encode()) + _DONE),
    "CF217": _called(f"null,{_CALL}"),
    "CF218": Example(_stream('{"audio":{"id":"a","data":"aGV"}}', '{"audio":{"data":"sbG8="}}'), "", audio="aGVsbG8="),
    "CF219": Example(_HI + b'data: {"status":"worker restarted"}\n\n' + _STOP + _DONE),
    "CF220": Example(
        _stream('{"role":"tool","tool_call_id":"call_a","content":"[1]"}', '{"role":"assistant","content":"Hi"}')
    ),
    "CF221": Example(_HI + _STOP.replace(b'"index":0', b'"index":1') + _DONE, is_for_one=True),
    "CF222": Example(_diffused("H%", "0") + _diffused("Hi", "1", '"stop"') + _DONE),
    "CF223": Example(_stream('{"content":"["}', '{"content":1}', '{"content":"]"}'), "[1]"),
    "CF301": _called(_CALL.replace('"index":0,', "")),
    "CF302": _called(_CALL.replace('"id":"call_a",', ""), calls=(ExampleCall(id=None),)),
    "CF303": _called(_CALL.replace('"call_a"', "7"), calls=(ExampleCall(id="7"),)),
    "CF304": _called(
        _fragment("call_a", name="look_up", arguments=""), _fragment("call_b", arguments="{}"), arguments="{}"
    ),
    "CF305": _called(_CALL, _CALL.replace("call_a", "call_b"), calls=(ExampleCall(), ExampleCall(id="call_b"))),
    "CF306": _called(_CALL, _CALL.replace('"index":0', '"index":1'), calls=(ExampleCall(), ExampleCall())),
    "CF307": _called(_CALL, _fragment(None, name="look_up", arguments=" "), arguments='{"q":1} '),
    "CF308": _called(_fragment("call_a", name="look"), _fragment(None, name="_up", arguments="{}"), arguments="{}"),
    "CF309": _called(_CALL, _fragment("call_a", name="other", arguments=" "), arguments='{"q":1} '),
    "CF310": _called('{"index":0,"id":"call_a","function":{"name":"look_up","arguments":{"q":1}}}'),
    "CF311": _called(
        _fragment("call_a", name="look_up", arguments="{}"), _fragment(None, arguments='{"q":1}'), arguments='{}{"q":1}'
    ),
    "CF312": _called(_CALL, _fragment(None, arguments='{"q":2}'), arguments='{"q":1}{"q":2}'),
    "CF313": _called(_CALL)._replace(body=_stream(f'{{"tool_calls":{_CALL}}}', finish_reason='"tool_calls"')),
    "CF314": _called(_fragment("call_a", name="look_up", arguments='{"q"'), _fragment(None, 1, arguments=":1}")),
    "CF315": Example(_stream('{"content":"Hi"}', finish_reason='"tool_calls"'), finish_reason="tool_calls"),
    "CF316": _called(_fragment("call_a", arguments='{"q":1}'), calls=(ExampleCall(name=""),)),
    "CF401": _counted(
        '"prompt_tokens":10,"completion_tokens":5,"total_tokens":15',
        '"prompt_tokens":0,"completion_tokens":0,"total_tokens":0',
        usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    ),
    "CF402": _counted(
        '"prompt_tokens":50,"total_tokens":50',
        '"completion_tokens":27,"total_tokens":27',
        usage={"prompt_tokens": 50, "completion_tokens": 27, "total_tokens": 77},
    ),
    "CF403": _counted('"prompt_tokens":10,"completion_tokens":18446744073709551616', usage={"prompt_tokens": 10}),
    "CF404": _counted(",".join(f'"count_{place}":1' for place in range(101))),
    "CF405": _counted(
        '"input_tokens":10,"output_tokens":5,"total_tokens":15',
        usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    ),
    "CF501": Example(_HI + _STOP),
    "CF502": Example(_HI + _DONE, finish_reason=None, end="done"),
    "CF504": Example(_HI + _STOP + _STOP + _DONE),
    "CF505": Example(_HI + _STOP + _delta('{"content":"!"}') + _DONE, "Hi!"),
    "CF506": Example(_stream('{"content":"Hi"}', finish_reason='"eos"'), finish_reason="eos"),
    "CF507": Example(_HI + _STOP, is_broken=True),
    "CF601": _failed(b'event: error\ndata: {"message":"overloaded","code":503}\n\n', "overloaded", 503),
    "CF602": _failed(b'error: {"code":400,"message":"the context is too long"}\n\n', "the context is too long", 400),
    "CF603": _failed(b'data: {"error":"overloaded","error_type":"overloaded"}\n\n', "overloaded", 503),
    "CF604": _failed(
        b'data: {"object":"error","message":"bad prompt","type":"BadRequestError","code":400}\n\n', "bad prompt", 400
    ),
    "CF605": _failed(
        b'data: {"base_resp":{"status_code":1002,"status_msg":"rate limit"},"choices":null}\n\n', "rate limit", 429
    ),
    "CF606": Example(
        _HI + _delta("{}", '"network_error"'),
        finish_reason="network_error",
        end="failed",
        error=("the provider ended choice 0 with the finish reason 'network_error'", 502),
    ),
    "CF607": Example(
        b'{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}',
        "",
        finish_reason=None,
        end="failed",
        error=("no such model", 404),
    ),
    "CF608": _failed(
        _chunk('{"index":0,"delta":{},"error":{"code":504,"message":"Upstream idle timeout exceeded"}}'),
        "Upstream idle timeout exceeded",
        504,
    ),
    "CF609": _failed(
        b'data: {"error": "can only concatenate str (not "int") to str"}\n\n',
        '{"error": "can only concatenate str (not "int") to str"}',
        None,
    ),
}


def example_of(rule_id: str) -> Example:
    """A rule's example, with the expected result."""
    try:
        return EXAMPLES[rule_id]
    except KeyError:
        raise LookupError(f"rule {rule_id} has no example: add a body to EXAMPLES in {__name__}") from None
