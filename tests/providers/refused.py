"""The second table of docs/internals/service-failures.md: errors of services, and what clew does.

`python -m tests.providers.refused` prints it. Each body has the form that its service documents or
its own client reads; each goes through the real transport, decoder and driver, and a request after
it is answered. Waits are reported without jitter.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.core.json_object import Json
from clew.providers.answer import Answering
from clew.providers.answer_events import Answered, Asking, CompactionDue, GaveUp, Retrying, Shrunk
from clew.providers.base import ModelRequest
from clew.providers.endpoint import read_endpoint
from clew.providers.opening import find_provider_class
from clew.system.config.environment import freeze
from clew.system.transport.http import HttpTransport
from tests.fronts.headless.chat_server import chunk, words
from tests.providers.fakes import hello, start
from tests.providers.faults import SSE, Stage, StagedClock, sse
from tests.system.transport.servers import Handler, answer, network, read_request, serving

DATE = "Mon, 23 Nov 2026 08:00:00 GMT"
AGAIN, COMPACT, SHRINK, GIVE_UP = "again", "compact", "shrink", "give up"


@dataclass(frozen=True)
class Refused:
    """An error of one service, and what must follow: a wait in seconds, or a message."""

    service: str
    what: str
    then: str
    # An HTTP status with a body, or the events of a stream after HTTP 200.
    status: int = 200
    body: Any = None
    stream: tuple[Json, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    is_chat: bool = True
    delay_s: float | None = None
    # The window that is learnt, the room for the answer, or a part of the reason.
    limit: int | None = None
    why: str = ""

    @property
    def name(self) -> str:
        return f"{self.service}: {self.what}"


def anthropic(kind: str, message: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def openai(message: str, kind: str | None = None, code: Any = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def google(code: int, status: str, message: str, *details: Json) -> Json:
    return {"error": {"code": code, "message": message, "status": status, "details": [*details]}}


def retry_info(delay: str) -> Json:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota(quota_id: str, value: str) -> Json:
    violation = {
        "quotaMetric": "generate_content_requests",
        "quotaId": quota_id,
        "quotaValue": value,
    }
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


NO_CREDIT = "no credit"
QUOTA = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG = "prompt is too long: 205000 tokens > 200000 maximum"
PER_MINUTE = (
    "Request too large for gpt-9 in organization org-1 on tokens per min (TPM): Limit 30000, Requested "
    "41000. The input or output tokens must be reduced in order to run successfully."
)
AFFORD = (
    "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but "
    "can only afford 5120. To increase, visit the settings and add more credits"
)
MAXIMUM = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. "
    "Please reduce the length of the messages."
)

REFUSED: tuple[Refused, ...] = (
    # Anthropic, by the pages "Errors" and "Rate limits" of its documentation.
    Refused("Anthropic", "the prompt is too long", COMPACT, 400, anthropic("invalid_request_error", TOO_LONG), is_chat=False, limit=200_000),
    Refused("Anthropic", "the body is too large", COMPACT, 413, anthropic("request_too_large", "Request exceeds the maximum size"), is_chat=False),
    Refused("Anthropic", "the account has no credit", GIVE_UP, 400, anthropic("invalid_request_error", "Your credit balance is too low to access the API."), is_chat=False, why=NO_CREDIT),
    Refused("Anthropic", "payment problem", GIVE_UP, 402, anthropic("billing_error", "Check your payment details."), is_chat=False, why=NO_CREDIT),
    Refused("Anthropic", "the key is not valid", GIVE_UP, 401, anthropic("authentication_error", "invalid x-api-key"), is_chat=False, why="not help"),
    Refused("Anthropic", "the request is malformed", GIVE_UP, 400, anthropic("invalid_request_error", "tools.0.name: String should match pattern"), is_chat=False, why="not help"),
    Refused("Anthropic", "rate limit, `retry-after: 20`", AGAIN, 429, anthropic("rate_limit_error", "This would exceed your rate limit"), headers={"retry-after": "20"}, is_chat=False, delay_s=20),
    Refused("Anthropic", "rate limit, `retry-after` is a date", AGAIN, 429, anthropic("rate_limit_error", "This would exceed your rate limit"), headers={"retry-after": "Mon, 23 Nov 2026 08:00:45 GMT", "date": DATE}, is_chat=False, delay_s=45),
    Refused("Anthropic", "rate limit, with its reset time", AGAIN, 429, anthropic("rate_limit_error", "This would exceed your rate limit"), headers={"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2026-11-23T08:00:13Z", "anthropic-ratelimit-requests-remaining": "40", "anthropic-ratelimit-requests-reset": "2026-11-23T08:00:50Z", "date": DATE}, is_chat=False, delay_s=13),
    Refused("Anthropic", "rate limit for two hours", GIVE_UP, 429, anthropic("rate_limit_error", "This would exceed your rate limit"), headers={"retry-after": "7200"}, is_chat=False, why="a wait of 2 h"),
    Refused("Anthropic", "the service is overloaded", AGAIN, 529, anthropic("overloaded_error", "Overloaded"), is_chat=False),
    Refused("Anthropic", "overloaded, within the stream", AGAIN, stream=(start(), anthropic("overloaded_error", "Overloaded")), is_chat=False),
    Refused("Anthropic", "the prompt is too long, within the stream", COMPACT, stream=(start(), anthropic("invalid_request_error", TOO_LONG)), is_chat=False, limit=200_000),
    # OpenAI, by its page "Error codes" and the `openai` package.
    Refused("OpenAI", "the quota is used up", GIVE_UP, 429, openai(QUOTA, "insufficient_quota", "insufficient_quota"), why=NO_CREDIT),
    Refused("OpenAI", "hard billing limit", GIVE_UP, 400, openai("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"), why=NO_CREDIT),
    Refused("OpenAI", "rate limit, the message says 4.0s", AGAIN, 429, openai("Rate limit reached for gpt-9 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 4.0s.", "requests", "rate_limit_exceeded"), delay_s=4),
    Refused("OpenAI", "rate limit, the message says 1m30s", AGAIN, 429, openai("Rate limit reached for gpt-9 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 1m30s.", "tokens", "rate_limit_exceeded"), delay_s=90),
    Refused("OpenAI", "rate limit, `retry-after-ms: 250`", AGAIN, 429, openai("Rate limit reached", "requests", "rate_limit_exceeded"), headers={"retry-after-ms": "250", "retry-after": "1"}, delay_s=0.25),
    Refused("OpenAI", "rate limit, with its reset time", AGAIN, 429, openai("Rate limit reached", "requests", "rate_limit_exceeded"), headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s", "x-ratelimit-remaining-tokens": "29000", "x-ratelimit-reset-tokens": "6m0s"}, delay_s=90),
    Refused("OpenAI", "one request exceeds the limit per minute", COMPACT, 429, openai(PER_MINUTE, "tokens", "rate_limit_exceeded"), limit=30_000),
    Refused("OpenAI", "the messages are too long", COMPACT, 400, openai(MAXIMUM, "invalid_request_error", "context_length_exceeded"), limit=8192),
    Refused("OpenAI", "the input is too long, in the form of `responses`", COMPACT, 400, openai("Your input exceeds the context window of this model. Please adjust your input and try again.", "invalid_request_error", "context_length_exceeded")),
    Refused("OpenAI", "the requested answer is too long", SHRINK, 400, openai("max_tokens is too large: 64000. This model supports at most 16384 completion tokens, whereas you provided 64000.", "invalid_request_error"), limit=16_384),
    Refused("OpenAI", "the prompt violates its policy", GIVE_UP, 400, openai("Invalid prompt: your prompt was flagged", "invalid_request_error", "invalid_prompt"), why="not help"),
    Refused("OpenAI", "the engine is overloaded", AGAIN, 503, openai("The engine is currently overloaded, please try again later", "server_error")),
    Refused("OpenAI", "server error, within the stream", AGAIN, stream=(chunk({"content": "Hal"}), openai("The server had an error", "server_error", "server_error"))),
    Refused("OpenAI", "rate limit, within the stream", AGAIN, stream=(openai("Please try again in 20ms.", "tokens", "rate_limit_exceeded"),), delay_s=0.02),
    Refused("Azure", "rate limit, the message says 12 seconds", AGAIN, 429, openai("Requests to the Completion Operation have exceeded call rate limit. Please retry after 12 seconds.", None, "429"), delay_s=12),
    # Google, by google.rpc.Status and its details; a stream's error is a list of one.
    Refused("Gemini", "the input is too long", COMPACT, 400, [google(400, "INVALID_ARGUMENT", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).")], limit=1_048_575),
    Refused("Gemini", "the key is not valid", GIVE_UP, 400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}), why="not help"),
    Refused("Gemini", "quota per minute, RetryInfo says 34s", AGAIN, 429, google(429, "RESOURCE_EXHAUSTED", QUOTA, quota("GenerateRequestsPerMinutePerProjectPerModel", "5"), retry_info("34.07s")), delay_s=34.07),
    Refused("Gemini", "daily quota", GIVE_UP, 429, google(429, "RESOURCE_EXHAUSTED", QUOTA, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "50"), retry_info("34s")), why="daily quota"),
    Refused("Gemini", "the model is not part of the plan", GIVE_UP, 429, google(429, "RESOURCE_EXHAUSTED", QUOTA, quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "0"), retry_info("34s")), why="no quota for this model"),
    Refused("Gemini", "the model is overloaded", AGAIN, 503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")),
    Refused("Gemini", "unavailable, within the stream", AGAIN, stream=(google(503, "UNAVAILABLE", "The service is currently unavailable."),)),
    # Bedrock, by the exceptions of its service model in `botocore`.
    Refused("Bedrock", "the input is too long", COMPACT, 400, {"message": "Input is too long for requested model."}, headers={"x-amzn-errortype": "ValidationException:http://internal.amazon.com/"}, is_chat=False),
    Refused("Bedrock", "throttled because of tokens", AGAIN, 429, {"message": "Too many tokens, please wait before trying again."}, headers={"x-amzn-errortype": "ThrottlingException"}, is_chat=False),
    Refused("Bedrock", "the model stopped in the middle", AGAIN, 424, {"message": "The model stream broke"}, headers={"x-amzn-errortype": "ModelStreamErrorException"}, is_chat=False),
    Refused("Bedrock", "the model refused", GIVE_UP, 424, {"message": "The request failed"}, headers={"x-amzn-errortype": "ModelErrorException"}, is_chat=False, why="not help"),
    Refused("Bedrock", "account quota", GIVE_UP, 400, {"message": "Your request exceeds the service quota"}, headers={"x-amzn-errortype": "ServiceQuotaExceededException"}, is_chat=False, why="not help"),
    # Mistral, by the `mistralai` package.
    Refused("Mistral", "the prompt is too long", COMPACT, 400, {"object": "error", "message": "Prompt contains 40960 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_prompt", "param": None, "code": "3051"}, limit=32_768),
    Refused("Mistral", "unknown field", GIVE_UP, 422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]}, "type": "invalid_request_error", "code": None}, why="not help"),
    Refused("Mistral", "the answer ends with `error`", AGAIN, stream=(chunk({"content": "Hal"}), chunk({}, "error"))),
    # OpenRouter, by its page "Errors".
    Refused("OpenRouter", "credit for a shorter answer only", SHRINK, 402, {"error": {"code": 402, "message": AFFORD}}, limit=5120),
    Refused("OpenRouter", "no credit", GIVE_UP, 402, {"error": {"code": 402, "message": "Insufficient credits. Add more using the settings page"}}, why=NO_CREDIT),
    Refused("OpenRouter", "the upstream service failed, within the stream", AGAIN, stream=(chunk({}, "error") | {"error": {"code": 502, "message": "Provider returned error"}},)),
    Refused("OpenRouter", "the upstream service reports that the prompt is too long", COMPACT, 400, {"error": {"code": 400, "message": "Provider returned error", "metadata": {"provider_name": "Anthropic", "raw": json.dumps(anthropic("invalid_request_error", TOO_LONG))}}}, limit=200_000),
    Refused("OpenRouter", "too long, with a breakdown", COMPACT, 400, {"error": {"code": 400, "message": "This endpoint's maximum context length is 131072 tokens. However, you requested about 160000 tokens (140000 of text input, 20000 in the output)."}}, limit=131_072),
    Refused("OpenRouter", "daily limit of free models, with its reset time", GIVE_UP, 429, {"error": {"code": 429, "message": "Rate limit exceeded: free-models-per-day", "metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795420800000"}}}}, headers={"date": "Mon, 23 Nov 2026 04:00:00 GMT"}, why="a wait of 4 h"),
    # Others, by their own pages and the threads of those who use them.
    Refused("DeepSeek", "no credit", GIVE_UP, 402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), why=NO_CREDIT),
    Refused("Moonshot", "no credit", GIVE_UP, 429, openai("Your account is suspended, please check your plan", "exceeded_current_quota_error"), why=NO_CREDIT),
    Refused("Moonshot", "the engine is overloaded", AGAIN, 429, openai("The engine is currently overloaded, please try again later", "engine_overloaded_error")),
    Refused("Groq", "one request exceeds the limit per minute", COMPACT, 413, openai("Request too large for model `llama` in organization `org_1` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.", "tokens", "rate_limit_exceeded"), limit=6000),
    Refused("Groq", "the messages are too long", COMPACT, 400, openai("Please reduce the length of the messages or completion.", "invalid_request_error", "context_length_exceeded")),
    Refused("xAI", "the prompt is too long", COMPACT, 400, {"code": "invalid-argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}, limit=131_072),
    Refused("Together", "the input is too long", COMPACT, 400, openai("The input (140000 tokens) is longer than the model's context length (131072 tokens).", "invalid_request_error"), limit=131_072),
    # Servers on one's own machine.
    Refused("Ollama", "the prompt is too long", COMPACT, 400, openai("prompt too long; exceeded max context length by 4 tokens", "invalid_request_error")),
    Refused("Ollama", "the model does not exist", GIVE_UP, 404, openai("model 'qwen9' not found", "not_found_error"), why="not help"),
    Refused("llama.cpp", "the prompt is too long, with token counts", COMPACT, 400, {"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 17_000, "n_ctx": 16_384}}, limit=16_384),
    Refused("llama.cpp", "the prompt is too long, over the Messages API", COMPACT, 400, {"error": {"code": 400, "message": "request (17000 tokens) exceeds the available context size (16384 tokens), try increasing it", "type": "exceed_context_size_error"}}, is_chat=False, limit=16_384),
    Refused("llama.cpp", "the model is loading", AGAIN, 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
    Refused("LM Studio", "the prompt is too long, within the stream", COMPACT, stream=({"error": {"message": "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length."}},)),
    Refused("vLLM", "server error, within the stream", AGAIN, stream=({"error": {"object": "error", "message": "EngineCore encountered an issue", "type": "InternalServerError", "param": None, "code": 500}},)),
    Refused("vLLM", "the prompt is too long", COMPACT, 400, {"error": {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. Please reduce the length of the input messages.", "type": "BadRequestError", "param": "input_tokens", "code": 400}}, limit=4096),
    Refused("LiteLLM", "the upstream service reports that the prompt is too long", COMPACT, 400, openai(f"litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException - {TOO_LONG}", "None", "400"), limit=200_000),
    Refused("a gateway", "error without a type, within the stream", AGAIN, stream=(start(), {"error": {"message": "upstream went away"}}), is_chat=False),
    Refused("a gateway", "error with HTTP 200, without streaming", AGAIN, 200, {"error": {"message": "upstream went away", "code": 502}}, is_chat=False),
)  # fmt: skip


def reply(row: Refused) -> bytes:
    if not row.stream:
        kind = "Content-Type: application/json\r\n"
        more = "".join(f"{name}: {said}\r\n" for name, said in row.headers.items())
        body = json.dumps(row.body).encode()
        return answer(body, status=f"{row.status} Said", headers=kind + more)
    return answer(events(row.stream, is_chat=row.is_chat), headers=SSE)


def events(stream: tuple[Json, ...], *, is_chat: bool) -> bytes:
    if is_chat:
        return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in stream)
    named = [each for each in stream if "type" in each]
    bare = [f"data: {json.dumps(each)}\n\n".encode() for each in stream if "type" not in each]
    return sse(*named) + b"".join(bare)


def fine(*, is_chat: bool) -> bytes:
    said = words("Hello.") if is_chat else hello("Hello.")
    return answer(events(tuple(said), is_chat=is_chat), headers=SSE)


class Told:
    """The outcome of an error: the driver's events, its end, and the requests."""

    def __init__(self, row: Refused) -> None:
        self.row = row
        self.events: list[Any] = []
        self.requests: list[Json] = []
        self.ended: Any = None
        self._stage = Stage()

    def handler(self) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            _, _, body = await read_request(reader)
            self.requests.append(json.loads(body))
            is_first = len(self.requests) == 1
            writer.write(reply(self.row) if is_first else fine(is_chat=self.row.is_chat))
            await writer.drain()

        return handle

    async def emit(self, event: Any) -> None:
        self.events.append(event)
        self._stage.asking = isinstance(event, Asking) or (
            self._stage.asking and not isinstance(event, Retrying)
        )

    async def run(self) -> "Told":
        async with serving(self.handler()) as server, asyncio.timeout(30):
            environ = {"CLEW_BASE_URL": server.url, "CLEW_API_KEY": "k"}
            if self.row.is_chat:
                environ["CLEW_DIALECT"] = "chat"
            endpoint = read_endpoint(freeze(environ))
            provider = find_provider_class(endpoint)(endpoint, HttpTransport(network()))
            answering = Answering(
                provider,
                new_tool_id=lambda: "own",
                clock=StagedClock(self._stage),
                random=lambda: 0.0,
            )
            messages = [{"role": "user", "content": "Hi"}]
            request = ModelRequest(model="somebody-s-model", messages=messages, max_tokens=64_000)
            self.ended = await answering.run(request, self.emit)
            await provider.aclose()
        return self

    @property
    def then(self) -> str:
        match self.ended:
            case CompactionDue():
                return COMPACT
            case GaveUp():
                return GIVE_UP
            case Answered():
                return SHRINK if any(isinstance(e, Shrunk) for e in self.events) else AGAIN
        return str(self.ended)

    @property
    def in_words(self) -> str:
        """The last column of the table."""
        match self.then:
            case "compact":
                limit = self.ended.overflow.limit_tokens
                return f"compacts{'' if limit is None else f'; window of {limit:,} tokens'}"
            case "shrink":
                [shrunk] = [e for e in self.events if isinstance(e, Shrunk)]
                return f"requests at most {shrunk.max_tokens:,} tokens"
            case "again":
                delay_s = self.delay_s
                return f"retries after {delay_s:g} s" if delay_s else "retries"
        assert isinstance(self.ended, GaveUp)
        return f"gives up: {self.ended.why}"

    @property
    def delay_s(self) -> float | None:
        [retrying] = [e for e in self.events if isinstance(e, Retrying)]
        return None if retrying.failure.retry_after_s is None else retrying.delay_s


def main() -> None:
    lines = [["service", "error", "what clew does"], ["---"] * 3]
    for row in REFUSED:
        told = asyncio.run(Told(row).run())
        where = f"HTTP {row.status}" if not row.stream else "in a stream"
        what = row.what.removesuffix(", within the stream")
        lines.append([row.service, f"{what} ({where})", told.in_words])
    for line in lines:
        sys.stdout.write("| " + " | ".join(line) + " |\n")


if __name__ == "__main__":
    main()
