"""Classify failures of an attempt: no credit, context window full, unknown model, temporary error.

A failure inside a stream is classified like the same failure outside one: by the status that its
code or type stands for. Codes and types take precedence; message text is used only if a service
provides nothing else. Must never decide what to do next (see `retry`).
"""

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.models import Model
from clew.core.regex import lazy_pattern
from clew.providers.base import Failure, ModelRequest, ThinkingBudget
from clew.providers.request_body import choose_output_limit

# Statuses after which the next attempt may succeed. Those above 504 come from proxies in front of a
# service: Cloudflare's 520 to 524 and 530, Anthropic's 529.
RETRIED_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 530})

# Google's reason for rejecting a key.
INVALID_KEY = "apikeyinvalid"
# The status that an error's type or code stands for, normalized by `simple`. Anthropic's types,
# OpenAI's codes, Google's google.rpc.Code, Bedrock's exceptions, vLLM's classes.
STATUS_OF_NAME = {
    "api": 500,
    "server": 500,
    "internal": 500,
    "internalserver": 500,
    "unknown": 500,
    "overloaded": 529,
    "slowdown": 503,
    "unavailable": 503,
    "serviceunavailable": 503,
    "providerunavailable": 503,
    "timeout": 504,
    "gatewaytimeout": 504,
    "deadlineexceeded": 504,
    "vectorstoretimeout": 504,
    "modeltimeout": 408,
    "aborted": 409,
    "conflict": 409,
    "ratelimit": 429,
    "ratelimitexceeded": 429,
    "toomanyrequests": 429,
    "throttling": 429,
    "modelnotready": 429,
    "resourceexhausted": 429,
    # The model failed while responding; Bedrock's own status for it is 424.
    "modelstream": 500,
    "model": 424,
    "billing": 402,
    "insufficientquota": 402,
    "authentication": 401,
    "unauthenticated": 401,
    INVALID_KEY: 401,
    "permission": 403,
    "permissiondenied": 403,
    "accessdenied": 403,
    "notfound": 404,
    "modelnotfound": 404,
    "resourcenotfound": 404,
    "invalidrequest": 400,
    "invalidargument": 400,
    "badrequest": 400,
    "failedprecondition": 400,
    "validation": 400,
    "invalidprompt": 400,
    "servicequotaexceeded": 400,
    "contentfilter": 400,
    "requesttoolarge": 413,
}

# Codes and types for missing credit. Waiting does not help.
_NO_CREDIT_NAMES = frozenset(
    {
        "insufficientquota",  # OpenAI, Azure, and most compatible services
        "billing",
        "billingnotactive",
        "billinghardlimitreached",
        "exceededcurrentquota",  # Moonshot
        "insufficientcredits",
        "insufficientbalance",
        "paymentrequired",
    }
)
_NO_CREDIT_DETAILS = ("spend_limit", "billing", "credit")
_NO_CREDIT_WORDS = (
    "spend limit",
    "usage limits",
    "credit balance",
    "extra usage is required",
    "insufficient balance",
    "insufficient credit",
    "requires more credits",
    "billing hard limit",
    "check your plan and billing",
)
NO_CREDIT = "the account has no credit or has reached its spending limit"
DAY_IS_USED_UP = "the daily quota is used up"
NOT_INCLUDED = "the account has no quota for this model"

