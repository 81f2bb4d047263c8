"""Derive the HTTP status that an error inside a stream means.

It comes from the body alone, since the response's own is 200: a number first, then the words of `code` and `type`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from chunkfold.excerpts import printed
from chunkfold.json_text.values import is_integer, is_list, is_object
from chunkfold.wire.repairs import whole_number

_LONGEST_WORD: Final = 100  # characters; a longer one is in no table
NUMBER_NAMES: Final = (
    *("code", "status_code", "status", "http_code", "http_status_code", "raw_status_code", "statusCode", "httpCode"),
)
"""The names of a number that is, or may be, an HTTP status."""
_WORD_NAMES: Final = ("code", "type", "__type", "status", "error_type", "finish_reason", "native_finish_reason")


def status_of(value: Any, raw: Any) -> int | None:
    """The HTTP status that an error means, given its value and the whole JSON that it is in."""
    parts = [part for part in (value, raw) if is_object(part)]
    for part in parts:
        for name in NUMBER_NAMES:
            status = leading_number(part.get(name))
            if 400 <= status <= 599:
                return status
    words = list(_words(parts))
    meant = next(filter(None, map(_status_of_word, words)), None)
    if is_object(raw) and raw.get("success") is False and raw.get("errors"):
        return meant  # Cloudflare's numbers are its own
    if meant in (None, 500):  # iFlytek's and 302.AI's type is `api_error`
        meant = next((_PRECISE_STATUS[word] for word in words if word in _PRECISE_STATUS), meant)
    if meant is not None:
        return meant
    # After the words: Mistral's numbers have other meanings, and always a type beside them.
    numbers = _MINIMAX_STATUS if is_object(raw) and is_object(raw.get("base_resp")) else _ZHIPU_STATUS
    if any(is_list(part.get("details")) for part in parts):
        numbers = _GRPC_STATUS
    return next((numbers[word] for word in words if word in numbers), None)


def leading_number(value: Any) -> int:
    """The integer that a status is or begins with: ChatAnywhere's code is Spring's `429 TOO_MANY_REQUESTS`."""
    return code_of(value.strip().partition(" ")[0] if isinstance(value, str) else value)


def _status_of_word(word: str) -> int | None:
    word = word.rpartition("#")[2]  # of AWS, with a namespace: com.amazon.coral.service#ThrottlingException
    # A second part only says more: DashScope's Throttling.RateQuota, Gemini's function_call_filter: MALFORMED.
    first = re.split("[.:]", word, maxsplit=1)[0]
    words = (_normalised(word), _normalised(first))
    spellings = (spelling for one in words for spelling in (one, one.removesuffix("error")))
    return next((_WORD_STATUS[spelling] for spelling in spellings if spelling in _WORD_STATUS), None)


def _words(parts: list[dict[str, Any]]) -> Iterator[str]:
    for part in parts:
        metadata = part.get("metadata")
        inner = metadata.get("error_type") if is_object(metadata) else None
        names = (part.get(name) for name in _WORD_NAMES)
        yield from (printed(word)[:_LONGEST_WORD] for word in (*names, inner) if isinstance(word, str | int))


def _normalised(word: str) -> str:
    """`RateLimitException`, `rate_limit` and `rate-limit` are one word."""
    return "".join(filter(str.isalnum, word.lower())).removesuffix("exception")


def code_of(value: Any) -> int:
    """The integer that a code is or spells, such as an HTTP status or a provider's own (Zhipu has 1113); 0 if none."""
    return value if is_integer(value) else whole_number(value) or 0


def _by_word(words_of: dict[int, str]) -> dict[str, int]:
    return {_normalised(word): status for status, words in words_of.items() for word in words.split()}


def _by_number(numbers_of: dict[int, str]) -> dict[str, int]:
    return {number: status for status, numbers in numbers_of.items() for number in numbers.split()}


