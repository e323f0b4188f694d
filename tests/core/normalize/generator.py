"""Damaged histories from a seed: realistic conversations with every kind of damage we know of.

`history(random)` returns the entries of one chain. About a third are ordinary conversations with
tools, attachments, interruptions and compactions; the others are cut, shuffled, duplicated,
stripped and filled with junk.
"""

import base64
import struct
from random import Random
from typing import Any

Entry = dict[str, Any]
Block = dict[str, Any]

WORDS = [
    "ok",
    "fix the test",
    "",
    " ",
    "\n",
    "naïve — café",
    "a\ud800b",
    "\udfff",
    "x" * 300,
    "<system-reminder>hi</system-reminder>",
    "[Request interrupted by user]",
    "\u2028line",
    "\x00nul",
]
IDS = [
    "toolu_1",
    "toolu_2",
    "toolu_3",
    "toolu_4",
    "call.5:6",
    "",
    "a" * 90,
    "toolu_1-2",
    "id\ud800",
]
NAMES = ["Bash", "Read", "mcp__srv__do it", "", "n" * 200, "Gone"]
MODELS = [
    "claude-opus-4-5",
    "claude-sonnet-5-5",
    "openai/gpt-5",
    "gemini-3",
    "<synthetic>",
    "",
    None,
    7,
]
MESSAGE_IDS = ["msg_a", "msg_b", "msg_c", "msg_d", "msg_e", None]
SCALARS: list[Any] = [None, True, 0, -1, 2**70, 1.5, "", "text", [], {}, [[]], {"a": {"b": []}}]
SERVER_KINDS = [
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "mcp_tool_result",
]
FOREIGN_KINDS = ["video", "guard_content", "reasoning", "cache_point", "brand_new", ""]
SUBTYPES = [
    "local_command",
    "api_error",
    "informational",
    "compact_boundary",
    "turn_duration",
    "brand_new",
]
ATTACHMENTS = [
    "environment",
    "queued_command",
    "file",
    "edited_text_file",
    "hook_success",
    "hook_additional_context",
    "date",
    "instructions",
    "nested_memory",
    "brand_new",
    None,
]


def png(width: int, height: int, padding: int = 0) -> str:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return base64.b64encode(head + b"\0" * padding).decode()


def image(random: Random) -> Block:
    data = random.choice(
        [png(10, 10), png(3000, 20), png(9000, 9000), png(0, 4), "", "!!", "AAAA", png(5, 5, 600)]
    )
    kind = random.choice(["image/png", "image/png", "image/png", "image/jpeg", "image/bmp", None])
    source = random.choice(
        [
            {"type": "base64", "media_type": kind, "data": data},
            {"type": "base64", "media_type": "image/png", "data": data},
            {"type": "url", "url": "https://example.org/a.png"},
            {"type": "file", "file_id": "file_1"},
            {"type": "path", "path": "a.png"},
            {"type": "base64"},
            None,
            "x",
        ]
    )
    return {"type": "image", "source": source}


def document(random: Random) -> Block:
    pdf = base64.b64encode(b"%PDF-1.7 hello").decode()
    source = random.choice(
        [
            {"type": "base64", "media_type": "application/pdf", "data": pdf},
            {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
            {"type": "text", "media_type": "text/plain", "data": "words"},
            {"type": "content", "content": "words"},
            {"type": "content", "content": []},
            {},
        ]
    )
    return {"type": "document", "source": source, "title": random.choice(["t", None])}


def text(random: Random) -> Block:
    block: Block = {"type": "text", "text": random.choice(WORDS)}
    if random.random() < 0.1:
        block["citations"] = random.choice(
            [
                None,
                [],
                [{"type": "char_location", "cited_text": "x", "file_id": "f"}],
                [{"type": "odd"}],
                [3],
                "x",
            ]
        )
    return block


def tool_use(random: Random) -> Block:
    given = random.choice([{}, {"command": "ls"}, {"a": [1, {"b": "\ud800"}]}, {"n": 2**80}])
    if random.random() < 0.15:
        given = random.choice(['{"broken', [], None, 3, deep(150), deep(250)])
    return {
        "type": "tool_use",
        "id": random.choice(IDS),
        "name": random.choice(NAMES),
        "input": given,
    }


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


def tool_result(random: Random) -> Block:
    content = random.choice(
        [
            "done",
            "",
            " ",
            None,
            [],
            [text(random)],
            [image(random), text(random)],
            [document(random)],
            [{"type": "tool_reference", "tool_name": random.choice(NAMES)}],
            [tool_use(random)],
            5,
            ["plain"],
        ]
    )
    block: Block = {"type": "tool_result", "tool_use_id": random.choice(IDS), "content": content}
    if random.random() < 0.3:
        block["is_error"] = random.choice([True, False, None, "yes"])
    return block


def thinking(random: Random) -> Block:
    return random.choice(
        [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "thinking", "thinking": "", "signature": "sig"},
            {"type": "thinking", "thinking": "hm"},
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "redacted_thinking"},
        ]
    )


