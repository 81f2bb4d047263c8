"""The catalogue of known deviations from the protocol, and the record of those a stream showed.

Tolerant, but never silent: wherever chunkfold serves something that OpenAI's API reference does not describe, it
notes a `Rule`. Never an anomaly: what the event stream standard allows, unknown fields, reasoning fields, and where
usage stands. A record is bounded: one entry per rule, with a count and the first place.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

_DETAIL: Final = 400  # characters; callers quote values by `excerpt`, which bounds and escapes each


@dataclass(frozen=True, slots=True)
class Rule:
    """A known deviation.

    Attributes:
        id: CF1xx framing, CF2xx chunk shape, CF3xx tool calls, CF4xx usage, CF5xx end, CF6xx errors.
        sentence: What comes.
        senders: Who sends it.
        handling: What chunkfold does with it.
    """

    id: str
    sentence: str
    senders: str
    handling: str

    @property
    def example(self) -> bytes:
        """A body that breaks this rule, made for it."""
        from chunkfold.rule_examples import EXAMPLES

        return EXAMPLES[self.id]

    def __str__(self) -> str:
        """The id and the sentence."""
        return f"{self.id}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A rule that a stream broke.

    Attributes:
        rule: The rule.
        count: How often.
        offset: Where the first event that broke it begins in the body, in bytes.
        detail: What was found there.
    """

    rule: Rule
    count: int
    offset: int
    detail: str

    @property
    def first(self) -> str:
        """The first place, for people: "byte 120: choices[0].delta.role: expected a string, received int"."""
        return f"byte {self.offset}: {self.detail}" if self.detail else f"byte {self.offset}"


