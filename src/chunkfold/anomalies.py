"""The catalogue of known deviations from OpenAI's API; `anomaly_log` logs those that a stream triggered.

Whenever chunkfold accepts something that OpenAI's API reference does not describe, it notes a `Rule`. These are never
anomalies: what the event stream standard allows, unknown fields, reasoning fields, the position of usage, `stop`
beside tool calls, and the empty head of the chunk in which Azure reports on the prompt. The code that serves a rule
names its constant: search for `CALL_ID_FRESH` to find what is done about CF304.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """A known deviation.

    Attributes:
        id: CF1xx framing, CF2xx chunk shape, CF3xx tool calls, CF4xx usage, CF5xx end, CF6xx errors.
        sentence: What is sent.
        senders: Who sends it.
        handling: What chunkfold does with it.
    """

    id: str
    sentence: str
    senders: str
    handling: str

    @property
    def example(self) -> bytes:
        """A minimal body that triggers this rule."""
        from chunkfold.rule_examples import example_of  # loaded only if it is read

        return example_of(self.id).body

    def __str__(self) -> str:
        return f"{self.id}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A rule that a stream triggered.

    Attributes:
        rule: The rule.
        count: How often the stream triggered it.
        offset: Where the first event that triggered it starts in the body, in bytes.
        detail: What was found at that place.
    """

    rule: Rule
    count: int
    offset: int
    detail: str

    @property
    def first(self) -> str:
        """The first place, as text: "byte 120: choices[0].delta.role: expected a string, received int"."""
        return f"byte {self.offset}: {self.detail}" if self.detail else f"byte {self.offset}"

    def __str__(self) -> str:
        often = "" if self.count == 1 else f"{self.count} times, first "
        return f"{self.rule} ({often}at {self.first})"


UNFINISHED_BLOCK: Final = Rule(
    "CF101",
    "no blank line ends the last event",
    "gateways that close right after the last field",
    "reads it if it is complete; drops incomplete JSON",
)
SEVERAL_PAYLOADS: Final = Rule(
    "CF102",
    "one block holds several payloads, a line each",
    "proxies that lose blank lines, GitHub Copilot, an old llama.cpp",
    "reads each line as an event of its own",
)
BLANK_DATA: Final = Rule("CF103", "an event with blank data", "relays that use it as a keep-alive", "skips it")
COMMENT_IN_DATA: Final = Rule(
    "CF104", "a comment inside data", "Vertex partner models, gateways", "ignores it as a keep-alive"
)
NULL_DATA: Final = Rule("CF105", "an event whose data is null", "reasoning models behind gateways", "skips it")
FOREIGN_EVENT: Final = Rule(
    "CF106",
    "an event with another name is not a chunk",
    "Azure (keepalive), relays that add metadata or tool progress",
    "skips it",
)
NOT_UTF8: Final = Rule("CF107", "bytes that are not UTF-8", "broken upstreams", "reads them as U+FFFD")
DONE_WITH_BLANKS: Final = Rule("CF108", "[DONE] with blanks around it", "proxies", "reads it as [DONE]")
WHOLE_COMPLETION: Final = Rule(
    "CF109",
    "the body is one JSON completion, not a stream",
    "upstreams that ignore `stream`, mocks",
    "reads it as one chunk",
)
NEARLY_DATA: Final = Rule(
    "CF110",
    "a line that is nearly `data`: a blank around the field's name, capitals, or JSON without the field",
    "Higress, home-made relays",
    "ignores it, as the event stream standard says; reads JSON without the field if it is a chunk",
)
DATA_PREFIX_TWICE: Final = Rule(
    "CF111", "the prefix `data:` is repeated", "servers that frame framed strings", "removes one"
)
DONE_REMNANT: Final = Rule(
    "CF112",
    "an event is only the last character of [DONE]",
    "new-api, if its upstream sends [DONE] without `data:`",
    "ignores it",
)

