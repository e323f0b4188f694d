"""Convert Codex rollouts: `session_meta`, `response_item` and other lines. Pure."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.record.exchange.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_thinking,
)

_KINDS = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
# Text that Codex puts before the user's prompt.
_INJECTED = re.compile(
    r"\s*<(environment_context|user_instructions|permissions|turn_aborted)\b|# AGENTS\.md"
)
_DATA = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=]+)")
_SHELLS = frozenset({"shell", "exec_command", "shell_command", "container.exec"})


def is_codex(first: Json) -> bool:
    """Return whether a file's first line is in one of Codex's formats, current or old."""
    if text_of(first.get("type")) in _KINDS:
        return type(first.get("payload")) is dict
    return "instructions" in first and "id" in first and "type" not in first


def convert(lines: Iterable[Json], new_uuid: Callable[[], str]) -> Converted:
    build = Builder("codex", "", new_uuid)
    model = ""
    for line in lines:
        kind, payload = text_of(line.get("type")), object_of(line.get("payload"))
        at = build.time(line.get("timestamp"))
        if kind not in _KINDS:
            if "instructions" in line or "git" in line:
                kind, payload = "session_meta", line
            elif line.get("record_type") == "state":
                continue
            else:
                kind, payload = (
                    "response_item",
                    line,
                )  # The old format has items without an envelope.
        match kind:
            case "session_meta":
                _meta(build, payload)
            case "turn_context":
                model = text_of(payload.get("model")) or model
                build.out.cwd = build.out.cwd or text_of(payload.get("cwd"))
            case "compacted":
                summary = [{"type": "text", "text": text_of(payload.get("message"))}]
                build.user(summary, at, is_meta=True)
                build.lose("compaction (summary imported as context, earlier history kept)")
            case "event_msg":
                _event(build, payload)
            case _:
                _item(build, payload, at, model)
    return build.finished()


def _meta(build: Builder, payload: Json) -> None:
    if build.out.source_id:
        build.lose("second header, of the session it was forked from")
        return
    build.out.source_id = text_of(payload.get("id"))
    build.out.cwd = text_of(payload.get("cwd"))
    build.out.branch = text_of(object_of(payload.get("git")).get("branch"))


def _event(build: Builder, payload: Json) -> None:
    """Count a token count as a loss; all other events only repeat what items contain."""
    if payload.get("type") == "token_count":
        build.lose("token count (prices and categories differ by provider)")


def _item(build: Builder, item: Json, at: str, model: str) -> None:
    match item.get("type"):
        case "message":
            _message(build, item, at, model)
        case "reasoning":
            words = "\n".join(
                text_of(object_of(part).get("text"))
                for part in [*list_of(item.get("summary")), *list_of(item.get("content"))]
            )
            build.answer([make_thinking(words)], at, model=model)
            if item.get("encrypted_content"):
                build.lose("encrypted reasoning")
        case "function_call":
            name, arguments = text_of(item.get("name")), _arguments(item.get("arguments"))
            build.answer([_call(text_of(item.get("call_id")), name, arguments)], at, model=model)
        case "local_shell_call":
            action = object_of(item.get("action"))
            call_id = text_of(item.get("call_id") or item.get("id"))
            build.answer([_call(call_id, "shell", action)], at, model=model)
        case "custom_tool_call":
            arguments = {"input": item.get("input")}
            block = call(text_of(item.get("call_id")), text_of(item.get("name")), arguments)
            build.answer([block], at, model=model)
        case "function_call_output" | "custom_tool_call_output":
            content, is_error = _output(build, item.get("output"))
            build.result(text_of(item.get("call_id")), content, at, is_error=is_error)
        case kind:
            build.lose(f"item of type {text_of(kind) or 'none'}")


def _message(build: Builder, item: Json, at: str, model: str) -> None:
    role = item.get("role")
    blocks = [b for part in list_of(item.get("content")) if (b := _block(build, object_of(part)))]
    if role == "assistant":
        build.answer([b for b in blocks if b["type"] == "text"], at, model=model)
    elif role == "user":
        words = next((b["text"] for b in blocks if b["type"] == "text"), "")
        build.user(blocks, at, is_meta=_INJECTED.match(words) is not None)
    else:
        build.lose("instructions of the other program")


def _block(build: Builder, part: Json) -> Json | None:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": text_of(part.get("text"))}
    if kind == "input_image":
        match = _DATA.fullmatch(text_of(part.get("image_url")))
        if match:
            return make_picture(match[1], match[2])
    build.lose("content that is neither text nor an embedded picture")
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

    The output may be text, an object around text, or a list of parts.
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
