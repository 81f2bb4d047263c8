"""What a finish reason means, whatever word the provider uses for it."""

from enum import StrEnum


class Outcome(StrEnum):
    """Why a choice ended, in one vocabulary; `finish_reason` keeps the provider's word."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    ERROR = "error"
    OTHER = "other"


_WORDS = {
    Outcome.STOP: "stop eos eos_token end end_turn stop_sequence stop_token stop_str complete completed finished done",
    Outcome.LENGTH: (
        "length max_tokens max_token max_length max_new_tokens max_output_tokens max_completion_tokens model_length"
        " token_limit context_length model_context_window_exceeded"
    ),
    Outcome.TOOL_CALLS: "tool_calls tool_call tool_use tool function_call function_calls",
    Outcome.CONTENT_FILTER: (
        "content_filter content_filtered content-filter safety sensitive recitation blocklist prohibited_content spii"
        " refusal guardrail_intervened moderation image_safety"
    ),
    Outcome.ERROR: "error network_error insufficient_system_resource abort",
}
_OUTCOMES = {word: outcome for outcome, words in _WORDS.items() for word in words.split()}


def outcome_of(finish_reason: str | None, *, has_tool_calls: bool = False) -> Outcome | None:
    """The outcome a finish reason stands for; None while the choice is open.

    `stop` beside tool calls means `tool_calls`: several providers, OpenAI with a forced tool among them, say so.
    """
    if not finish_reason:
        return None
    outcome = _OUTCOMES.get(finish_reason.lower(), Outcome.OTHER)
    return Outcome.TOOL_CALLS if outcome is Outcome.STOP and has_tool_calls else outcome