CHOICES_MISSING: Final = Rule(
    "CF201", "`choices` is null, an empty object or missing", "MiniMax, NagaAI, many gateways", "reads it as empty"
)
DELTA_MISSING: Final = Rule(
    "CF202", "a choice has no delta", "Azure's asynchronous filter, Sansa's errors", "reads it as empty"
)
EMPTY_FOR_ABSENT: Final = Rule(
    "CF203",
    "an empty string, a created of 0, or a word such as `null`, `keepalive` or `thinking_end`, for an absent value",
    "StepFun, MiniMax, DashScope, iFlytek, Mistral, oMLX, Jina",
    "reads it as absent",
)
ROLE_CHANGED: Final = Rule("CF204", "the role changes within the stream", "relays", "keeps assistant, else the first")
ID_CHANGED: Final = Rule(
    "CF205", "the id or the model changes within the stream", "Oracle, OpenRouter, GitHub Copilot", "keeps the first"
)
OBJECT_UNUSUAL: Final = Rule(
    "CF206",
    "`object` is missing or is not chat.completion.chunk",
    "MiniMax, Perplexity, GitHub Copilot, Z.AI, Sansa, NagaAI, mlx-lm",
    "ignores it",
)
FULL_MESSAGE: Final = Rule(
    "CF207",
    "a whole message is sent beside or instead of a delta",
    "Perplexity, MiniMax, HybridAI",
    "fills gaps with it; uses it as the content if no delta carried output",
)
CONTENT_PARTS: Final = Rule(
    "CF208",
    "the content is a list of parts",
    "Mistral",
    "reads text as content and thinking as reasoning; keeps the rest",
)
WRONG_TYPE: Final = Rule("CF209", "a field has a value of the wrong type", "gateways", "keeps the value raw")
INDEX_MISSING: Final = Rule("CF210", "a choice has no index", "Sansa's errors, relays", "reads it as choice 0")
SPLIT_SURROGATES: Final = Rule(
    "CF211",
    "a surrogate pair is split, or half of one is missing",
    "providers that escape characters beyond the BMP and cut between the halves",
    "joins the halves; a lone one becomes U+FFFD",
)
TOO_DEEP: Final = Rule("CF212", "an unknown value is nested deeper than 200", "hostile upstreams", "drops the value")
CONTROL_CHARACTERS: Final = Rule(
    "CF213", "raw control characters in JSON strings", "hand-written encoders", "accepts them"
)
WRAPPED_IN_LIST: Final = Rule("CF214", "the payload is a list of one element", "Google", "unwraps it")
NUMBER_SPELLED: Final = Rule(
    "CF215",
    "a whole number is sent as a string or with a fraction of 0",
    "gateways in loosely typed languages",
    "reads it",
)
HEAD_MISSING: Final = Rule(
    "CF216",
    "no chunk has an id, or none has a creation time, or none has a model",
    "NagaAI, bare gateways",
    "leaves the missing fields None",
)
FIELD_NULL_ITEM: Final = Rule(
    "CF217", "a list of choices or of tool calls contains null", "AgentRouter, relays", "skips it"
)
AUDIO_NOT_BASE64: Final = Rule(
    "CF218", "a piece of audio is not base64 by itself", "servers that cut the encoded text", "joins the texts"
)
UNEXPLAINED_OBJECT: Final = Rule(
    "CF219",
    "an object that is neither a chunk nor an error",
    "relays that report their own state; other APIs",
    "keeps its fields and, after chunks, its usage; without a finish reason the stream is truncated, even after [DONE]",
)
TOOL_MESSAGE: Final = Rule(
    "CF220",
    "a delta has the role tool, function or function_in_progress",
    "MiniMax's search, GigaChat, gateways that run tools",
    "keeps it raw in the choice's `tool_messages`",
)
CHOICE_INDEX_WANDERS: Final = Rule(
    "CF221",
    "a choice has an index other than 0 although one choice was requested",
    "Portkey in front of Cohere, musistudio/llms, GitHub Copilot, OpenCode in front of Claude",
    "reads it as choice 0, with the option `one_choice`",
)
DRAFT: Final = Rule(
    "CF222",
    "a content is a draft of the whole text, which the next one replaces",
    "Inception, if the request has `diffusing`",
    "takes the text that has the finish reason, else the last draft; a chunk has its draft as `diffusion_content`",
)
CONTENT_NOT_TEXT: Final = Rule(
    "CF223",
    "a content is a number, true or false or, in a whole completion, an object",
    "Workers AI",
    "reads it as its JSON text",
)

CALL_INDEX_MISSING: Final = Rule(
    "CF301",
    "a tool call fragment has no index",
    "Gemini, NagaAI, StepFun, Moonshot, old Ollama",
    "identifies the call by id, else by name, or by its place among several",
)
CALL_ID_MADE_UP: Final = Rule(
    "CF302",
    "a tool call never gets an id",
    "Ollama, llama.cpp, relays",
    "makes one up at the end: a hash that no other turn repeats",
)
CALL_ID_NOT_TEXT: Final = Rule("CF303", "a tool call's id is a number", "Poolside", "reads it as text")
CALL_ID_FRESH: Final = Rule(
    "CF304", "a fragment that continues a call has a new id", "Kimi, LM Studio, TensorRT-LLM", "keeps the first id"
)
CALL_INDEX_REUSED: Final = Rule(
    "CF305", "a new tool call has an index that is taken", "Ollama, Groq, bridges to Gemini", "starts a new call"
)
CALL_ID_REUSED: Final = Rule(
    "CF306", "a new tool call has an id that is taken", "LocalAI, new-api, other relays", "starts a new call"
)
CALL_NAME_REPEATED: Final = Rule(
    "CF307", "a tool call's name is repeated", "MiniMax, NVIDIA NIM, bridges to Claude, Mistral", "keeps it once"
)
CALL_NAME_IN_PIECES: Final = Rule(
    "CF308", "a tool call's name arrives in pieces or grows", "some servers", "joins the pieces"
)
CALL_NAME_LATE: Final = Rule("CF309", "another name follows the arguments", "relays", "ignores it")
ARGUMENTS_OBJECT: Final = Rule(
    "CF310",
    "a tool call's arguments are an object, or its text encoded twice",
    "MiniMax, Ollama-like servers; watsonx and vLLM with Granite",
    "keeps the JSON text; `parse` decodes it",
)
ARGUMENTS_PLACEHOLDER: Final = Rule(
    "CF311", "a placeholder {} precedes the real arguments", "bridges", "keeps the text; `parse` drops it"
)
ARGUMENTS_SEVERAL: Final = Rule(
    "CF312",
    "one tool call's arguments are several JSON objects, one after another",
    "servers that give every call the index 0 and no id, or that send the arguments again",
    "keeps the text; `parse` raises ParseError, unless all of them are equal",
)
CALLS_OBJECT: Final = Rule(
    "CF313",
    "`tool_calls` is one object, not a list",
    "Portkey in front of Cohere, iFlytek",
    "reads it as a list of one",
)
CALL_INDEX_CHANGED: Final = Rule(
    "CF314",
    "a fragment without id and name has an index that no call has",
    "Nebius, SGLang, LibreChat, relays in front of DeepSeek",
    "continues the call that lacks arguments, or has only their beginning",
)
CALLS_MISSING: Final = Rule(
    "CF315",
    "the finish reason says that there are tool calls, but there are none",
    "OpenCode in front of GLM, servers whose parser of tool calls fails",
    "keeps the finish reason, and invents no call",
)
CALL_NAME_MISSING: Final = Rule(
    "CF316",
    "a tool call never gets a name",
    "OpenCode in front of DeepSeek, xLLM in front of GLM",
    "keeps it without a name, as one that the client cannot run",
)