# The categories used in transcripts, hooks and the SDK, by status.
_CATEGORY_OF_STATUS = {
    400: "invalid_request",
    401: "authentication_failed",
    402: "billing_error",
    403: "authentication_failed",
    404: "model_not_found",
    413: "invalid_request",
    422: "invalid_request",
    429: "rate_limit",
    529: "overloaded",
}
_LETTERS = lazy_pattern(r"[^a-z]")
_ENDINGS = lazy_pattern(r"(?:exception|error)+$")
_AFFORDED = lazy_pattern(r"can only afford (\d{1,12})", re.I)
# "max_tokens: 64001 > 64000" (Anthropic), "This model supports at most 16384 completion tokens".
_LONGEST = lazy_pattern(
    r"max_(?:completion_)?tokens: \d{1,12} > (\d{1,12})"
    r"|supports at most (\d{1,12}) completion tokens",
    re.I,
)
# Matches error messages about an unsupported version: `anthropic-version: "2026-10-21" is not a
# valid version`, or with `anthropic_version`, which is a field of the body.
_VERSION = lazy_pattern(r"anthropic[-_]version", re.I)
# Matches error messages about an unknown field of the body: `diagnostics: Extra inputs are not
# permitted`, `Unknown parameter: 'diagnostics'`.
# How services say that a model cannot call tools: Ollama, Bedrock, xAI and DeepSeek; Groq,
# Together; OpenRouter; vLLM and llama.cpp, which must be started with an option for tools.
_NO_TOOLS = lazy_pattern(
    r"does(?:n't|n`t| not) (?:currently )?support (?:tools?\b|tool[ _]|function call)"
    r"|(?:tools?|tool use|tool calling|function calling)[`'\"]? (?:is|are) not supported"
    r" (?:with|by|for|on) th(?:is|e) model"
    r"|no endpoints found that support tool use"
    r"|requires --enable-auto-tool-choice|tools param requires --jinja",
    re.I,
)
_DIAGNOSTICS = lazy_pattern(r"\bdiagnostics\b", re.I)
# A server that is still loading its model responds with 503: llama.cpp's "Loading model".
_BUSY_WORDS = ("overloaded", "loading model", "currently loading")


def find_effective_status(failure: Failure) -> int | None:
    """Return the HTTP status of a failure, or the equivalent status for one inside a stream.

    Return None if no status is known or equivalent.
    """
    if failure.kind != "error_event" and failure.status is not None:
        return _by_name(failure) if failure.status in (400, 424) else failure.status
    code = failure.error_code or ""
    if len(code) == 3 and code.isdecimal() and code.isascii():
        return int(code)
    statuses = (STATUS_OF_NAME.get(simple(n)) for n in (failure.error_type, failure.error_code))
    return next((status for status in statuses if status is not None), None)


def _by_name(failure: Failure) -> int | None:
    """Return the failure's status, replaced by an equivalent if the type or code is more precise.

    Bedrock reports all errors of a model with 424, and Google rejects an invalid key with 400.
    Return None if the failure has no status.
    """
    if failure.status == 424:
        return STATUS_OF_NAME.get(simple(failure.error_type), 424)
    return 401 if simple(failure.error_code) == INVALID_KEY else failure.status


def simple(name: str | None) -> str:
    """Normalize a type or code: `rate_limit_error` and `RateLimitError` become `ratelimit`."""
    return _ENDINGS.sub("", _LETTERS.sub("", (name or "").lower()))


def is_unauthenticated(failure: Failure) -> bool:
    """Return whether the service rejected the credentials, so that new ones may help."""
    return find_effective_status(failure) == 401


def is_busy(failure: Failure) -> bool:
    """Return whether the service is rate limiting or overloaded (429, 529, or equivalent)."""
    return find_effective_status(failure) == 429 or is_overload(failure)


def is_overload(failure: Failure) -> bool:
    """Return whether the service is overloaded, or the model is still loading."""
    status = find_effective_status(failure)
    if status == 529 or simple(failure.error_type) == "overloaded":
        return True
    text = failure.message.lower()
    return status == 503 and any(words in text for words in _BUSY_WORDS)


def is_unnamed(failure: Failure) -> bool:
    """Return whether a stream reported an error whose type and code are missing or unknown."""
    return failure.kind == "error_event" and find_effective_status(failure) is None


def is_missing_model(failure: Failure) -> bool:
    """Return whether the service does not have the model.

    Only some services report this in a field. For the others, the message is searched.
    """
    if find_effective_status(failure) != 404:
        return False
    return simple(failure.error_type) == "notfound" or "model" in failure.message.lower()


def why_no_credit(failure: Failure) -> str | None:
    """Return the reason why waiting does not help (credit or daily quota), or None."""
    details = failure.details or {}
    quota = str(details.get("quotaId", ""))
    if "PerDay" in quota:  # Google's QuotaFailure names the limit that was reached.
        return DAY_IS_USED_UP
    if quota and str(details.get("quotaValue", "")) == "0":
        return NOT_INCLUDED
    names = (simple(failure.error_type), simple(failure.error_code))
    code = str(details.get("error_code", ""))
    if any(name in _NO_CREDIT_NAMES for name in names):
        return NO_CREDIT
    status = find_effective_status(failure)
    if status == 402 or any(word in code for word in _NO_CREDIT_DETAILS):
        return NO_CREDIT
    if names[0] == "resourceexhausted" or status not in (None, 400, 403, 429):
        # Google says "check your plan and billing" for every limit, including per-minute limits.
        return None
    text = failure.message.lower()
    return NO_CREDIT if any(words in text for words in _NO_CREDIT_WORDS) else None


