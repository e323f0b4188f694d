"""Write a session as Messages API messages, as chat completions messages, or as ATIF.

Does no I/O.
"""

from typing import Any

from clew.core.json_object import Json, object_of
from clew.core.messages.encoding import encode
from clew.record.exchange.targets.turns import (
    ExportedSession,
    ExportedTurn,
    count_tokens,
    picture_url,
)
from clew.version import VERSION

ATIF = "ATIF-v1.4"


def encode_anthropic(session: ExportedSession) -> bytes:
    """Return `messages` in the format of the Messages API, without thinking signatures."""
    messages: list[Json] = []
    for turn in session.turns:
        if turn.role == "result":
            content: Any = list(turn.blocks)
            result = {"type": "tool_result", "tool_use_id": turn.call_id, "content": content}
            blocks = [result | ({"is_error": True} if turn.is_error else {})]
        else:
            blocks = [dict(block) for block in turn.blocks]
        role = "assistant" if turn.role == "assistant" else "user"
        if messages and messages[-1]["role"] == role:
            messages[-1] = {"role": role, "content": [*messages[-1]["content"], *blocks]}
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return encode({"model": _model(session), "messages": messages}) + b"\n"


def encode_openai(session: ExportedSession) -> bytes:
    """Return `messages` in the format of chat completions."""
    messages = [message for turn in session.turns for message in _chat(turn)]
    return encode({"model": _model(session), "messages": messages}) + b"\n"


def _model(session: ExportedSession) -> str:
    models = [turn.model for turn in session.turns if turn.model]
    return models[-1] if models else ""


def _chat(turn: ExportedTurn) -> list[Json]:
    if turn.role == "result":
        message: Json = {"role": "tool", "tool_call_id": turn.call_id, "content": turn.text}
        pictures = [block for block in turn.blocks if block["type"] == "image"]
        # Tool results in this API contain only text, so images follow them.
        images = [{"role": "user", "content": _parts(pictures)}] if pictures else []
        return [message, *images]
    if turn.role == "user":
        is_plain = all(block["type"] == "text" for block in turn.blocks)
        return [{"role": "user", "content": turn.text if is_plain else _parts(turn.blocks)}]
    message = {"role": "assistant", "content": turn.text or None}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": _arguments(block)},
            }
            for block in turn.calls
        ]
    return [message]


def _arguments(block: Json) -> str:
    return encode(object_of(block.get("input"))).decode("utf-8", "replace")


def _parts(blocks: Any) -> list[Json]:
    return [
        {"type": "text", "text": block["text"]}
        if block["type"] == "text"
        else {"type": "image_url", "image_url": {"url": picture_url(block)}}
        for block in blocks
    ]


def encode_atif(session: ExportedSession) -> bytes:
    """Return the session as a trajectory, in which a response and its results are one step."""
    steps: list[Json] = []
    by_call: dict[str, Json] = {}
    for turn in session.turns:
        if turn.role == "result":
            observed = by_call[turn.call_id].setdefault("observation", {"results": []})
            observed["results"].append({"source_call_id": turn.call_id, "content": turn.text})
            continue
        source = "agent" if turn.role == "assistant" else "user"
        step: Json = {
            "step_id": len(steps) + 1, "timestamp": turn.at, "source": source,
            "message": turn.text,
        }  # fmt: skip
        if turn.role == "assistant":
            step["model_name"] = turn.model
            if turn.thinking:
                step["reasoning_content"] = turn.thinking
            if turn.calls:
                step["tool_calls"] = [
                    {
                        "tool_call_id": block["id"],
                        "function_name": block["name"],
                        "arguments": object_of(block.get("input")),
                    }
                    for block in turn.calls
                ]
            step["metrics"] = _metrics(turn)
            by_call |= {block["id"]: step for block in turn.calls}
        steps.append(step)
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
    return encode(
        {
            "schema_version": ATIF,
            "session_id": session.session_id,
            "agent": {"name": "clew", "version": VERSION, "model_name": _model(session)},
            "steps": steps,
            "final_metrics": {
                f"total_{name}": sum(metric[name] for metric in metrics) for name in names
            } | {"total_steps": len(steps)},
        }
    ) + b"\n"  # fmt: skip


def _metrics(turn: ExportedTurn) -> Json:
    cached = count_tokens(turn.usage, "cache_read_input_tokens")
    written = count_tokens(turn.usage, "cache_creation_input_tokens")
    return {
        "prompt_tokens": count_tokens(turn.usage, "input_tokens") + cached + written,
        "completion_tokens": count_tokens(turn.usage, "output_tokens"),
        "cached_tokens": cached,
        "cost_usd": turn.cost_usd,
    }
