"""The origin of each block of a conversation, and which origins are untrusted.

Owns the labels and how they are derived from an entry. Labels are computed from the history and
never stored, so a resumed session gets the same labels, even if another tool wrote it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias

from clew.core.json_object import Json
from clew.core.regex import lazy_pattern
from clew.permissions.request import MCP_PREFIX, PermissionRequest, paths_of, subject_of, tool_of

# `session` is text from clew itself, `file` is outside the workspace, `summary` replaces a
# compacted conversation.
Source = Literal[
    "user", "model", "session", "project", "file", "web", "mcp", "agent", "tool", "summary"
]
VOUCHED: frozenset[Source] = frozenset({"user", "model", "session"})
# Text from these origins is as trustworthy as the folder, because commands show its contents.
OF_THE_FOLDER: frozenset[Source] = frozenset({"project", "tool"})

ATTACHMENTS: dict[str, Source] = {
    "date": "session",
    "plan_mode": "session",
    "plan_mode_exit": "session",
    "environment": "session",
    "agent_listing_delta": "session",
    "agent_memory": "project",
    "agent_skills": "project",
    "deferred_tools_delta": "session",
    "directory": "project",
    "memory_note": "user",
    "session_context": "project",
    "directory_structure": "project",
    "skill_listing": "project",
    "mcp_resource": "mcp",
}
# The origin of a skill. The text of the user's own and installed skills is treated as the user's.
SKILLS: dict[str, Source] = {
    "managed": "user",
    "user": "user",
    "plugin": "user",
    "bundled": "session",
    "mcp": "mcp",
}
LAYERS: dict[str, Source] = {"Managed": "user", "User": "user"}

# Commands that can fetch text from elsewhere, recognized by their words. A false match only leads
# to a permission prompt.
NETWORK = lazy_pattern(
    r"://|/dev/(?:tcp|udp)\b|\b(?:curl|wget|https?|xh|aria2c|lynx|w3m|links|nc|ncat|netcat|telnet|socat"
    r"|ssh|scp|sftp|rsync|ftp|gh|glab|dig|nslookup|whois|git\b.*\b(?:clone|fetch|pull|ls-remote))\b"
)

# The end of a name whose file existed before: `toolu_1-0f3a92bc`.
STORED_AGAIN = lazy_pattern(r"-[0-9a-f]{8}\Z")

Place: TypeAlias = Callable[[str], Source]


class Provenance:
    """The origin labels of a growing conversation.

    `place` returns the label of a path: `project`, `file`, or `session` for a tool result that the
    session stored.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._calls: dict[str, Source] = {}
        self.sources: set[Source] = set()

    def extend(self, entries: Iterable[Json]) -> None:
        for entry in entries:
            self.sources.update(source for _, source in self.labelled(entry))

    def labelled(self, entry: Json) -> Iterator[tuple[Json, Source]]:
        """Yield every block of an entry with its origin. Pass the entries in order."""
        match entry.get("type"):
            case "assistant":
                for block in blocks_of(entry):
                    if block.get("type") == "tool_use":
                        self._calls[str(block.get("id"))] = self.of_call(block)
                    yield block, of_answer(block)
            case "user":
                origin = speaker(entry)
                for block in blocks_of(entry):
                    is_result = block.get("type") == "tool_result"
                    yield block, self._of_result(block) if is_result else origin
            case "attachment":
                payload = entry.get("attachment")
                if isinstance(payload, dict):
                    yield from ((payload, source) for source in self.of_attachment(payload))

    def _of_result(self, block: Json) -> Source:
        return self._calls.get(str(block.get("tool_use_id")), "tool")

    def of_call(self, block: Json) -> Source:
        """Return the origin of the text that a tool call returns."""
        name, arguments = str(block.get("name")), block.get("input")
        request = PermissionRequest(
            tool=name, input=arguments if isinstance(arguments, dict) else {}
        )
        match tool_of(name).family:
            case "fetch":
                return "web"
            case "agent" | "mcp" as family:
                return family
            case "skill":
                return "project"
            case "shell":
                return "web" if NETWORK.search(subject_of(request) or "") else "tool"
            case "read":
                return worst(self._of_file(path) for path in paths_of(request) or ())
            case _:
                mcp = name.startswith(MCP_PREFIX) or "Mcp" in name
                return "web" if name.startswith("Web") else "mcp" if mcp else "tool"

    def of_attachment(self, payload: Json) -> set[Source]:
        kind, files = str(payload.get("type")), payload.get("files")
        if isinstance(files, list):
            return {LAYERS.get(str(f.get("type")), "project") for f in files if isinstance(f, dict)}
        origins = payload.get("origins")
        if kind == "skill_listing" and isinstance(origins, list):
            return {SKILLS.get(str(origin), "project") for origin in origins}
        path = payload.get("filename")
        return {self._of_file(path) if isinstance(path, str) else ATTACHMENTS.get(kind, "tool")}

    def _of_file(self, path: str) -> Source:
        """Return the origin of a file's text. A stored result has the origin of its call.

        The name of a stored result begins with the ID of its call. If the conversation does not
        contain this call, the origin is `file`, because the result could be from anywhere.
        """
        source = self._place(path)
        if source != "session":
            return source
        name = path.rpartition("/")[2].partition(".")[0]
        return self._calls.get(name, self._calls.get(STORED_AGAIN.sub("", name), "file"))

    def unvouched(self, *, is_trusted: bool) -> tuple[Source, ...]:
        """Return the untrusted origins seen so far.

        In a trusted folder, the folder's own text is trusted as well.
        """
        vouched = VOUCHED | OF_THE_FOLDER if is_trusted else VOUCHED
        return tuple(sorted(self.sources - vouched))


def of_answer(block: Json) -> Source:
    """Return the origin of a block in the model's answer.

    The origin is the model, except for results that the service itself looked up.
    """
    kind = str(block.get("type"))
    if not kind.endswith("_tool_result"):
        return "model"
    return "mcp" if kind.startswith("mcp") else "web"


def worst(sources: Iterable[Source]) -> Source:
    every = sorted(set(sources), key=lambda source: (source in OF_THE_FOLDER, source))
    return every[0] if every else "project"


def speaker(entry: Json) -> Source:
    """Return the origin of the text in a user entry."""
    if entry.get("isCompactSummary"):
        return "summary"
    origin = entry.get("origin")
    fields = origin if isinstance(origin, dict) else {}
    kind = fields.get("kind", "human")
    if kind == "skill":
        return SKILLS.get(str(fields.get("source")), "project")
    if entry.get("isMeta"):
        return "session"
    return "user" if kind == "human" else "tool"


def blocks_of(entry: Json) -> list[Json]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