def server_block(random: Random) -> Block:
    use_id = random.choice(["srvtoolu_1", "srvtoolu_2", "toolu_1", ""])
    if random.random() < 0.5:
        kind = random.choice(["server_tool_use", "mcp_tool_use"])
        block: Block = {"type": kind, "id": use_id, "name": "web_search", "input": {"query": "x"}}
        return block | ({"server_name": "s"} if kind == "mcp_tool_use" else {})
    return {"type": random.choice(SERVER_KINDS), "tool_use_id": use_id, "content": []}


def junk(random: Random) -> Any:
    return random.choice(
        [
            *SCALARS,
            {"type": random.choice(FOREIGN_KINDS), "x": random.choice(SCALARS)},
            {"type": 3},
            {
                "type": "search_result",
                "source": "s",
                "title": "t",
                "content": [{"type": "text", "text": "x"}],
            },
            {"type": "search_result"},
            {"type": "brand_new", "deep": deep(200)},
            {"type": "text", "text": "x", "extra": 1, "cache_control": {"type": "ephemeral"}},
            {"type": "container_upload", "file_id": "f"},
            {"type": "guard_content", "text": {"text": "guarded"}},
            {"type": "reasoning", "reasoning_text": {"text": "r"}},
        ]
    )


_ANY = (
    text,
    text,
    tool_use,
    tool_use,
    tool_result,
    tool_result,
    thinking,
    server_block,
    image,
    document,
    junk,
)
_ASSISTANT = (text, text, text, tool_use, tool_use, tool_use, thinking, server_block)
_USER = (text, text, tool_result, tool_result, tool_result, image)


def block(random: Random, usual: tuple[Any, ...]) -> Any:
    makers = usual if random.random() < 0.85 else _ANY
    return random.choice(makers)(random)


