"""Map finish reasons to outcomes, whatever word the provider uses."""

import re
from enum import StrEnum


class Outcome(StrEnum):
    """Why a choice ended, in the same words for all providers; `finish_reason` is the word as sent."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    ERROR = "error"
    OTHER = "other"


_WORDS = {
    Outcome.STOP: (
        "stop eos eos_token end end_turn stop_sequence stop_token stop_str complete completed finished done normal"
    ),
    Outcome.LENGTH: (
        "length max_tokens max_token max_length max_new_tokens max_output_tokens max_completion_tokens model_length"
        " token_limit context_length model_context_window_exceeded error_limit time_limit"
    ),
    Outcome.TOOL_CALLS: "tool_calls tool_call tool_use tool function_call function_calls",
    Outcome.CONTENT_FILTER: (
        "content_filter content_filtered safety sensitive recitation blocklist prohibited_content spii"
        " refusal guardrail_intervened moderation image_safety image_recitation image_prohibited_content language"
        " error_toxic blacklist model_armor"
    ),
    Outcome.ERROR: (
        "error failed network_error insufficient_system_resource abort aborted timeout cancelled canceled"
        " engine_overloaded malformed_function_call function_call_filter malformed_response unexpected_tool_call"
        " too_many_tool_calls missing_thought_signature error_finish recover_stop malformed_tool_use"
        " malformed_model_output"
    ),
}
_OUTCOMES = {word: outcome for outcome, words in _WORDS.items() for word in words.split()}
_LONGEST_WORD = 100  # characters; a longer one is in no table
# No end (CF203): iFlytek and relays in front of DashScope write "null", some gateways "None". Jina's DeepSearch reports
# the end of its thinking.
_ABSENT = ("", "null", "none", "thinking_end")


def outcome_of(finish_reason: str | None, *, has_tool_calls: bool = False) -> Outcome | None:
    """The outcome a finish reason stands for; None while the choice is open, and for words such as `null`.

    Any word that ends in `_error` means an error, which fails the stream (`find_error` in `wire/envelopes`). Words
    after a colon are only a detail (Gemini's `content_filter: RECITATION`). Known words may have hyphens or blanks for
    underscores. `stop` beside tool calls means `tool_calls`: several providers send it, among them OpenAI if a tool was
    forced.
    """
    if finish_reason is None:
        return None
    outcome = _OUTCOMES.get(finish_reason)
    if outcome is None:
        if len(finish_reason) < _LONGEST_WORD and finish_reason.strip().lower() in _ABSENT:
            return None
        if len(finish_reason) > 2 * _LONGEST_WORD:
            finish_reason = finish_reason[:_LONGEST_WORD] + finish_reason[-_LONGEST_WORD:]
        word = finish_reason.lower().partition(":")[0].strip()
        outcome = Outcome.ERROR if word.endswith("_error") else _OUTCOMES.get(re.sub("[- ]", "_", word), Outcome.OTHER)
    return Outcome.TOOL_CALLS if outcome is Outcome.STOP and has_tool_calls else outcome