def find_affordable_output(failure: Failure) -> int | None:
    """Return the longest response that the service would allow, or None if it names no limit."""
    match = _AFFORDED.search(failure.message) or _LONGEST.search(failure.message)
    return None if match is None else int(next(filter(None, match.groups())))


def refuses_version(failure: Failure) -> bool:
    """Return whether the service rejected the request because of its API version."""
    return find_effective_status(failure) in (400, 422) and bool(_VERSION.search(failure.message))


def refuses_diagnostics(failure: Failure) -> bool:
    """Return whether the service rejected the comparison with the previous request."""
    return find_effective_status(failure) in (400, 422) and bool(
        _DIAGNOSTICS.search(failure.message)
    )


def refuses_tools(failure: Failure) -> bool:
    """Return whether the service rejected the request because the model cannot call tools."""
    return find_effective_status(failure) in (400, 404, 422, 500) and bool(
        _NO_TOOLS.search(failure.message)
    )


def category_of(failure: Failure) -> str:
    """Return the failure's category, one of those used in transcripts, hooks and the SDK."""
    if why_no_credit(failure) is not None:
        return "billing_error"
    if is_overload(failure):
        return "overloaded"
    status = find_effective_status(failure)
    if status is None or status == 200:
        return "unknown"
    return _CATEGORY_OF_STATUS.get(status, "server_error" if status >= 500 else "unknown")


# Handle a request that does not fit the model's context window: limit the output once, or compact.


SAFETY_TOKENS = 1_000
MIN_OUTPUT_TOKENS = 3_000
TOO_LARGE_STATUS = 413

# Each service's error message, with the prompt's length and the window's size if they are given.
# The patterns are compiled only after a failure.
_A = r"(?P<input>\d[\d,_]{0,14})"
_B = r"(?P<limit>\d[\d,_]{0,14})"
_WORDINGS = (
    # Anthropic, if the prompt fits, but not together with the maximum output.
    rf"input length and `?max_tokens`? exceed context limit:\s*{_A}\s*\+\s*[\d,_]+\s*>\s*{_B}",
    # Anthropic
    rf"prompt is too long(?::\s*{_A} tokens? > {_B})?",
    # OpenAI (with the parts listed), OpenRouter
    rf"maximum context length is {_B} tokens.{{0,200}}?requested (?:about )?[\d,_]+ tokens "
    rf"\({_A} (?:in (?:the|your) (?:messages|prompt)|of text input)",
    # OpenAI, vLLM, DeepSeek, most services compatible with chat completions
    rf"maximum context length is {_B} tokens"
    rf"(?:.{{0,200}}?(?:resulted in|requested(?: about)?|request has|passed) {_A}(?: input)? tokens)?",
    # OpenAI, responses
    r"input exceeds the context window of this model",
    # Google
    rf"input token count (?:of )?(?:\({_A}\) )?exceeds the maximum number of tokens allowed"
    rf"(?: \({_B}\))?",
    rf"input token count is {_A} but model only supports up to {_B}",
    # Bedrock
    r"input is too long for requested model",
    # Mistral
    rf"prompt contains {_A} tokens.{{0,60}}? too large for model with {_B} maximum context length",
    # Ollama
    r"prompt too long; exceeded (?:max )?context length",
    r"input length exceeds the context length",
    # llama.cpp; versions before 2026 report the counts in separate fields
    rf"request (?:\({_A} tokens\) )?exceeds the available context size(?: \({_B} tokens\))?",
    # LM Studio
    r"tokens to keep from the initial prompt is greater than the context length",
    rf"loaded with (?:a )?context length of only {_B} tokens",
    # xAI
    rf"maximum prompt length is {_B}(?: but the request contains {_A} tokens)?",
    # Groq
    r"reduce the length of the messages",
    # Together
    rf"input \({_A} tokens\) is longer than the model'?s context length \({_B} tokens\)",
    # GitHub Copilot
    rf"prompt token count of {_A} exceeds the limit of {_B}",
    # MiniMax
    r"context window exceeds limit",
    # Moonshot
    rf"exceeded model token limit: {_B}(?: \(requested: {_A}\))?",
    # DashScope
    rf"range of input length should be \[\d+, {_B}\]",
)
# The per-minute limit is smaller than this one request, so waiting does not help (OpenAI, Groq).
_ABOVE_A_MINUTE = lazy_pattern(
    rf"request too large for .{{0,200}}tokens per min.{{0,40}}Limit {_B}, Requested {_A}",
    re.I | re.S,
)
# Codes and types for a full context window, normalized by `simple`.
_NAMES = frozenset({
    "contextlengthexceeded", "exceedcontextsize", "modelcontextwindowexceeded",
    "promptexceedslimit",
})  # fmt: skip
# With these statuses, the length of the session is not the problem.
_OTHER_STATUSES = frozenset({401, 402, 403, 404, 429})


