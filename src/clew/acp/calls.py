"""A tool call as a client shows it: its kind, its files, the change it makes.

Pure: the text of a file that a call will change is handed in. A diff is a whole file where that is
known, else the part that is replaced.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from clew.acp.content import as_content, shown
from clew.jsonrpc.wire import a_list, a_text, an_object
from clew.session.state import Todo

Json: TypeAlias = dict[str, Any]
# The text of a file; None where there is none, or none that can be shown.
ReadFile: TypeAlias = Callable[[str], str | None]

KINDS = {
    "Read": "read",
    "LS": "search",
    "Glob": "search",
    "Grep": "search",
    "LSP": "search",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "edit",
    "NotebookEdit": "edit",
    "Bash": "execute",
    "PowerShell": "execute",
    "Monitor": "execute",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "Agent": "think",
    "TodoWrite": "think",
    "ExitPlanMode": "switch_mode",
    "EnterPlanMode": "switch_mode",
}
PATHS = ("file_path", "notebook_path", "path")


def kind_of(name: str) -> str:
    return KINDS.get(name, "other")


def described(block: Json, title: str, cwd: str, read_file: ReadFile) -> Json:
    """What is known of a call before it runs."""
    given = an_object(block.get("input"))
    name = a_text(block.get("name"))
    fields: Json = {
        "title": title or name,
        "kind": kind_of(name),
        "rawInput": given,
        "locations": locations(given, cwd),
    }
    changes = proposed(name, given, cwd, read_file)
    return fields | ({"content": changes} if changes else {})


def locations(given: Json, cwd: str) -> list[Json]:
    for key in PATHS:
        path = a_text(given.get(key))
        if path:
            place: Json = {"path": absolute(path, cwd)}
            line = given.get("offset")
            return [place | {"line": line} if type(line) is int and line > 0 else place]
    return []


def absolute(path: str, cwd: str) -> str:
    return path if path.startswith("/") else f"{cwd}/{path}"


def proposed(name: str, given: Json, cwd: str, read_file: ReadFile) -> list[Json]:
    """The changes that a call would make, as diffs."""
    path = absolute(a_text(given.get("file_path")), cwd)
    match name:
        case "Write":
            return [diff(path, read_file(path), a_text(given.get("content")))]
        case "Edit":
            return [diff(path, a_text(given.get("old_string")), a_text(given.get("new_string")))]
        case "MultiEdit":
            steps = [an_object(step) for step in a_list(given.get("edits"))]
            return [
                diff(path, a_text(step.get("old_string")), a_text(step.get("new_string")))
                for step in steps
            ]
    return []


def diff(path: str, before: str | None, after: str) -> Json:
    return {"type": "diff", "path": path, "oldText": before, "newText": after}


def made(content: Any, result: Any) -> list[Json]:
    """What a call came to: the change that it made, else what it gave back."""
    done = an_object(result)
    path = a_text(done.get("filePath"))
    whole = "originalFile" if "originalFile" in done else "originalFileContents"
    if path and whole in done:
        before = done[whole]
        if "content" in done:
            return [diff(path, before if isinstance(before, str) else None, done["content"])]
        steps = a_list(done.get("edits")) or [replacement(done)]
        if isinstance(before, str):
            return [diff(path, before, changed(before, steps))]
        return [diff(path, a_text(s.get("old_string")), a_text(s.get("new_string"))) for s in steps]
    return as_content(shown(content))


def replacement(done: Json) -> Json:
    return {
        "old_string": a_text(done.get("oldString")),
        "new_string": a_text(done.get("newString")),
        "replace_all": done.get("replaceAll"),
    }


def changed(text: str, steps: Sequence[Any]) -> str:
    for step in map(an_object, steps):
        old, new = a_text(step.get("old_string")), a_text(step.get("new_string"))
        if old:
            text = text.replace(old, new, -1 if step.get("replace_all") is True else 1)
    return text


def plan(todos: Sequence[Todo]) -> Json:
    """The list of what is to do; the protocol wants a priority, and there is but one here."""
    return {
        "sessionUpdate": "plan",
        "entries": [
            {"content": todo.content, "priority": "medium", "status": todo.status} for todo in todos
        ],
    }