class AnomalyLog:
    """What was tolerated so far; at most one entry per rule.

    Attributes:
        offset: Where the event being read begins in the body, in bytes.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._noted: dict[str, Anomaly] = {}
        self._more: Counter[str] = Counter()  # how often again; many chunks may break the same rule
        self._on_first: Callable[[Anomaly], object] | None = None

    def observe(self, on_first: Callable[[Anomaly], object]) -> None:
        """Call `on_first` for each rule that was noted, and from now on whenever one is noted for the first time."""
        self._on_first = on_first
        for anomaly in self.entries():
            on_first(anomaly)

    def note(self, rule: Rule, detail: str = "") -> None:
        """Count one use of a rule."""
        noted = self._noted.get(rule.id)
        if noted is None:
            anomaly = self._noted[rule.id] = Anomaly(rule, 1, self.offset, _shown(detail))
            if self._on_first is not None:
                self._on_first(anomaly)
        else:
            self._more[rule.id] += 1

    def entries(self) -> tuple[Anomaly, ...]:
        """All of them, in the order of their first place."""
        return tuple(replace(noted, count=1 + self._more[key]) for key, noted in self._noted.items())

    def __bool__(self) -> bool:
        """Whether anything was noted."""
        return bool(self._noted)


def _shown(detail: str) -> str:
    """A detail quotes what came: bounded and escaped, like every message."""
    shown = detail if detail.isprintable() else repr(detail)[1:-1]
    return shown if len(shown) <= _DETAIL else shown[:_DETAIL] + "..."


UNFINISHED_BLOCK: Final = Rule(
    "CF101",
    "the last event is not ended by a blank line",
    "gateways that close right after the last field; llama.cpp's server after [DONE]",
    "reads it if it is whole; a beginning of JSON is a cut and dropped",
)
SEVERAL_PAYLOADS: Final = Rule(
    "CF102",
    "one block holds several payloads, a line each",
    "proxies that lose blank lines, GitHub Copilot, an old llama.cpp",
    "reads each line as an event of its own",
)
BLANK_DATA: Final = Rule(
    "CF103", "an event with blank data", "relays that keep the connection alive with it", "skips it"
)
COMMENT_IN_DATA: Final = Rule(
    "CF104", "a comment inside data", "Vertex partner models, gateways", "takes it as a keep-alive"
)
NULL_DATA: Final = Rule("CF105", "an event whose data is null", "reasoning models behind gateways", "skips it")
FOREIGN_EVENT: Final = Rule(
    "CF106",
    "an event of another name that is no chunk",
    "Azure (keepalive), relays that add metadata or tool progress",
    "skips it",
)
NOT_UTF8: Final = Rule("CF107", "bytes that are not UTF-8", "broken upstreams", "reads them as U+FFFD")
DONE_WITH_BLANKS: Final = Rule("CF108", "[DONE] with blanks around it", "proxies", "takes it as [DONE]")
WHOLE_COMPLETION: Final = Rule(
    "CF109",
    "the body is one JSON completion, not a stream",
    "upstreams that ignore `stream`, mocks",
    "reads it as one chunk",
)

CHOICES_MISSING: Final = Rule(
    "CF201", "`choices` is null or missing", "MiniMax, NagaAI, many gateways", "takes it as empty"
)
DELTA_MISSING: Final = Rule(
    "CF202", "a choice has no delta", "Azure's asynchronous filter, Sansa's errors", "takes it as empty"
)
EMPTY_FOR_ABSENT: Final = Rule(
    "CF203",
    "an empty string, or a created of 0, stands for an absent value",
    "Azure, StepFun, MiniMax, DashScope",
    "takes it as absent",
)
ROLE_REPEATED: Final = Rule("CF204", "the role comes more than once", "StepFun, many gateways", "keeps the first")
ID_CHANGED: Final = Rule(
    "CF205", "the id or the model changes within the stream", "Oracle, OpenRouter, GitHub Copilot", "keeps the first"
)
OBJECT_UNUSUAL: Final = Rule(
    "CF206",
    "`object` is missing or is not chat.completion.chunk",
    "Azure, MiniMax, Perplexity, Sansa, NagaAI",
    "ignores it",
)
FULL_MESSAGE: Final = Rule(
    "CF207",
    "a whole message beside or instead of a delta",
    "Perplexity, MiniMax, HybridAI",
    "fills gaps with it; takes it as the content where no delta carried output",
)
CONTENT_PARTS: Final = Rule(
    "CF208", "the content is a list of parts", "Mistral", "takes text as content, thinking as reasoning"
)
WRONG_TYPE: Final = Rule("CF209", "a field has a value of the wrong type", "gateways", "keeps the value raw")
INDEX_MISSING: Final = Rule("CF210", "a choice has no index", "Sansa's errors, relays", "takes it as choice 0")
SPLIT_SURROGATES: Final = Rule(
    "CF211",
    "a surrogate pair is split, or half of one is missing",
    "providers that escape characters beyond the BMP and cut between the halves",
    "joins the halves; a lone one becomes U+FFFD",
)
TOO_DEEP: Final = Rule("CF212", "an unknown value is nested deeper than 200", "hostile upstreams", "drops the value")
CONTROL_CHARACTERS: Final = Rule(
    "CF213", "raw control characters in JSON strings", "hand-written encoders", "takes them as they are"
)
WRAPPED_IN_LIST: Final = Rule("CF214", "the payload is a list of one element", "Google", "unwraps it")
NUMBER_SPELLED: Final = Rule(
    "CF215",
    "a whole number comes as a string or with a fraction of 0",
    "gateways in loosely typed languages",
    "reads it",
)
HEAD_MISSING: Final = Rule(
    "CF216", "no chunk had an id, a model or a creation time", "NagaAI, bare gateways", "leaves them None"
)
FIELD_NULL_ITEM: Final = Rule("CF217", "a list of tool calls has a null in it", "relays", "skips it")
AUDIO_NOT_BASE64: Final = Rule(
    "CF218", "a piece of audio is not base64 by itself", "servers that cut the encoded text", "joins the texts"
)

CALL_INDEX_MISSING: Final = Rule(
    "CF301", "a tool call fragment has no index", "Gemini, NagaAI, StepFun, old Ollama", "goes by id, else by name"
)
CALL_ID_MADE_UP: Final = Rule(
    "CF302", "a tool call never got an id", "Ollama, llama.cpp, relays", "makes one up at the end: call_0, call_1"
)
CALL_ID_NOT_TEXT: Final = Rule("CF303", "a tool call's id is a number", "Poolside", "reads it as text")
CALL_ID_FRESH: Final = Rule(
    "CF304", "a fragment that continues a call has a new id", "Kimi, LM Studio", "keeps the first id"
)
CALL_INDEX_REUSED: Final = Rule(
    "CF305", "a new tool call has an index that is taken", "Ollama, Groq, bridges to Gemini", "starts a new call"
)
CALL_ID_REUSED: Final = Rule("CF306", "a new tool call has an id that is taken", "relays", "starts a new call")
CALL_NAME_REPEATED: Final = Rule(
    "CF307", "a tool call's name is repeated", "MiniMax, NVIDIA NIM, bridges to Claude, Mistral", "keeps it once"
)
CALL_NAME_IN_PIECES: Final = Rule(
    "CF308", "a tool call's name comes in pieces or grows", "some servers", "joins the pieces"
)
CALL_NAME_LATE: Final = Rule("CF309", "another name comes after the arguments", "relays", "ignores it")
ARGUMENTS_OBJECT: Final = Rule(
    "CF310", "a tool call's arguments are an object, not text", "MiniMax, Ollama-like servers", "takes its JSON text"
)
ARGUMENTS_PLACEHOLDER: Final = Rule(
    "CF311", "a placeholder {} comes before the real arguments", "bridges", "keeps the text; `parse` drops it"
)

ZERO_USAGE: Final = Rule(
    "CF401", "a usage of 0 comes after a positive one", "MiniMax, gateways", "keeps the positive one"
)
TOTAL_TOO_SMALL: Final = Rule(
    "CF402", "usage comes in parts whose total is too small", "bridges to Claude", "takes prompt + completion as total"
)

DONE_MISSING: Final = Rule(
    "CF501", "no [DONE] after the finish reasons", "Cerebras, Perplexity, gateways", "accepts it"
)
FINISH_MISSING: Final = Rule(
    "CF502", "[DONE] although a choice has no finish reason", "Evolink, Ollama, proxies to Copilot", "ends as `done`"
)
STOP_WITH_CALLS: Final = Rule(
    "CF503",
    "the finish reason is stop although there are tool calls",
    "OpenAI (forced tools), Gemini, Cohere, SGLang",
    "outcome: tool_calls",
)
FINISHED_TWICE: Final = Rule("CF504", "a choice finishes more than once", "OpenRouter, SGLang", "keeps the last")
OUTPUT_AFTER_FINISH: Final = Rule("CF505", "output comes after the finish reason", "GitHub Copilot, SGLang", "keeps it")
FINISH_UNUSUAL: Final = Rule(
    "CF506", "the finish reason is none of OpenAI's", "Together, Hugging Face, Zhipu, vLLM", "maps it in `outcome`"
)
LATE_FAULT: Final = Rule(
    "CF507",
    "the transport failed or stalled after every choice had finished",
    "anyone",
    "the stream counts as finished",
)

ERROR_EVENT: Final = Rule("CF601", "an error as an event of that name", "Groq, LM Studio, bridges", "raises APIError")
ERROR_FIELD: Final = Rule(
    "CF602", "an error as a field of the event stream", "llama.cpp through 2025", "raises APIError"
)
ERROR_SHAPE: Final = Rule(
    "CF603", "an error that is a string, a list or empty", "Hugging Face, text servers, proxies", "raises APIError"
)
ERROR_BARE: Final = Rule("CF604", "an error object without an envelope", "vLLM, FastAPI, proxies", "raises APIError")
ERROR_BASE_RESP: Final = Rule("CF605", "a base_resp whose status is not 0", "MiniMax", "raises APIError")
ERROR_FINISH: Final = Rule(
    "CF606", "a finish reason that means an error", "OpenRouter, Sansa, DeepSeek, Zhipu, vLLM", "raises APIError"
)
ERROR_BODY: Final = Rule("CF607", "a JSON error as the body, although the status is 200", "gateways", "raises APIError")

RULES: Final[tuple[Rule, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Rule))
