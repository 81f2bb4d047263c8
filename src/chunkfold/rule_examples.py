"""For each rule of the catalogue a body that shows it, made for it: the least that triggers the rule.

Loaded when somebody looks at `Rule.example`, not before.
"""

from typing import Final

_HEAD: Final = '"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"m"'
_DONE: Final = b"data: [DONE]\n\n"


def _chunk(choices: str, more: str = "") -> bytes:
    """An event whose chunk has these choices, as JSON without the brackets."""
    return f'data: {{{_HEAD},"choices":[{choices}]{more}}}\n\n'.encode()


def _delta(delta: str, finish_reason: str = "null") -> bytes:
    return _chunk(f'{{"index":0,"delta":{delta},"finish_reason":{finish_reason}}}')


def _stream(*deltas: str, finish_reason: str = '"stop"') -> bytes:
    """A whole stream: a chunk for each delta, the finish reason, `[DONE]`."""
    return b"".join(map(_delta, deltas)) + _delta("{}", finish_reason) + _DONE


def _calls(*fragments: str) -> bytes:
    """A whole stream with one tool call fragment in each chunk."""
    return _stream(*(f'{{"tool_calls":[{fragment}]}}' for fragment in fragments), finish_reason='"tool_calls"')


_HI: Final = _delta('{"role":"assistant","content":"Hi"}')
_STOP: Final = _delta("{}", '"stop"')
_CALL: Final = '{"index":0,"id":"call_a","type":"function","function":{"name":"look_up","arguments":"{\\"q\\":1}"}}'


def _usage(counts: str) -> bytes:
    return _chunk("", f',"usage":{{{counts}}}')


EXAMPLES: Final[dict[str, bytes]] = {
    "CF101": _HI + _STOP + _DONE.rstrip(),
    "CF102": b"\n".join((_HI.rstrip(), _STOP.rstrip(), _DONE)),
    "CF103": _HI + b"data:\n\n" + _STOP + _DONE,
    "CF104": _HI + b"data: : keepalive\n\n" + _STOP + _DONE,
    "CF105": _HI + b"data: null\n\n" + _STOP + _DONE,
    "CF106": b'event: progress\ndata: {"step":1}\n\n' + _HI + _STOP + _DONE,
    "CF107": _HI.replace(b"Hi", b"H\xff") + _STOP + _DONE,
    "CF108": _HI + _STOP + b"data: [DONE] \n\n",
    "CF109": (
        b'{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"m","choices":[{"index":0,'
        b'"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}'
    ),
    "CF201": f'data: {{{_HEAD},"choices":null}}\n\n'.encode() + _HI + _STOP + _DONE,
    "CF202": _chunk('{"index":0,"finish_reason":null,"content_filter_offsets":{}}') + _HI + _STOP + _DONE,
    "CF203": _delta('{"role":"","content":"Hi"}', '""') + _STOP + _DONE,
    "CF204": _stream('{"role":"assistant","content":"H"}', '{"role":"assistant","content":"i"}'),
    "CF205": _HI + _STOP.replace(b"chatcmpl-1", b"chatcmpl-2") + _DONE,
    "CF206": (_HI + _STOP).replace(b'"object":"chat.completion.chunk",', b"") + _DONE,
    "CF207": _chunk('{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}') + _DONE,
    "CF208": _stream('{"content":[{"type":"thinking","thinking":"Hm"},{"type":"text","text":"Hi"}]}'),
    "CF209": _stream('{"role":7,"content":"Hi"}'),
    "CF210": _chunk('{"delta":{"content":"Hi"},"finish_reason":"stop"}') + _DONE,
    "CF211": _stream('{"content":"\\ud83d"}', '{"content":"\\ude00"}'),
    "CF212": _stream('{"content":"Hi","nested":' + "[" * 201 + "]" * 201 + "}"),
    "CF213": _HI.replace(b"Hi", b"H\ti") + _STOP + _DONE,
    "CF214": b"data: [" + _HI[6:-2] + b"]\n\n" + _STOP + _DONE,
    "CF215": _HI.replace(b"1760000000", b'"1760000000"') + _STOP + _DONE,
    "CF216": b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"},'
    b'"finish_reason":"stop"}]}\n\n' + _DONE,
    "CF217": _calls(f"null,{_CALL}"),
    "CF218": _stream('{"audio":{"id":"a","data":"aGV"}}', '{"audio":{"data":"sbG8="}}'),
    "CF301": _calls(_CALL.replace('"index":0,', "")),
    "CF302": _calls(_CALL.replace('"id":"call_a",', "")),
    "CF303": _calls(_CALL.replace('"call_a"', "7")),
    "CF304": _calls(
        '{"index":0,"id":"call_a","function":{"name":"look_up","arguments":""}}',
        '{"index":0,"id":"call_b","function":{"arguments":"{}"}}',
    ),
    "CF305": _calls(_CALL, _CALL.replace("call_a", "call_b")),
    "CF306": _calls(_CALL, _CALL.replace('"index":0', '"index":1')),
    "CF307": _calls(_CALL, '{"index":0,"function":{"name":"look_up","arguments":" "}}'),
    "CF308": _calls(
        '{"index":0,"id":"call_a","function":{"name":"look"}}',
        '{"index":0,"function":{"name":"_up","arguments":"{}"}}',
    ),
    "CF309": _calls(_CALL, '{"index":0,"id":"call_a","function":{"name":"other","arguments":" "}}'),
    "CF310": _calls('{"index":0,"id":"call_a","function":{"name":"look_up","arguments":{"q":1}}}'),
    "CF311": _calls(
        '{"index":0,"id":"call_a","function":{"name":"look_up","arguments":"{}"}}',
        '{"index":0,"function":{"arguments":"{\\"q\\":1}"}}',
    ),
    "CF401": _HI
    + _usage('"prompt_tokens":10,"completion_tokens":5,"total_tokens":15')
    + _STOP
    + _usage('"prompt_tokens":0,"completion_tokens":0,"total_tokens":0')
    + _DONE,
    "CF402": _HI
    + _usage('"prompt_tokens":50,"total_tokens":50')
    + _STOP
    + _usage('"completion_tokens":27,"total_tokens":27')
    + _DONE,
    "CF501": _HI + _STOP,
    "CF502": _HI + _DONE,
    "CF503": _stream(f'{{"tool_calls":[{_CALL}]}}'),
    "CF504": _HI + _STOP + _STOP + _DONE,
    "CF505": _HI + _STOP + _delta('{"content":"!"}') + _DONE,
    "CF506": _stream('{"content":"Hi"}', finish_reason='"eos"'),
    "CF507": _HI + _STOP,
    "CF601": _HI + b'event: error\ndata: {"message":"overloaded","code":503}\n\n',
    "CF602": _HI + b'error: {"code":400,"message":"the context is too long"}\n\n',
    "CF603": _HI + b'data: {"error":"overloaded","error_type":"overloaded"}\n\n',
    "CF604": _HI + b'data: {"object":"error","message":"bad prompt","type":"BadRequestError","code":400}\n\n',
    "CF605": _HI + b'data: {"base_resp":{"status_code":1002,"status_msg":"rate limit"},"choices":null}\n\n',
    "CF606": _HI + _delta("{}", '"network_error"'),
    "CF607": b'{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}',
}
