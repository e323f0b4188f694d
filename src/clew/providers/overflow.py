"""What to do when a conversation does not fit a model's window: answer shorter, once, or compact.

Counted tokens are the first source (`room_for_output`); the service's words, a fragile signal, are
read only where it refused a request that was thought to fit.
"""

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.catalog.models import Model
from clew.providers.base import Budget, Failure, Request
from clew.providers.failure_kinds import effective_status, simple
from clew.providers.request_body import output_limit

SAFETY_TOKENS = 1_000
MIN_OUTPUT_TOKENS = 3_000
TOO_LARGE_STATUS = 413

# How each service says it, with the length of the prompt and of the window where it tells them.
_A = r"(?P<input>\d[\d,_]{0,14})"
_B = r"(?P<limit>\d[\d,_]{0,14})"
_WORDINGS = tuple(
    re.compile(wording, re.I | re.S)
    for wording in (
        # Anthropic; the prompt fits, and not together with the longest answer.
        rf"input length and `?max_tokens`? exceed context limit:\s*{_A}\s*\+\s*[\d,_]+\s*>\s*{_B}",
        # Anthropic
        rf"prompt is too long(?::\s*{_A} tokens? > {_B})?",
        # OpenAI (where it tells the parts), OpenRouter
        rf"maximum context length is {_B} tokens.{{0,200}}?requested (?:about )?[\d,_]+ tokens "
        rf"\({_A} (?:in (?:the|your) (?:messages|prompt)|of text input)",
        # OpenAI, vLLM, DeepSeek, most that copy chat completions
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
        # llama.cpp; versions before 2026 tell the counts beside the message
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
)
# A limit per minute that is smaller than this one request: no pause makes it fit (OpenAI, Groq).
_ABOVE_A_MINUTE = re.compile(
    rf"request too large for .{{0,200}}tokens per min.{{0,40}}Limit {_B}, Requested {_A}",
    re.I | re.S,
)
# Codes and types that mean a full window, in the spelling of `failure_kinds.simple`.
_NAMES = frozenset(
    {
        "contextlengthexceeded",
        "exceedcontextsize",
        "modelcontextwindowexceeded",
        "promptexceedslimit",
    }
)
# To whom these are said, the conversation is not the matter.
_OTHER_STATUSES = frozenset({401, 402, 403, 404, 429})


class Overflow(Struct, frozen=True, kw_only=True):
    """A request that did not fit: how long its input is and what the window holds, where said."""

    input_tokens: int | None = None
    limit_tokens: int | None = None


def overflow_of(failure: Failure) -> Overflow | None:
    """Return what a refusal says about a window that was too small; None if it is of another kind."""
    if exceeded := _ABOVE_A_MINUTE.search(failure.message):
        above = _overflow(exceeded, failure)
        return above if (above.input_tokens or 0) > (above.limit_tokens or 0) else None
    status = effective_status(failure)
    if status in _OTHER_STATUSES:
        return None
    for wording in _WORDINGS:
        if found := wording.search(failure.message):
            return _overflow(found, failure)
    is_named = simple(failure.error_code) in _NAMES or simple(failure.error_type) in _NAMES
    return _overflow(None, failure) if is_named or status == TOO_LARGE_STATUS else None


def _overflow(found: re.Match[str] | None, failure: Failure) -> Overflow:
    """Return the counts of the words, or those that llama.cpp writes beside them."""
    groups = {} if found is None else found.groupdict()
    details = failure.details or {}
    return Overflow(
        input_tokens=_number(groups.get("input")) or _count(details.get("n_prompt_tokens")),
        limit_tokens=_number(groups.get("limit")) or _count(details.get("n_ctx")),
    )


def room_for_output(input_tokens: int, limit_tokens: int) -> int | None:
    """How long the answer may become; None where too little is left and only compaction helps.

    A small window holds a conversation too: what an answer needs of it is a part.
    """
    room = limit_tokens - input_tokens - min(SAFETY_TOKENS, limit_tokens // 20)
    return room if room >= min(MIN_OUTPUT_TOKENS, limit_tokens // 8) else None


def fitted(request: Request, model: Model) -> Request | Overflow:
    """The request as far as its counted input leaves room for an answer, or why it leaves none."""
    counted, window = request.input_tokens, model.context_window
    if counted is None or window is None:
        return request
    room = room_for_output(counted, window)
    if room is None:
        return Overflow(input_tokens=counted, limit_tokens=window)
    return request if output_limit(request, model) <= room else with_output(request, room)


def shrunk(request: Request, overflow: Overflow) -> Request | None:
    """The request with room for what fits, its thinking below that; None if compaction is due."""
    if overflow.input_tokens is None or overflow.limit_tokens is None:
        return None
    room = room_for_output(overflow.input_tokens, overflow.limit_tokens)
    return None if room is None else with_output(request, room)


def with_output(request: Request, max_tokens: int) -> Request:
    """The request with another `max_tokens`, and a thinking budget that stays below it."""
    thinking = request.thinking
    if isinstance(thinking, Budget) and thinking.tokens >= max_tokens:
        thinking = replace(thinking, tokens=max_tokens - 1)
    return replace(request, max_tokens=max_tokens, thinking=thinking)


def _number(text: str | None) -> int | None:
    digits = (text or "").replace(",", "").replace("_", "")
    return int(digits) if digits else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
