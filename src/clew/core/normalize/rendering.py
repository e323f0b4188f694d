"""Render attachments as text for the model.

An attachment is rendered once, when it is recorded. The text is frozen in the transcript and sent
verbatim from then on. Only attachments from programs that did not freeze the text are rendered
here.
"""

from typing import Any

from clew.core.messages.text import wrap_in_tag
from clew.core.normalize.clean import Block, make_text_block

# Hook events whose output the model sees.
_HEARD_HOOKS = frozenset({"SessionStart", "UserPromptSubmit"})


def read_frozen_blocks(entry: dict[str, Any]) -> list[Block] | None:
    """Return the blocks that are frozen in the entry, or None if there are none."""
    parts = entry.get("rendered")
    if type(parts) is not list:
        return None
    blocks: list[Block] = []
    for part in parts:
        content = part.get("content") if type(part) is dict else part
        if type(content) is str:
            blocks.append(make_text_block(content))
        elif type(content) is list:
            blocks += content
    return blocks


def render_attachment(attachment: Any) -> str:
    """Render an attachment without frozen text; return no text if it is not for the model."""
    if type(attachment) is not dict:
        return ""
    kind = attachment.get("type")
    find = _WORDS.get(kind) if type(kind) is str else None
    text = "" if find is None else find(attachment)
    return wrap_in_tag("system-reminder", f"\n{text}\n") if text and kind not in _PLAIN else text


def _text(value: Any) -> str:
    if type(value) is list:
        return "\n".join(filter(None, map(_text, value)))
    if type(value) is dict:
        return _text(value.get("text", value.get("content")))
    return value if type(value) is str else ""


def _queued(attachment: dict[str, Any]) -> str:
    return _text(attachment.get("prompt", attachment.get("content")))


def _file(attachment: dict[str, Any]) -> str:
    name = _text(attachment.get("displayPath")) or _text(attachment.get("filename"))
    content = attachment.get("content")
    file = content.get("file") if type(content) is dict else None
    words = _text(file if type(file) is dict else content)
    return f"Contents of {name}:\n{words}" if words else ""


def _edited(attachment: dict[str, Any]) -> str:
    words = _text(attachment.get("snippet"))
    return f"{_text(attachment.get('filename'))} was changed outside this session:\n{words}"


def _hook(attachment: dict[str, Any]) -> str:
    return _text(attachment.get("content"))


def _hook_success(attachment: dict[str, Any]) -> str:
    return _hook(attachment) if attachment.get("hookEvent") in _HEARD_HOOKS else ""


def _date(attachment: dict[str, Any]) -> str:
    day = _text(attachment.get("date", attachment.get("newDate")))
    return f"Today is {day}." if day else ""


def _instructions(attachment: dict[str, Any]) -> str:
    files = attachment.get("files")
    if type(files) is not list:
        files = [attachment.get("content")]
    sections = [
        f"Contents of {_text(file.get('path'))}:\n\n{_text(file.get('content'))}"
        for file in files
        if type(file) is dict
    ]
    return "\n\n".join(sections)


_PLAIN = frozenset({"queued_command"})
_WORDS = {
    "queued_command": _queued,
    "file": _file,
    "edited_text_file": _edited,
    "hook_additional_context": _hook,
    "hook_success": _hook_success,
    "date": _date,
    "instructions": _instructions,
    "nested_memory": _instructions,
}
