"""Streams of chat completions in which services differ from OpenAI's, and what each of them says.

Written from each service's documentation or from the named report; no service was recorded.
"""

from typing import Any, NamedTuple

Json = dict[str, Any]


class Odd(NamedTuple):
    """A stream with the message that it means. `origin` is what returns to the same service."""

    chunks: list[Json]
    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Json], ...] = ()
    stop: str = "end_turn"
    usage: Json | None = None
    error: Any = None
    # Members of the message that goes back, in the form of this service's quirks.
    back: tuple[str, Json] | None = None


def one(delta: Any = None, finish: Any = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"} | {
        "choices": [choice | more.pop("choice", {})],
        **more,
    }


def tool(index: Any, call_id: Any, name: Any, arguments: Any, **more: Any) -> Json:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    call = {"index": index, "id": call_id, "type": "function", "function": function, **more}
    return {"tool_calls": [{k: v for k, v in call.items() if v is not None}]}


A, B = ("Read", {"a": 1}), ("Read", {"b": 2})
SIGNED = {"google": {"thought_signature": "c2ln"}}
ENCRYPTED = {"type": "reasoning.encrypted", "data": "x1", "id": "r1", "index": 0, "format": "f"}
ODD: dict[str, Odd] = {
    # ollama/ollama#15457, vercel/ai#14277
    "two calls at one index": Odd(
        [one(tool(0, "c1", "Read", '{"a":1}')), one(tool(0, "c2", "Read", '{"b":2}')), one({}, "tool_calls")],
        calls=(A, B), stop="tool_use",
    ),
    "two calls at one index without IDs": Odd(
        [one(tool(0, None, "Read", '{"a":1}')), one(tool(0, None, "Read", '{"b":2}')), one({}, "stop")],
        calls=(A, B), stop="tool_use",
    ),
    "the name and the ID repeated in each piece": Odd(
        [one(tool(0, "c1", "Read", '{"a"')), one(tool(0, "c1", "Read", ":1}")), one({}, "tool_calls")],
        calls=(A,), stop="tool_use",
    ),
    "the name repeated without arguments after the last piece": Odd(
        [one(tool(0, "c1", "Read", '{"a":1}')), one(tool(0, None, "Read", "")), one({}, "tool_calls")],
        calls=(A,), stop="tool_use",
    ),
    "the name after the ID": Odd(
        [one(tool(0, "c1", None, "")), one(tool(0, None, "Read", None)), one(tool(0, None, None, '{"a":1}')), one({}, "tool_calls")],
        calls=(A,), stop="tool_use",
    ),
    "pieces of two calls taking turns": Odd(
        [one(tool(0, "c1", "Read", '{"a"')), one(tool(1, "c2", "Read", '{"b"')), one(tool(0, None, None, ":1}")), one(tool(1, None, None, ":2}")), one({}, "tool_calls")],
        calls=(A, B), stop="tool_use",
    ),
    "an object for arguments": Odd(
        [one(tool(None, None, "Read", {"a": 1})), one({}, "stop")], calls=(A,), stop="tool_use"
    ),
    "the function call of 2023": Odd(
        [one({"function_call": {"name": "Read", "arguments": '{"a"'}}), one({"function_call": {"arguments": ":1}"}}), one({}, "function_call")],
        calls=(A,), stop="tool_use",
    ),
    # docs.mistral.ai, capabilities/reasoning
    "thinking in chunks": Odd(
        [
            one({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I "}]}]}),
            one({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "see"}], "signature": "s"}]}),
            one({"content": [{"type": "text", "text": "Yes"}]}),
            one({"content": "."}, "stop"),
        ],
        text="Yes.", thinking="I see",
        back=("mistral", {"content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "I see"}], "signature": "s"},
            {"type": "text", "text": "Yes."},
        ]}),
    ),
    "thinking in a chunk as a string": Odd(
        [one({"content": [{"type": "thinking", "thinking": "I see"}, {"type": "text", "text": "Yes"}]}, "stop")],
        text="Yes", thinking="I see",
    ),
    # pi-ai: gateways that mirror one member in the other
    "the same thought under two names": Odd(
        [one({"reasoning": "Hm.", "reasoning_content": "Hm."}), one({"content": "Yes"}, "stop")],
        text="Yes", thinking="Hm.", back=("deepseek", {"reasoning_content": "Hm.", "content": "Yes"}),
    ),
    "thoughts of Copilot": Odd(
        [one({"reasoning_text": "Hm."}), one({"content": "Yes"}, "stop")], text="Yes", thinking="Hm."
    ),
    # openrouter.ai/docs, reasoning tokens
    "an encrypted thought before a call": Odd(
        [one({"reasoning_details": [ENCRYPTED]}), one(tool(0, "c1", "Read", '{"a":1}')), one({}, "tool_calls")],
        calls=(A,), stop="tool_use", back=("openrouter", {"reasoning_details": [ENCRYPTED]}),
    ),
    "a thought in details, in pieces, with its signature": Odd(
        [
            one({"reasoning": "I ", "reasoning_details": [{"type": "reasoning.text", "text": "I ", "index": 0}]}),
            one({"reasoning": "see", "reasoning_details": [{"type": "reasoning.text", "text": "see", "index": 0, "id": None}]}),
            one({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s"}]}),
            one({"content": "Yes"}, "stop"),
        ],
        text="Yes", thinking="I see",
        back=("openrouter", {"reasoning_details": [{"type": "reasoning.text", "text": "I see", "index": 0, "signature": "s"}]}),
    ),
    "a thought only in details": Odd(
        [one({"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm.", "index": 0}]}), one({"content": "Yes"}, "stop")],
        text="Yes", thinking="Hm.",
        back=("openrouter", {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm.", "index": 0}]}),
    ),
    # ai.google.dev, thought signatures in the OpenAI compatibility
    "a signature with a call": Odd(
        [one(tool(0, "c1", "Read", '{"a":1}', extra_content=SIGNED)), one({}, "stop")],
        calls=(A,), stop="tool_use",
        back=("gemini", {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"a":1}'}, "extra_content": SIGNED}]}),
    ),
    "a signature with words": Odd(
        [one({"content": "Yes", "extra_content": SIGNED}, "stop")],
        text="Yes", back=("gemini", {"content": "Yes", "extra_content": SIGNED}),
    ),
    "what was written to the cache": Odd(
        [one({"content": "Yes"}, "stop"), {"choices": [], "usage": {"prompt_tokens": 1300, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300}}}],
        text="Yes", usage={"input_tokens": 400, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 300, "output_tokens": 5},
    ),
    # api-docs.deepseek.com, context caching
    "DeepSeek's names for the cache": Odd(
        [one({"content": "Yes"}, "stop", usage={"prompt_tokens": 100, "completion_tokens": 2, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40})],
        text="Yes", usage={"input_tokens": 40, "cache_read_input_tokens": 60, "output_tokens": 2},
    ),
    "Moonshot's usage, in the choice": Odd(
        [one({"content": "Yes"}, "stop", choice={"usage": {"prompt_tokens": 100, "completion_tokens": 2, "cached_tokens": 10}})],
        text="Yes", usage={"input_tokens": 90, "cache_read_input_tokens": 10, "output_tokens": 2},
    ),
    "Groq's usage": Odd(
        [one({"content": "Yes"}), one({}, "stop", x_groq={"usage": {"prompt_tokens": 9, "completion_tokens": 2}})],
        text="Yes", usage={"input_tokens": 9, "output_tokens": 2},
    ),
    # learn.microsoft.com, content streaming with asynchronous filters
    "Azure's first chunk": Odd(
        [{"id": "", "model": "", "choices": [], "prompt_filter_results": [{}]}, one({"content": "Yes"}, "stop")], text="Yes"
    ),
    # openrouter.ai/docs, errors
    "a failed answer": Odd([one({"content": "Y"}), one({}, "error")], error="api_error"),
    "an error with a number": Odd([one({"content": "Y"}), {"error": {"code": 502, "message": "x"}}], error=502),
    "an error in the choice": Odd([one({}, "error", choice={"error": {"code": 429, "message": "x"}})], error=429),
    # vLLM before 0.10
    "an error object": Odd([{"object": "error", "message": "x", "code": 400}], error=400),
    "out of resources": Odd([one({"content": "Y"}), one({}, "insufficient_system_resource")], error="api_error"),
    "an empty reason in each chunk": Odd([one({"content": "Y"}, ""), one({"content": "es"}, ""), one({}, "stop")], text="Yes"),
    "null for everything": Odd(
        [one({"role": "assistant", "content": None, "tool_calls": None, "refusal": None}), one({"content": "Yes"}), one(None, "stop", usage=None)],
        text="Yes",
    ),
    "the whole message again at the end": Odd(
        [one({"content": "Yes"}), one({}, "stop", choice={"message": {"role": "assistant", "content": "Yes"}})], text="Yes"
    ),
    "the message instead of pieces": Odd([one({}, "stop", choice={"message": {"content": "Yes"}})], text="Yes"),
    "reasons in capitals": Odd([one({"content": "Yes"}, "STOP")], text="Yes"),
    "Together's reason": Odd([one({"content": "Yes"}, "eos")], text="Yes"),
    "Mistral's full window": Odd([one({"content": "Yes"}, "model_length")], text="Yes", stop="model_context_window_exceeded"),
    "Z.ai's refusal": Odd([one({"content": "No"}, "sensitive")], text="No", stop="refusal"),
    "words after calls": Odd(
        [one(tool(0, "c1", "Read", '{"a":1}')), one({"content": "There."}), one(tool(1, "c2", "Read", '{"b":2}')), one({}, "tool_calls")],
        text="There.", calls=(A, B), stop="tool_use",
    ),
}  # fmt: skip
