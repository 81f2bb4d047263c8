"""A small language model whose answers are known: its weights are a table that says which token follows which.

It is a llama model of one layer whose attention adds nothing, so that the next token depends only on the last one: the
embedding of a token is a unit vector, and the head holds the transitions. A real server runs it like any other model.
The chat template ends the prompt with a different token for each answer. The question selects it: "scenario-thinking".
Without that word the answer is the text, or two calls if the request has tools. Where a grammar forbids the token that
follows, the model writes the shortest JSON that is allowed; all other tokens are equally likely.
"""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

TEXT = "Hello, wörld 😀."
THOUGHT = "Let me think about it."
ANSWER = "Forty-two, then."
CITIES = ("Paris", "Tokyo")
BEFORE_THE_ERROR = "So far so good: "
CONTEXT = 2**16  # tokens
_FEED_FORWARD = 32
_HEAD = 32
_UNKNOWN, _BEGIN, _END = "<unk>", "<s>", "</s>"
_MARKS = ("<think>", "</think>")
_ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_LOGIT = 60.0  # of the token that follows; of most others it is 0
# After any token: the end, and what closes JSON. They are weaker than the token that follows.
_FORCED_LOGITS = {_END: 30.0, "<0x22>": 25.0, "<0x7B>": 20.0, "<0x7D>": 20.0}


def _call(city: str) -> str:
    call = {"name": "get_weather", "arguments": {"city": city}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


# "endless" repeats until a limit. "broken" has a byte that is not UTF-8 where a call may begin: if the request has
# tools, llama.cpp's server reports that as an error in the stream.
ANSWERS = {
    "text": TEXT,
    "thinking": f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}",
    "calls": "\n".join(map(_call, CITIES)),
    "broken": f"{BEFORE_THE_ERROR}<t\udcff and no more",
    "endless": "on and ever so ",
}
CHAT_TEMPLATE = """\
{%- if tools -%}
<|system|>Tools: {{ tools | tojson }}
To call one, answer with <tool_call>
{"name": "its name", "arguments": {}}
</tool_call>
{%- endif -%}
{%- for message in messages -%}
{{- '<|' + message.role + '|>' -}}
{%- if message.reasoning_content -%}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}{%- endif -%}
{%- if message.content is string -%}{{- message.content -}}{%- endif -%}
{%- if message.tool_calls -%}
{%- for tool_call in message.tool_calls -%}
{%- set tool_call = tool_call.function -%}
{{- '<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' -}}
{{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{%- endif -%}
{%- if message.role == 'assistant' -%}{{- '</s>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{%- set last = messages[-1].content if messages[-1].content is string else '' -%}
{{- '<|assistant|>' -}}
BRANCHES
{%- endif -%}
"""


