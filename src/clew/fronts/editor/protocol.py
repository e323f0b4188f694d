"""The data of the Agent Client Protocol, version 1: capabilities and message formats.

The names of fields and constants come from the protocol (agentclientprotocol.com). This module does
no I/O and does not depend on sessions.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.input import Pasted
from clew.core.json_object import Json
from clew.core.ledger.state import TodoItem
from clew.system.jsonrpc.peer import Dialect
from clew.system.jsonrpc.wire import as_list, as_object, as_text, path_of
from clew.version import VERSION as CLEW

VERSION = 1
AUTH_REQUIRED = -32000
NOT_FOUND = -32002
CANCELLED = -32800

DIALECT = Dialect(
    cancel_method="$/cancel_request",
    cancel_key="requestId",
    # Requests report no progress; sessions send updates.
    progress_method="",
    progress_key="",
    cancelled_code=CANCELLED,
)

OFFERED: Json = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True, "acp": True},
    "sessionCapabilities": {
        "list": {},
        "resume": {},
        "fork": {},
        "close": {},
        "additionalDirectories": {},
    },
}
BY_KEY = "api-key"
BY_TERMINAL = "login"


class ClientAbilities:
    """The abilities that a client has declared."""

    __slots__ = ("asks", "logs_in", "reads", "runs", "writes")

    def __init__(self, capabilities: Any = None) -> None:
        abilities = as_object(capabilities)
        files = as_object(abilities.get("fs"))
        self.reads = files.get("readTextFile") is True
        self.writes = files.get("writeTextFile") is True
        self.runs = abilities.get("terminal") is True
        self.logs_in = as_object(abilities.get("auth")).get("terminal") is True
        # Whether the client supports forms, in which the user answers several questions.
        self.asks = isinstance(as_object(abilities.get("elicitation")).get("form"), dict)


def make_initialize_answer(offer: ClientAbilities) -> Json:
    """Return the answer to `initialize`, always with this version of the protocol.

    The client decides whether to continue with it.
    """
    return {
        "protocolVersion": VERSION,
        "agentInfo": {"name": "clew", "title": "clew", "version": CLEW},
        "agentCapabilities": OFFERED,
        "authMethods": auth_methods(offer),
    }


def auth_methods(offer: ClientAbilities) -> list[Json]:
    methods: list[Json] = [
        {
            "id": BY_KEY,
            "name": "API key",
            "description": "The key in ANTHROPIC_API_KEY, or the key that `clew login` saved",
        }
    ]
    if offer.logs_in:
        methods.append(
            {
                "id": BY_TERMINAL,
                "name": "Log in",
                "description": "Enter an API key in a terminal; clew saves it",
                "type": "terminal",
                "args": ["login"],
            }
        )
    return methods


# Conversion of content: a client's blocks into a prompt, the API's blocks into a client's.


# A larger image does not fit into a line that every client can read.
MAX_IMAGE_CHARS = 700_000


class EditorPrompt(Struct, frozen=True, kw_only=True):
    """A prompt from a client. `left_out` lists the parts that the model cannot receive."""

    text: str
    embedded: str = ""
    images: tuple[Pasted, ...] = ()
    left_out: tuple[str, ...] = ()


class _Reading:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.embedded: list[str] = []
        self.images: list[Pasted] = []
        self.left_out: list[str] = []

    def take(self, block: Json) -> None:
        match block.get("type"):
            case "text":
                self.text.append(as_text(block.get("text")))
            case "image":
                self._image(block.get("data"), as_text(block.get("mimeType")))
            case "resource_link":
                self.text.append(link(as_text(block.get("uri")), as_text(block.get("name"))))
            case "resource":
                self._resource(as_object(block.get("resource")))
            case kind:
                self.left_out.append(f"{kind or 'a block without a type'}")

    def _image(self, data: Any, media_type: str) -> None:
        try:
            decoded = base64.b64decode(as_text(data), validate=True)
        except binascii.Error:
            decoded = b""
        image = Pasted(number=len(self.images) + 1, data=decoded)
        if image.media_type is None:
            self.left_out.append(f"unsupported image ({media_type or 'unknown type'})")
        else:
            self.images.append(image)

    def _resource(self, resource: Json) -> None:
        uri, media_type = as_text(resource.get("uri")), as_text(resource.get("mimeType"))
        if isinstance(resource.get("text"), str):
            self.text.append(named(uri))
            self.embedded.append(f'<context ref="{uri}">\n{resource["text"]}\n</context>')
        elif media_type.startswith("image/"):
            self._image(resource.get("blob"), media_type)
        else:
            self.left_out.append(f"{named(uri)} ({media_type or 'unknown type'})")


def prompt_of(blocks: Any) -> EditorPrompt:
    """Convert the content blocks of a client's prompt, in order."""
    reading = _Reading()
    for block in as_list(blocks):
        reading.take(as_object(block))
    return EditorPrompt(
        text="".join(reading.text),
        embedded="\n".join(reading.embedded),
        images=tuple(reading.images),
        left_out=tuple(reading.left_out),
    )