ZERO_USAGE: Final = Rule("CF401", "a usage of 0 follows a positive one", "MiniMax, gateways", "keeps the positive one")
TOTAL_TOO_SMALL: Final = Rule(
    "CF402", "usage arrives in parts whose total is too small", "bridges to Claude", "uses prompt + completion as total"
)
COUNT_TOO_LARGE: Final = Rule(
    "CF403", "a count of tokens has more than 64 bits", "hostile upstreams", "keeps the value raw"
)
TOO_MANY_KEYS: Final = Rule(
    "CF404",
    "usage has more than a hundred keys",
    "hostile upstreams",
    "keeps the first hundred of each object, and OpenAI's own keys",
)
USAGE_NAMES: Final = Rule(
    "CF405", "usage has the names input_tokens and output_tokens", "mlx-vlm, bridges", "reads them by OpenAI's names"
)

DONE_MISSING: Final = Rule(
    "CF501", "no [DONE] after the finish reasons", "Cerebras, Perplexity, gateways", "accepts it"
)
FINISH_MISSING: Final = Rule(
    "CF502",
    "[DONE] although a choice has no finish reason",
    "Evolink, Ollama, iFlytek, proxies to Copilot",
    "ends as `done`",
)
FINISHED_TWICE: Final = Rule("CF504", "a choice finishes more than once", "OpenRouter, SGLang", "keeps the last")
OUTPUT_AFTER_FINISH: Final = Rule(
    "CF505",
    "output follows the finish reason",
    "GitHub Copilot, SGLang, Open WebUI",
    "keeps it; if the connection breaks later, the finish reason is ignored",
)
FINISH_UNUSUAL: Final = Rule(
    "CF506", "the finish reason is not one of OpenAI's", "Together, Hugging Face, Zhipu, vLLM", "maps it in `outcome`"
)
LATE_FAULT: Final = Rule(
    "CF507",
    "the transport failed or stalled after every choice had finished",
    "anyone",
    "the stream counts as finished",
)

ERROR_EVENT: Final = Rule(
    "CF601", "an error is sent as an event named `error`", "Groq, LM Studio, Dynamo", "raises APIError"
)
ERROR_FIELD: Final = Rule(
    "CF602", "an error is sent as a field of the event stream", "llama.cpp through 2025", "raises APIError"
)
ERROR_SHAPE: Final = Rule(
    "CF603", "an error is a string, a list or empty", "Hugging Face, text servers, proxies", "raises APIError"
)
ERROR_BARE: Final = Rule(
    "CF604",
    "an error is sent without OpenAI's envelope",
    "vLLM, FastAPI, Cloudflare, watsonx, Baidu, Tencent, AWS, Databricks, proxies",
    "raises APIError",
)
ERROR_BASE_RESP: Final = Rule("CF605", "a base_resp whose status is not 0", "MiniMax", "raises APIError")
ERROR_FINISH: Final = Rule(
    "CF606",
    "a finish reason that means an error",
    "OpenRouter, Sansa, DeepSeek, Zhipu, vLLM, Gemini, Portkey",
    "raises APIError",
)
ERROR_BODY: Final = Rule(
    "CF607", "the body is a JSON error although the status is 200", "gateways, FastFlowLM", "raises APIError"
)
ERROR_INSIDE: Final = Rule(
    "CF608",
    "an error in a choice or in `x_groq`, without a finish reason that means one",
    "OpenRouter and relays of it, Groq",
    "raises APIError",
)
ERROR_BROKEN: Final = Rule(
    "CF609", "an error whose JSON is broken", "transformers' server", "raises APIError with the raw text"
)

RULES: Final[tuple[Rule, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Rule))