@dataclass(frozen=True)
class _Vocabulary:
    """The tokens, by id, and which token follows which."""

    tokens: list[str]
    controls: list[str]
    following: dict[int, int]

    @property
    def width(self) -> int:
        return -(-len(self.tokens) // _HEAD) * _HEAD


def _vocabulary() -> _Vocabulary:
    controls = [*_ROLES, *(_prompt_end(name) for name in ANSWERS)]
    tokens = [_UNKNOWN, _BEGIN, _END, *_BYTES, *_MARKS, *controls]
    known = {token: place for place, token in enumerate(tokens)}
    following: dict[int, int] = {}
    for name, answer in ANSWERS.items():
        chain = [_prompt_end(name), *_pieces(answer, known)]
        for piece in chain:
            known.setdefault(piece, len(known))
        ids = [known[piece] for piece in chain]
        ids.append(ids[1] if name == "endless" else known[_END])
        following.update(pairwise(ids))
    return _Vocabulary(list(known), controls, following)


def _prompt_end(name: str) -> str:
    return f"<|says-{name}|>"  # a server takes some names, as <|calls|>, for the end of an answer


def _pieces(text: str, known: dict[str, int]) -> Iterator[str]:
    """The text in tokens that no other answer has, since each token is always followed by the same one."""
    used = set(known)
    for part in re.split("(<think>|</think>|[^\x00-\x7f])", text):
        if part in _MARKS:
            yield part
        elif not part.isascii():
            data = part.encode(errors="surrogateescape")
            yield from (_BYTES[byte] for byte in data)  # a character in pieces, as tokenizers cut it
        elif part:
            pieces = _cut(part.replace(" ", "▁"), used)
            used.update(pieces)
            yield from pieces


def _cut(text: str, used: set[str]) -> list[str]:
    for seed in range(1000):
        lengths = random.Random(seed)
        pieces, rest = [], text
        while rest:
            length = lengths.randint(1, 6)
            pieces.append(rest[:length])
            rest = rest[length:]
        if len(set(pieces)) == len(pieces) and used.isdisjoint(pieces):
            return pieces
    raise ValueError(f"{text!r} cannot be cut into new pieces")


def completion_tokens(name: str) -> int:
    """The number of tokens of an answer, with the end of sequence; "endless" has none."""
    following = _vocabulary().following
    token, count = _vocabulary().tokens.index(_prompt_end(name)), 0
    while token in following:
        token, count = following[token], count + 1
    return count


def chat_template() -> str:
    branches = [
        f"{{%- {'if' if not place else 'elif'} 'scenario-{name}' in last -%}}{{{{- '{_prompt_end(name)}' -}}}}"
        for place, name in enumerate(ANSWERS)
    ]
    calls = "{%- elif tools and messages[-1].role != 'tool' -%}{{- '" + _prompt_end("calls") + "' -}}"
    rest = "{%- else -%}{{- '" + _prompt_end("text") + "' -}}{%- endif -%}"
    return CHAT_TEMPLATE.replace("BRANCHES", "\n".join([*branches, calls, rest]))


def _weights(vocabulary: _Vocabulary) -> dict[str, Any]:
    """The weights under the names that llama's have in a folder of safetensors."""
    import numpy as np

    width, size = vocabulary.width, len(vocabulary.tokens)
    head = np.zeros((size, width), np.float32)
    for token, logit in _FORCED_LOGITS.items():
        head[vocabulary.tokens.index(token)] = logit
    for token, following in vocabulary.following.items():
        head[following, token] = _LOGIT
    head /= width**0.5  # the norm makes the unit vector that long

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    layer = {
        "input_layernorm": np.ones(width, np.float32),
        "post_attention_layernorm": np.ones(width, np.float32),
        "self_attn.q_proj": zeros(_HEAD, width),
        "self_attn.k_proj": zeros(_HEAD, width),
        "self_attn.v_proj": zeros(_HEAD, width),
        "self_attn.o_proj": zeros(width, _HEAD),
        "mlp.gate_proj": zeros(_FEED_FORWARD, width),
        "mlp.up_proj": zeros(_FEED_FORWARD, width),
        "mlp.down_proj": zeros(width, _FEED_FORWARD),
    }
    return {
        "model.embed_tokens.weight": np.eye(size, width, dtype=np.float32),
        "model.norm.weight": np.ones(width, np.float32),
        "lm_head.weight": head,
        **{f"model.layers.0.{name}.weight": value for name, value in layer.items()},
    }


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.0.input_layernorm": "blk.0.attn_norm",
    "model.layers.0.post_attention_layernorm": "blk.0.ffn_norm",
    "model.layers.0.self_attn.q_proj": "blk.0.attn_q",
    "model.layers.0.self_attn.k_proj": "blk.0.attn_k",
    "model.layers.0.self_attn.v_proj": "blk.0.attn_v",
    "model.layers.0.self_attn.o_proj": "blk.0.attn_output",
    "model.layers.0.mlp.gate_proj": "blk.0.ffn_gate",
    "model.layers.0.mlp.up_proj": "blk.0.ffn_up",
    "model.layers.0.mlp.down_proj": "blk.0.ffn_down",
}


def write_gguf(path: Path) -> None:
    """The model as llama.cpp reads it."""
    import gguf

    vocabulary = _vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(vocabulary.width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(_HEAD)
    writer.add_value_length(_HEAD)
    writer.add_rope_dimension_count(_HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(vocabulary.tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_scores([-float(place) for place in range(len(vocabulary.tokens))])
    writer.add_token_types([_gguf_type(token, vocabulary) for token in vocabulary.tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(value=False)
    writer.add_add_space_prefix(value=False)
    writer.add_chat_template(chat_template())
    for name, value in _weights(vocabulary).items():
        writer.add_tensor(f"{_GGUF_NAMES[name.removesuffix('.weight')]}.weight", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_type(token: str, vocabulary: _Vocabulary) -> int:
    from gguf import TokenType

    if token == _UNKNOWN:
        return TokenType.UNKNOWN
    if token in (_BEGIN, _END) or token in vocabulary.controls:
        return TokenType.CONTROL
    if token in _BYTES:
        return TokenType.BYTE
    return TokenType.USER_DEFINED if token in _MARKS else TokenType.NORMAL


def write_folder(folder: Path) -> None:
    """The model as a folder of safetensors with its tokenizer, as mlx-lm reads it."""
    from safetensors.numpy import save_file

    vocabulary = _vocabulary()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_weights(vocabulary), folder / "model.safetensors", metadata={"format": "mlx"})
    special = {_UNKNOWN, _BEGIN, _END, *vocabulary.controls}
    added = [
        {"id": place, "content": token, "special": token in special, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for place, token in enumerate(vocabulary.tokens)
        if token in special or token in _MARKS
    ]
    decoders = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": vocabulary.width,
            "intermediate_size": _FEED_FORWARD,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "head_dim": _HEAD,
            "rms_norm_eps": 1e-6,
            "vocab_size": len(vocabulary.tokens),
            "max_position_embeddings": CONTEXT,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
        "tokenizer.json": {
            "version": "1.0",
            "added_tokens": added,
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {
                "type": "BPE",
                "unk_token": _UNKNOWN,
                "byte_fallback": True,
                "vocab": {token: place for place, token in enumerate(vocabulary.tokens)},
                "merges": [],
            },
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": _UNKNOWN,
            "bos_token": _BEGIN,
            "eos_token": _END,
            "chat_template": chat_template(),
            "clean_up_tokenization_spaces": False,
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), "utf-8")