# Words of OpenAI, Azure, Anthropic, Google and others with gRPC, AWS, LiteLLM, Mistral, Cerebras, Databricks, Tencent,
# Baidu, DashScope, Volcengine, Groq, Together, OpenRouter, xAI, StepFun, GitHub Copilot, GitHub Models, ChatGPT's
# plans, OpenCode's, Cline, Lemonade, CLIProxyAPI, Hugging Face and the relays built from one-api. xAI has gRPC's
# sentences for its words. Those that end in `error` here mean nothing without it; others may have it at their end.
_WORD_STATUS: Final = _by_word(
    {
        400: "invalid_request bad_request invalid_argument failed_precondition context_length_exceeded"
        " tool_use_failed json_validate_failed invalid_prompt content_policy_violation content_filter validation"
        " invalid_parameter unsupported_value unsupported_parameter data_inspection_failed invalid_value"
        " string_above_max_length invalid_parameter_value exceed_context_size missing_thought_signature"
        " max_tokens_exceeded token_limit_exceeded string_too_long invalid_image image_too_large image_download_failed"
        " client_specified_an_invalid_argument operation_was_attempted_past_the_valid_range"
        " the_system_is_not_in_a_state_required_for_the_operation's_execution"
        " out_of_range context_window_exceeded unsupported_params arrearage unsafe_request unknown_model"
        " operation_not_supported",
        401: "authentication invalid_api_key unauthorized unauthenticated invalid_authentication auth_failure"
        " the_request_does_not_have_valid_authentication_credentials",
        402: "payment_required billing insufficient_credit insufficient_credits insufficient_balance"
        " billing_insufficient_balance failed_operation.resource_pack_exhausted"
        " failed_operation.free_resource_pack_exhausted failed_operation.service_stop_arrears",
        403: "permission permission_denied forbidden access_denied insufficient_user_quota account_overdue_error"
        " the_caller_does_not_have_permission_to_execute_the_specified_operation"
        " model.access_denied workspace.access_denied app.access_denied no_access",
        404: "not_found model_not_found resource_not_found resource_does_not_exist model_not_loaded"
        " some_requested_entity_was_not_found deployment_not_found",
        408: "request_timeout model_timeout",
        409: "conflict aborted the_operation_was_aborted already_exists"
        " some_entity_that_we_attempted_to_create_already_exists",
        412: "precondition_failed",
        413: "request_too_large payload_too_large tokens_limit_reached",
        422: "unprocessable_entity unprocessable",
        429: "rate_limit rate_limit_exceeded rate_limit_reached exceeded_current_quota rate_limited"
        " too_many_requests resource_exhausted insufficient_quota quota_exceeded spend_limit_exceeded throttling"
        " credit_balance_exhausted organization_spend_limit_exceeded project_spend_limit_exceeded"
        " organization_usage_limit_exceeded"
        " throttled request_limit_exceeded model_not_ready tokens requests queue_exceeded"
        " service_tier_capacity_exceeded some_resource_has_been_exhausted limit_requests limit_burst_rate"
        " rpm_rate_limit_exceeded tpm_rate_limit_exceeded too_many_tokens token_quota_exceeded request_quota_exceeded"
        " user_model_rate_limited user_global_rate_limited user_weekly_rate_limited integration_rate_limited"
        " usage_limit_reached model_cooldown"
        " agent_mode_limit_exceeded upstream_provider_rate_limit rate_limit_total_qps rate_limit_search_total_qps"
        " rate_limit_search_qps quota_user_daily_request quota_user_daily_free"
        " exceed_token_quota_limit exceed_concurrent_request_limit failed_operation.engine_server_limit_exceeded"
        " model_account_rpm_rate_limit_exceeded model_account_tpm_rate_limit_exceeded"
        " model_account_ipm_rate_limit_exceeded api_account_rpm_rate_limit_exceeded account_rate_limit_exceeded"
        " request_burst_too_fast inflight_batchsize_exceeded set_limit_exceeded dynamic_request_limited"
        " dynamic_token_limited free_usage_limit go_usage_limit",
        451: "censorship_blocked",
        500: "server internal internal_server api unknown model_stream_error malformed_function_call"
        " function_call_filter malformed_response unexpected_tool_call too_many_tool_calls malformed_tool_use"
        " malformed_model_output do_request_failed get_channel_failed read_response_body_failed bad_response_body"
        " bad_response empty_response aws_invoke failed_operation.engine_server_error system_error model_service_failed"
        " rewrite_failed response_timeout internal_service_error incomplete_generation"
        " unrecoverable_data_loss_or_corruption data_loss api_connection",
        501: "unimplemented operation_is_not_implemented_or_not_supported",
        502: "bad_gateway gateway provider upstream network upstream_http2_stream stream stream_initialization_failed"
        " streaming",
        503: "service_unavailable unavailable temporarily_unavailable engine_overloaded overloaded"
        " model_overloaded server_overloaded provider_overloaded provider_unavailable insufficient_system_resource"
        " capacity capacity_exceeded server_is_overloaded slow_down server_high_load"
        " the_service_is_currently_unavailable channel_no_available_key model_serving_error model_unavailable",
        504: "gateway_timeout upstream_timeout api_timeout deadline_exceeded timeout stream_timeout"
        " gateway_stream_timeout channel_response_time_exceeded failed_operation.engine_request_timeout"
        " deadline_expired_before_operation_could_complete",
    }
)
# Numbers of iFlytek and, below 0, of 302.AI.
_PRECISE_STATUS: Final = _by_number(
    {
        400: "10003 10004 10005 10013 10014 10019 10021 10163 10907 -10009",
        401: "-10001 -10002 -10005",
        402: "-10004 -10006",
        403: "10015 10016 11200 -10013",
        429: "10006 10007 11201 11202 11203 -10007 -10012 -10018",
        500: "10010 10011 10012",
        502: "10009 10222",
        503: "10008 10110 -10008",
        504: "-1024",
    }
)
# Numbers in `base_resp`.
_MINIMAX_STATUS: Final = _by_number(
    {
        400: "1026 1027 1042 2013",
        401: "1004 2049",
        402: "1008",
        429: "1002 1039 1041 2045 2056",
        500: "1000 1013 1024 1033",
        504: "1001",
    }
)
# gRPC's numbers, in an error as gRPC has it, with a list of details: SenseNova, Grok's website, grpc-gateway.
_GRPC_STATUS: Final = _by_number(
    {
        400: "3 9 11",
        401: "16",
        403: "7",
        404: "5",
        409: "6 10",
        429: "8",
        500: "2 13 15",
        501: "12",
        503: "14",
        504: "4",
    }
)
# Numbers in an `error`, three of SiliconFlow's, and CLOVA Studio's that are worth a retry.
_ZHIPU_STATUS: Final = _by_number(
    {
        400: "1210 1212 1213 1214 1215 1261 1300 1301",
        401: "1000 1001 1002 1003 1004",
        402: "1113",
        403: "1110 1111 1112 1121 1220 1309 1311",
        404: "1211 1221 1222",
        408: "40800",
        429: "42900 42901 1302 1303 1304 1305 1308 1310 1312 1313 1316 1317 1318 1319 1320 1321",
        500: "1120 1200 1230 1234",
        503: "50505 50508 50603",
    }
)