def link(uri: str, name: str) -> str:
    """Return a link as text. A link to a file becomes a mention with its line range."""
    path = path_of(uri)
    if not path or '"' in path or "\n" in path:
        return f"[{name or uri}]({uri})"
    fragment = uri.partition("#")[2]
    lines = f"#{fragment}" if fragment[:1] == "L" else ""
    return f'@"{path}{lines}"'


def named(uri: str) -> str:
    """Return the name by which the text of a prompt refers to attached content."""
    return f"[{path_of(uri).rpartition('/')[2] or uri}]({uri})"


# -- output


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def render_blocks(blocks: Any) -> list[Json]:
    """Return the blocks of a message or result that a client can show."""
    if isinstance(blocks, str):
        return [text(blocks)] if blocks else []
    return [item for block in as_list(blocks) if (item := one(as_object(block))) is not None]


def one(block: Json) -> Json | None:
    source = as_object(block.get("source"))
    match block.get("type"):
        case "text":
            return text(as_text(block.get("text"))) if block.get("text") else None
        case "image" if len(data := as_text(source.get("data"))) in range(1, MAX_IMAGE_CHARS):
            return {"type": "image", "data": data, "mimeType": as_text(source.get("media_type"))}
        case "image" | "document":
            return text(f"[{block['type']}]")
    return None


def as_content(blocks: Iterable[Json]) -> list[Json]:
    """Wrap content blocks in the form that tool calls require."""
    return [{"type": "content", "content": block} for block in blocks]


# The model's questions as one form in an editor, and its answers.


def form_of(questions: Sequence[Json]) -> Json:
    """Return the schema of the form for these questions."""
    properties: Json = {}
    for number, question in enumerate(questions, 1):
        choices = [
            {"const": str(option["label"]), "title": titled(option)}
            for option in question["options"]
        ]
        field: Json = {"title": str(question["question"])}
        if question.get("multiSelect"):
            field |= {"type": "array", "items": {"anyOf": choices}}
        else:
            field |= {"type": "string", "oneOf": choices}
        properties[f"q{number}"] = field
        properties[f"q{number}_own"] = {"type": "string", "title": "Other answer"}
    return {"type": "object", "properties": properties}


def titled(option: Json) -> str:
    description = option.get("description")
    return f"{option['label']}: {description}" if description else str(option["label"])


def answers_of(questions: Sequence[Json], content: Any) -> dict[str, str]:
    """Return the answers to the questions in a form. Skipped questions have no answer."""
    fields = as_object(content)
    answers: dict[str, str] = {}
    for number, question in enumerate(questions, 1):
        chosen = fields.get(f"q{number}")
        words = [choice for choice in as_list(chosen) if isinstance(choice, str)] or [
            as_text(chosen)
        ]
        all_answers = [
            word for word in (*words, as_text(fields.get(f"q{number}_own")).strip()) if word
        ]
        if all_answers:
            answers[str(question["question"])] = ", ".join(all_answers)
    return answers


# Tool calls for a client: kind, files, and the proposed change.