class _Writer:
    """Gives entries their ids, so that a history is one chain."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.entries: list[Entry] = []

    def add(self, kind: str, **fields: Any) -> None:
        number = len(self.entries)
        parent = self.entries[-1]["uuid"] if self.entries else None
        entry = {
            "type": kind,
            "uuid": f"uuid-{number}",
            "parentUuid": parent,
            "timestamp": "2026-01-01T00:00:00.000Z",
        }
        self.entries.append(entry | fields)

    def user(self, content: Any, **fields: Any) -> None:
        self.add("user", message={"role": "user", "content": content}, **fields)

    def assistant(
        self,
        message_id: Any,
        content: Any,
        stop: str = "end_turn",
        model: Any = "claude-opus-4-5",
        **fields: Any,
    ) -> None:
        message = {
            "id": message_id,
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": stop,
        }
        self.add("assistant", message=message, **fields)


def _ordinary_turn(w: _Writer, turn: int) -> None:
    r = w.random
    w.user(r.choice(["do it", [{"type": "text", "text": "look"}, image(r)]]))
    for _ in range(r.randrange(3)):
        w.add(
            "attachment",
            attachment={"type": "date"},
            rendered=[{"content": "<system-reminder>today</system-reminder>"}],
            renderedRole=r.choice(["user", "system"]),
        )
    for step in range(r.randrange(4)):
        message_id = f"msg_{turn}_{step}"
        if r.random() < 0.5:
            w.assistant(
                message_id, [{"type": "thinking", "thinking": "hm", "signature": "s"}], "tool_use"
            )
        if r.random() < 0.5:
            w.assistant(message_id, [{"type": "text", "text": "I look"}], "tool_use")
        ids = [f"toolu_{turn}_{step}_{n}" for n in range(r.randrange(1, 4))]
        for use_id in ids:
            w.assistant(
                message_id,
                [{"type": "tool_use", "id": use_id, "name": "Bash", "input": {"command": "ls"}}],
                "tool_use",
            )
        r.shuffle(ids)
        for use_id in ids:
            w.user([{"type": "tool_result", "tool_use_id": use_id, "content": "done"}])
    if r.random() < 0.15:
        w.user([{"type": "text", "text": "[Request interrupted by user]"}])
    else:
        w.assistant(f"msg_{turn}_end", [{"type": "text", "text": "done"}])
    if r.random() < 0.08:
        w.add(
            "system",
            subtype="compact_boundary",
            content="compacted",
            compactMetadata={"preservedMessages": {"uuids": [e["uuid"] for e in w.entries[-2:]]}},
        )
        if r.random() < 0.8:
            w.user("the story so far", isCompactSummary=True)


def _odd_entry(w: _Writer) -> None:
    r = w.random
    match r.randrange(8):
        case 0 | 1:
            content = r.choice(
                [
                    [block(r, _USER) for _ in range(r.randrange(4))],
                    r.choice(WORDS),
                    r.choice(SCALARS),
                ]
            )
            flags = {
                name: True
                for name in ("isMeta", "isVirtual", "isCompactSummary", "isVisibleInTranscriptOnly")
                if r.random() < 0.08
            }
            w.user(content, **flags)
        case 2 | 3 | 4:
            content = r.choice(
                [
                    [block(r, _ASSISTANT) for _ in range(r.randrange(4))],
                    r.choice(WORDS),
                    r.choice(SCALARS),
                ]
            )
            stop = r.choice(["end_turn", "tool_use", "pause_turn", "max_tokens", "refusal"])
            w.assistant(r.choice(MESSAGE_IDS), content, stop, r.choice(MODELS))
        case 5:
            words = r.choice(
                [
                    "API Error: image exceeds 5 MB maximum",
                    "API Error: PDF too large",
                    "API Error: overloaded",
                    "",
                ]
            )
            status = r.choice([400, 413, 529, None])
            w.assistant(
                "x",
                [{"type": "text", "text": words}],
                isApiErrorMessage=True,
                apiErrorStatus=status,
            )
        case 6:
            w.add(
                "system",
                subtype=r.choice(SUBTYPES),
                content=r.choice([*WORDS, None, 3]),
                isDisplayOnly=r.random() < 0.2,
                compactMetadata=r.choice(
                    [None, {}, {"preservedMessages": {"uuids": ["uuid-0", 3]}}]
                ),
            )
        case _:
            rendered = r.choice(
                [
                    None,
                    [],
                    [{"content": r.choice(WORDS)}],
                    [{"content": [block(r, _USER)]}],
                    [3],
                    "x",
                ]
            )
            payload = {
                "type": r.choice(ATTACHMENTS),
                "content": r.choice([*SCALARS, "words"]),
                "prompt": "queued",
                "files": r.choice([None, [{"path": "a", "content": "b"}], [3]]),
            }
            w.add(
                r.choice(["attachment", "attachment", "progress", "brand-new"]),
                attachment=r.choice([payload, None]),
                rendered=rendered,
                renderedRole=r.choice(["user", "system", None]),
            )


def _damage(random: Random, entries: list[Entry]) -> list[Entry]:
    """Damage entries: crashes, lost lines, lines out of order, duplicates, missing fields."""
    for _ in range(random.randrange(4)):
        if not entries:
            break
        at = random.randrange(len(entries))
        match random.randrange(6):
            case 0:
                entries = entries[:at]
            case 1:
                del entries[at]
            case 2:
                entries.insert(random.randrange(len(entries)), entries[at])
            case 3:
                entries.insert(random.randrange(len(entries)), entries.pop(at))
            case 4:
                gone = random.choice(list(entries[at]))
                entries[at] = {k: v for k, v in entries[at].items() if k != gone}
            case _:
                entries[at] = entries[at] | {
                    random.choice(list(entries[at])): random.choice(SCALARS)
                }
    return entries


def history(random: Random) -> list[Entry]:
    writer = _Writer(random)
    oddness = random.choice([0.0, 0.3, 1.0])
    for turn in range(random.randrange(1, 7)):
        if random.random() < oddness:
            for _ in range(random.randrange(6)):
                _odd_entry(writer)
        else:
            _ordinary_turn(writer, turn)
    return _damage(random, writer.entries) if random.random() < 0.7 else writer.entries
