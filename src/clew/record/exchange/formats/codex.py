"""Convert Codex rollouts: `session_meta`, `response_item` and other lines. Does no I/O.

Older rollouts have items without an envelope; the oldest are one object with `session` and `items`.
Encrypted reasoning and item IDs become records of origin, which are sent back only to the same
service.

Decision: docs/decisions/331-wires.md
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode, encode
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import take_message
from clew.record.exchange.formats.reasons import (
    EVENT,
    FAILED_RESPONSE,
    INSTRUCTIONS,
    LONE_COUNT,
    NO_TEXT,
    REPEATED,
    SEALED_SUMMARY,
    SECOND_HEADER,
    STATE,
)

_KINDS = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
# Text that Codex puts before the user's prompt.
_INJECTED = re.compile(
    r"\s*<(environment_context|user_instructions|permissions|turn_aborted|skills_instructions"
    r"|collaboration_mode|apps_instructions|model_switch)\b|# AGENTS\.md"
)
_DATA = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=]+)")
_SHELLS = frozenset({"shell", "exec_command", "shell_command", "container.exec", "local_shell"})
_SAID = ("user_message", "agent_message", "agent_reasoning")
# Events that repeat what an item contains.
_REPEATING = frozenset(
    {
        *_SAID, "agent_message_delta", "agent_reasoning_raw_content", "context_compacted",
        "dynamic_tool_call_request", "dynamic_tool_call_response", "exec_command_begin",
        "exec_command_end", "image_generation_end", "item_completed", "item_started",
        "mcp_tool_call_begin", "mcp_tool_call_end", "patch_apply_begin", "patch_apply_end",
        "view_image_tool_call", "web_search_begin", "web_search_end",
    }
)  # fmt: skip
SETTINGS = "settings of a turn"


def recognizes(source: Source) -> bool:
    document = object_of(source.document)
    if type(document.get("session")) is dict and type(document.get("items")) is list:
        return True
    return any(map(_is_head, source.lines[:3])) and len(source.lines) > 0


def _is_head(first: Json) -> bool:
    """Return whether a line is in a current or old Codex format."""
    if text_of(first.get("type")) in _KINDS:
        return type(first.get("payload")) is dict
    return "instructions" in first and "id" in first and "type" not in first


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    lines = source.lines
    if not any(map(_is_head, lines[:3])):
        document = object_of(source.document)
        head = {"instructions": None} | document["session"]
        lines = [head, *filter(lambda item: type(item) is dict, document["items"])]
    ids = (text_of(_payload(line).get("id")) for line in lines if _kind(line) == "session_meta")
    yield _Rollout(begin(next(ids, "")), _find_repeated(lines)).convert(lines)


def _kind(line: Json) -> str:
    kind = text_of(line.get("type"))
    if kind in _KINDS:
        return kind
    if "instructions" in line or ("git" in line and "id" in line):
        return "session_meta"
    is_state = line.get("record_type") == "state" or (kind and type(line.get("payload")) is dict)
    return "state" if is_state else "response_item"


def _payload(line: Json) -> Json:
    return object_of(line.get("payload")) if text_of(line.get("type")) in _KINDS else line


def _find_repeated(lines: Iterable[Json]) -> frozenset[str]:
    """Return the kinds of events that only repeat items; some rollouts have no items."""
    kinds: set[str] = set()
    for line in lines:
        item = _payload(line)
        if _kind(line) != "response_item":
            continue
        if item.get("type") == "reasoning":
            kinds.add("agent_reasoning")
        elif item.get("role") == "assistant":
            kinds.add("agent_message")
        elif item.get("role") == "user" and not _INJECTED.match(_words(item.get("content"))):
            kinds.add("user_message")
    return frozenset(kinds)


class _Rollout:
    """The conversion of one rollout. `repeated` contains the kinds of events to skip."""

    def __init__(self, build: Builder, repeated: frozenset[str]) -> None:
        self._build = build
        self._repeated = repeated
        self._model = ""
        self._service = "openai"
        self._has_head = False
        self._total: Any = None
        # The message before each prompt, for events that remove the last turns.
        self._starts: list[str | None] = []
        # Items that only the service can use, to send back with the next block.
        self._waiting: list[Json] = []

    def convert(self, lines: Iterable[Json]) -> Converted:
        build = self._build
        for line in lines:
            payload = _payload(line)
            build.item(payload.get("id"))
            at = build.time(line.get("timestamp"))
            match _kind(line):
                case "session_meta":
                    self._head(payload)
                case "turn_context":
                    self._model = text_of(payload.get("model")) or self._model
                    build.out.cwd = build.out.cwd or text_of(payload.get("cwd"))
                    build.lose(SETTINGS)
                case "compacted":
                    self._compacted(payload, at)
                case "event_msg":
                    self._event(payload, at)
                case "state":
                    build.lose(STATE)
                case _:
                    self._item(payload, at)
        return build.finished()

    def _head(self, payload: Json) -> None:
        build = self._build
        if self._has_head:
            build.lose(SECOND_HEADER)
            return
        self._has_head = True
        build.keep()
        build.out.source_id = text_of(payload.get("id"))
        build.out.cwd = text_of(payload.get("cwd"))
        build.out.branch = text_of(object_of(payload.get("git")).get("branch"))
        self._service = text_of(payload.get("model_provider")) or self._service

    def _compacted(self, payload: Json, at: str) -> None:
        summary = text_of(payload.get("message"))
        for item in map(object_of, reversed(list_of(payload.get("replacement_history")))):
            summary = summary or _words(item.get("content"))
        if summary.strip():
            self._build.compact(summary, at)
        else:
            self._build.lose(SEALED_SUMMARY)

    def _event(self, payload: Json, at: str) -> None:
        build, kind = self._build, text_of(payload.get("type"))
        words = text_of(payload.get("message")) or text_of(payload.get("text"))
        if kind == "token_count":
            self._count(payload)
        elif kind == "thread_rolled_back" and type(payload.get("num_turns")) is int:
            self._roll_back(payload["num_turns"])
        elif kind == "thread_name_updated":
            build.out.title = text_of(payload.get("thread_name")) or build.out.title
            build.keep()
        elif kind in _SAID and words.strip() and kind not in self._repeated:
            # Some rollouts contain the conversation only in events.
            if kind == "user_message":
                self._starts.append(build.leaf)
                build.say(words, at)
            elif kind == "agent_message":
                build.answer([make_text(words)], at, model=self._model)
            else:
                build.answer([make_thinking(words)], at, model=self._model)
        elif kind in ("error", "stream_error"):
            build.lose(FAILED_RESPONSE)
        else:
            build.lose(REPEATED if kind in _REPEATING else EVENT)

    def _roll_back(self, turns: int) -> None:
        """Continue before the last turns, which become a branch."""
        self._build.keep()
        if turns > 0 and self._starts:
            self._build.rewind(self._starts[max(0, len(self._starts) - turns)])
            del self._starts[-turns:]

    def _count(self, payload: Json) -> None:
        info = object_of(payload.get("info"))
        last, total = object_of(info.get("last_token_usage")), info.get("total_token_usage")
        used = {key: n for key, n in last.items() if type(n) is int}
        cached = used.get("cached_input_tokens", 0)
        usage = {
            "input_tokens": max(0, used.get("input_tokens", 0) - cached),
            "cache_read_input_tokens": cached,
            "output_tokens": used.get("output_tokens", 0),
        }
        if not used or total == self._total or not self._build.charge(usage):
            self._build.lose(LONE_COUNT)
        else:
            self._total = total

    def _item(self, item: Json, at: str) -> None:
        build = self._build
        kind = item.get("type") or ("message" if "role" in item else None)
        match kind:
            case "message":
                self._message(item, at)
            case "reasoning":
                words = "\n".join(
                    text_of(object_of(part).get("text"))
                    for part in [*list_of(item.get("summary")), *list_of(item.get("content"))]
                )
                if words or item.get("encrypted_content"):
                    thought = make_thinking(words)
                    self._answer(thought, item, at)
            case "function_call":
                name, arguments = text_of(item.get("name")), _arguments(item.get("arguments"))
                self._answer(_call(text_of(item.get("call_id")), name, arguments), item, at)
            case "local_shell_call":
                action = object_of(item.get("action"))
                call_id = text_of(item.get("call_id") or item.get("id"))
                self._answer(_call(call_id, "shell", action), item, at)
            case "custom_tool_call":
                arguments = {"input": item.get("input")}
                block = call(text_of(item.get("call_id")), text_of(item.get("name")), arguments)
                self._answer(block, item, at)
            case "function_call_output" | "custom_tool_call_output":
                content, is_error = _output(build, item.get("output"))
                build.result(text_of(item.get("call_id")), content, at, is_error=is_error)
            case "tool_search_call":
                call_id = text_of(item.get("call_id"))
                self._answer(_call(call_id, "tool_search", item.get("arguments")), item, at)
            case "tool_search_output":
                tools = encode(list_of(item.get("tools"))).decode("utf-8", "replace")
                build.result(text_of(item.get("call_id")), tools, at)
            case "agent_message":
                words = _words(item.get("content"))
                build.say(words, at, is_meta=True)
            case "web_search_call" | "image_generation_call":
                self._waiting.append(item)
                build.keep()
                build.lose(f"{kind} (sent back only to the same service)")
            case kind:
                build.lose(f"item of type {text_of(kind) or 'none'}")

    def _answer(self, block: Json, item: Json, at: str) -> None:
        items = [*self._waiting, item]
        self._waiting = []
        origin = {
            "service": self._service, "wire": "responses", "model": self._model, "items": items,
        }  # fmt: skip
        self._build.answer([block], at, model=self._model, origins=[origin])

    def _message(self, item: Json, at: str) -> None:
        build, role, content = self._build, item.get("role"), item.get("content")
        parts = [make_text(content)] if type(content) is str else list_of(content)
        if role == "assistant" and any(object_of(p).get("type") == "tool_use" for p in parts):
            take_message(build, {"role": role, "content": parts}, at, model=self._model)
            return
        blocks = [b for part in parts if (b := _block(build, object_of(part)))]
        if role == "assistant":
            texts = [b for b in blocks if b["type"] == "text"]
            if len(texts) == 1 and item.get("type") == "message":
                self._answer(texts[0], item, at)
            else:
                build.answer(texts, at, model=self._model)
        elif role == "user":
            words = next((b["text"] for b in blocks if b["type"] == "text"), "")
            is_meta = _INJECTED.match(words) is not None
            if not is_meta:
                self._starts.append(build.leaf)
            build.user(blocks, at, is_meta=is_meta)
        else:
            build.lose(INSTRUCTIONS)


def _words(content: Any) -> str:
    if type(content) is str:
        return content
    return "\n".join(filter(None, (text_of(object_of(p).get("text")) for p in list_of(content))))


def _block(build: Builder, part: Json) -> Json | None:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return make_text(text_of(part.get("text")))
    if kind == "input_image":
        match = _DATA.fullmatch(text_of(part.get("image_url")))
        if match:
            return make_picture(match[1], match[2])
    build.lose(NO_TEXT)
    return None


def _arguments(value: Any) -> Any:
    try:
        return decode(text_of(value).encode("utf-8", "replace"))
    except ValueError:
        return value


def _call(call_id: str, name: str, arguments: Any) -> Json:
    if name in _SHELLS and type(arguments) is dict:
        command = arguments.get("command", arguments.get("cmd"))
        words = [text_of(word) for word in list_of(command)]
        line = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
        rest = {k: v for k, v in arguments.items() if k not in ("command", "cmd", "type")}
        return call(call_id, "Bash", {"command": text_of(command) or line, **rest})
    return call(call_id, name, arguments)


def _output(build: Builder, output: Any) -> tuple[Any, bool]:
    """Return a tool's output, and whether the tool failed.

    The output may be a string, an object that contains a string, or a list of parts.
    """
    if type(output) is list:
        blocks = [b for part in output if (b := _block(build, object_of(part)))]
        return blocks, False
    result = output if type(output) is dict else _arguments(output)
    if type(result) is dict and ("output" in result or "content" in result):
        metadata = object_of(result.get("metadata"))
        failed = result.get("success") is False or metadata.get("exit_code") not in (None, 0)
        inner = result.get("output", result.get("content"))
        if type(inner) is str:
            return inner, failed
    return text_of(output), False


FORMAT = Format(name="codex", title="Codex", recognizes=recognizes, convert=convert)