# Returns the text of a file, or None if it does not exist or cannot be shown.
ReadFile: TypeAlias = Callable[[str], str | None]

KINDS = {
    "Read": "read", "LS": "search", "Glob": "search", "Grep": "search", "LSP": "search",
    "Edit": "edit", "MultiEdit": "edit", "Write": "edit", "NotebookEdit": "edit", "Bash": "execute",
    "PowerShell": "execute", "Monitor": "execute", "WebFetch": "fetch", "WebSearch": "fetch",
    "Agent": "think", "TodoWrite": "think", "ExitPlanMode": "switch_mode",
    "EnterPlanMode": "switch_mode",
}  # fmt: skip
PATHS = ("file_path", "notebook_path", "path")


def kind_of(name: str) -> str:
    return KINDS.get(name, "other")


def describe_call(block: Json, title: str, cwd: str, read_file: ReadFile) -> Json:
    """Describe a call before it runs."""
    arguments = as_object(block.get("input"))
    name = as_text(block.get("name"))
    fields: Json = {
        "title": title or name,
        "kind": kind_of(name),
        "rawInput": arguments,
        "locations": locations(arguments, cwd),
    }
    changes = proposed(name, arguments, cwd, read_file)
    return fields | ({"content": changes} if changes else {})


def locations(arguments: Json, cwd: str) -> list[Json]:
    for key in PATHS:
        path = as_text(arguments.get(key))
        if path:
            place: Json = {"path": absolute(path, cwd)}
            line = arguments.get("offset")
            return [place | {"line": line} if type(line) is int and line > 0 else place]
    return []


def absolute(path: str, cwd: str) -> str:
    return path if path.startswith("/") else f"{cwd}/{path}"


def proposed(name: str, arguments: Json, cwd: str, read_file: ReadFile) -> list[Json]:
    """Return the changes that a call would make, as diffs."""
    path = absolute(as_text(arguments.get("file_path")), cwd)
    match name:
        case "Write":
            return [diff(path, read_file(path), as_text(arguments.get("content")))]
        case "Edit":
            return [
                diff(
                    path, as_text(arguments.get("old_string")), as_text(arguments.get("new_string"))
                )
            ]
        case "MultiEdit":
            steps = [as_object(step) for step in as_list(arguments.get("edits"))]
            return [
                diff(path, as_text(step.get("old_string")), as_text(step.get("new_string")))
                for step in steps
            ]
    return []


def diff(path: str, before: str | None, after: str) -> Json:
    return {"type": "diff", "path": path, "oldText": before, "newText": after}


def describe_result(content: Any, result: Any) -> list[Json]:
    """Return the result of a call for display: the change it made, or otherwise its output."""
    done = as_object(result)
    path = as_text(done.get("filePath"))
    key = "originalFile" if "originalFile" in done else "originalFileContents"
    if path and key in done:
        before = done[key]
        if "content" in done:
            return [diff(path, before if isinstance(before, str) else None, done["content"])]
        steps = as_list(done.get("edits")) or [replacement(done)]
        if isinstance(before, str):
            return [diff(path, before, changed(before, steps))]
        return [
            diff(path, as_text(s.get("old_string")), as_text(s.get("new_string"))) for s in steps
        ]
    return as_content(render_blocks(content))


def replacement(done: Json) -> Json:
    return {
        "old_string": as_text(done.get("oldString")),
        "new_string": as_text(done.get("newString")),
        "replace_all": done.get("replaceAll"),
    }


def changed(text: str, steps: Sequence[Any]) -> str:
    for step in map(as_object, steps):
        old, new = as_text(step.get("old_string")), as_text(step.get("new_string"))
        if old:
            text = text.replace(old, new, -1 if step.get("replace_all") is True else 1)
    return text


def plan(todos: Sequence[TodoItem]) -> Json:
    """Return the to-do list as a plan.

    The protocol requires a priority for each item, so all items get the same one.
    """
    return {
        "sessionUpdate": "plan",
        "entries": [
            {"content": todo.content, "priority": "medium", "status": todo.status} for todo in todos
        ],
    }
