"""Tools for models without tool calls: calls are written as fenced JSON in the answer.

`to_text_request` describes the tools in the instructions and writes earlier calls and results as
text. `TextTools` turns the model's fenced JSON back into calls while the answer streams. A fence
that is not a valid call stays text. Must never invent a call.
"""

from typing import Any

import msgspec

from clew.core.json_object import Json, object_of, text_of

FENCE = "```tool_call"
END = "```"
INSTRUCTIONS = """\
You can use tools. To call a tool, write a fenced block like this, and nothing after it:

```tool_call
{"name": "NAME", "input": {"ARGUMENT": "VALUE"}}
```

The result follows in the next message. Call a tool again, or answer in plain text. The tools, with
the JSON Schemas of their inputs:
"""


def describe_tools(tools: list[Json]) -> str:
    """Return the instructions for calling these tools in text."""
    lines = [
        f"- {tool['name']}: {text_of(tool.get('description')).strip()}\n"
        f"  {_encode(tool.get('input_schema', {}))}"
        for tool in tools
    ]
    return INSTRUCTIONS + "\n".join(lines)


def with_instructions(system: list[Json] | str | None, tools: list[Json]) -> list[Json] | str:
    """Return the system prompt with the tools described at its end."""
    words = describe_tools(tools)
    if not system:
        return words
    return f"{system}\n\n{words}" if isinstance(system, str) else [*system, _text(words)]


def to_text_messages(messages: list[Json]) -> list[Json]:
    """Return the messages with calls and results as text."""
    names: dict[str, str] = {}
    converted = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            content = [part for block in content for part in _converted(block, names)]
        converted.append({"role": message["role"], "content": content})
    return converted


def _converted(block: Json, names: dict[str, str]) -> list[Json]:
    match block.get("type"):
        case "tool_use":
            names[block["id"]] = block["name"]
            call = _encode({"name": block["name"], "input": block["input"]})
            return [_text(f"{FENCE}\n{call}\n{END}")]
        case "tool_result":
            inside = block.get("content") or ""
            parts = [_text(inside)] if isinstance(inside, str) else inside
            failed = " (failed)" if block.get("is_error") else ""
            name = names.get(block["tool_use_id"], "the tool")
            return [_text(f"Result of {name}{failed}:"), *parts]
        case _:
            return [block]


def _text(words: str) -> Json:
    return {"type": "text", "text": words or "(empty)"}


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class TextTools:
    """A converter that turns fenced calls in the text of an answer into blocks."""

    def __init__(self, names: frozenset[str], prefix: str) -> None:
        self._names = names
        # The beginning of the IDs of calls.
        self._prefix = prefix
        self._calls = 0
        self._next = 0
        # Maps the service's open indexes to the answer's; None for a text that has not begun.
        self._open: dict[int, int | None] = {}
        # Text that is, or may become, the beginning of a call.
        self._held = ""

    def take(self, event: Json) -> list[Json]:
        index: Any = event.get("index")
        match event.get("type"):
            case "content_block_start":
                block = object_of(event.get("content_block"))
                if block.get("type") == "text":
                    self._open[index] = None
                    return self._say(index, text_of(block.get("text")))
                return [event | {"index": self._opened(index)}]
            case "content_block_delta":
                delta = object_of(event.get("delta"))
                if delta.get("type") == "text_delta":
                    return self._say(index, text_of(delta.get("text")))
                return [event | {"index": self._open.get(index)}]
            case "content_block_stop":
                last = self._flush(index)
                ended = self._open.pop(index, None)
                return last if ended is None else [*last, event | {"index": ended}]
            case "message_delta" if self._calls:
                delta = object_of(event.get("delta"))
                if delta.get("stop_reason") in ("end_turn", "stop_sequence"):
                    delta = delta | {"stop_reason": "tool_use"}
                return [event | {"delta": delta}]
            case _:
                return [event]

    def _opened(self, index: Any) -> int:
        self._open[index], self._next = self._next, self._next + 1
        return self._next - 1

    def _say(self, index: Any, piece: str) -> list[Json]:
        self._held += piece
        out: list[Json] = []
        while True:
            at = self._held.find(FENCE)
            end = self._held.find(f"\n{END}", at + len(FENCE)) if at >= 0 else -1
            if end < 0:
                # The end may be the beginning of a fence, or of the whitespace before it.
                sure = self._held[: _find_doubt(self._held) if at < 0 else at].rstrip()
                out += self._show(index, sure)
                self._held = self._held[len(sure) :]
                return out
            fence = self._held[: end + len(END) + 1]
            out += self._call(index, fence[:at], fence[at:])
            self._held = self._held[len(fence) :]

    def _call(self, index: Any, before: str, fenced: str) -> list[Json]:
        body = fenced.removeprefix(FENCE).strip().removesuffix(END)
        try:
            call = object_of(msgspec.json.decode(body.encode()))
        except (msgspec.DecodeError, UnicodeEncodeError):
            call = {}
        name, arguments = call.get("name"), call.get("input", {})
        if name not in self._names or not isinstance(arguments, dict):
            return self._show(index, before + fenced)
        out = self._show(index, before.rstrip())
        if (open_text := self._open.get(index)) is not None:
            out.append({"type": "content_block_stop", "index": open_text})
            self._open[index] = None
        self._calls += 1
        at, self._next = self._next, self._next + 1
        block = {
            "type": "tool_use", "id": f"{self._prefix}{self._calls}", "name": name, "input": {},
        }  # fmt: skip
        delta = {"type": "input_json_delta", "partial_json": _encode(arguments)}
        return [
            *out,
            {"type": "content_block_start", "index": at, "content_block": block},
            {"type": "content_block_delta", "index": at, "delta": delta},
            {"type": "content_block_stop", "index": at},
        ]

    def _show(self, index: Any, words: str) -> list[Json]:
        at = self._open.get(index)
        if not words or (at is None and self._calls and not words.strip()):
            return []
        out: list[Json] = []
        if at is None:
            at = self._opened(index)
            block = {"type": "text", "text": ""}
            out.append({"type": "content_block_start", "index": at, "content_block": block})
        delta = {"type": "text_delta", "text": words}
        return [*out, {"type": "content_block_delta", "index": at, "delta": delta}]

    def _flush(self, index: Any) -> list[Json]:
        """Return the text that was held back, converted to a call if it contains one."""
        held, self._held = self._held, ""
        at = held.find(FENCE)
        return self._show(index, held) if at < 0 else self._call(index, held[:at], held[at:])


def _find_doubt(text: str) -> int:
    """Return where a possibly incomplete fence at the end of a text begins."""
    return next(len(text) - n for n in range(len(FENCE), -1, -1) if text.endswith(FENCE[:n]))