class Overflow(Struct, frozen=True, kw_only=True):
    """A request that did not fit: the length of its input and the size of the window, if known."""

    input_tokens: int | None = None
    limit_tokens: int | None = None


def overflow_of(failure: Failure) -> Overflow | None:
    """Return the overflow that a failure reports, or None if it has another cause."""
    if exceeded := _ABOVE_A_MINUTE.search(failure.message):
        above = _overflow(exceeded, failure)
        return above if (above.input_tokens or 0) > (above.limit_tokens or 0) else None
    status = find_effective_status(failure)
    if status in _OTHER_STATUSES:
        return None
    for wording in _WORDINGS:
        if match := re.search(wording, failure.message, re.I | re.S):
            return _overflow(match, failure)
    is_named = simple(failure.error_code) in _NAMES or simple(failure.error_type) in _NAMES
    return _overflow(None, failure) if is_named or status == TOO_LARGE_STATUS else None


def _overflow(match: re.Match[str] | None, failure: Failure) -> Overflow:
    """Return the overflow with the counts from the message or from llama.cpp's own fields."""
    groups = {} if match is None else match.groupdict()
    details = failure.details or {}
    return Overflow(
        input_tokens=_number(groups.get("input")) or _count(details.get("n_prompt_tokens")),
        limit_tokens=_number(groups.get("limit")) or _count(details.get("n_ctx")),
    )


def room_for_output(input_tokens: int, limit_tokens: int) -> int | None:
    """Return the maximum output that fits, or None if too little space is left.

    If the result is None, only compaction helps. In a small window, the required minimum is a
    fraction of the window.
    """
    room = limit_tokens - input_tokens - min(SAFETY_TOKENS, limit_tokens // 20)
    return room if room >= min(MIN_OUTPUT_TOKENS, limit_tokens // 8) else None


def fit_request(request: ModelRequest, model: Model) -> ModelRequest | Overflow:
    """Return the request with its output limited to the window, or the overflow.

    An overflow is returned if too little space is left for the output.
    """
    counted, window = request.input_tokens, model.context_window
    if counted is None or window is None:
        return request
    room = room_for_output(counted, window)
    if room is None:
        return Overflow(input_tokens=counted, limit_tokens=window)
    return request if choose_output_limit(request, model) <= room else with_output(request, room)


def shrink_request(request: ModelRequest, overflow: Overflow) -> ModelRequest | None:
    """Return the request with its output limited to what fits, or None if compaction is needed."""
    if overflow.input_tokens is None or overflow.limit_tokens is None:
        return None
    room = room_for_output(overflow.input_tokens, overflow.limit_tokens)
    return None if room is None else with_output(request, room)


def with_output(request: ModelRequest, max_tokens: int) -> ModelRequest:
    """Return the request with another `max_tokens`, and its thinking budget below that."""
    thinking = request.thinking
    if isinstance(thinking, ThinkingBudget) and thinking.tokens >= max_tokens:
        thinking = replace(thinking, tokens=max_tokens - 1)
    return replace(request, max_tokens=max_tokens, thinking=thinking)


def _number(text: str | None) -> int | None:
    digits = (text or "").replace(",", "").replace("_", "")
    return int(digits) if digits else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
