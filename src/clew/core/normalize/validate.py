"""Check that an outgoing request follows all rules, independent of how it was built.

`validate` accepts any input and returns every reason for which the service would reject it, each
with its rule (V1 to V9 of docs/internals/requests.md) and its place. `Validator` checks messages as
they are added, so that a long conversation is checked only once.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from clew.core.catalog.models import SAMPLING, is_later
from clew.core.normalize import shapes
from clew.core.normalize.block_rules import BlockJudge, RequestViolation, is_plain, kind_of
from clew.core.normalize.target import Target

_encode = msgspec.json.Encoder().encode
MAX_CACHE_MARKS = 4


def validate(
    messages: Any, target: Target, *, system: Any = None, tools: Any = None
) -> list[RequestViolation]:
    """Return the violations in a request's `system`, `tools` and `messages`."""
    validator = Validator(target)
    validator.system(system)
    validator.tools(tools)
    if type(messages) is not list:
        validator.say("V1", "messages", "must be a list")
        messages = []
    for message in messages:
        validator.add(message)
    validator.close()
    return validator.found


def validate_body(body: dict[str, Any], target: Target) -> list[RequestViolation]:
    """Return the violations in a complete request body, including its parameters."""
    messages = body.get("messages")
    unknown = [name for name in SAMPLING if name in body and is_later(target.api_version)]
    faults = [
        RequestViolation(
            rule="V1", where=name, what=f"is not supported in API version {target.api_version}"
        )
        for name in unknown
    ]
    faults += validate(messages, target, system=body.get("system"), tools=body.get("tools"))
    thinking = body.get("thinking")
    most = body.get("max_tokens")
    if type(most) is not int or most < 1:
        faults.append(
            RequestViolation(rule="V8", where="max_tokens", what="must be a positive integer")
        )
    elif isinstance(thinking, dict) and thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens")
        if type(budget) is not int or not 1024 <= budget < most:
            what = f"must be at least 1024 and less than max_tokens ({most})"
            faults.append(RequestViolation(rule="V8", where="thinking.budget_tokens", what=what))
        if not thinking_can_be_on(messages if isinstance(messages, list) else []):
            what = "is enabled, but the current turn began without thinking"
            faults.append(RequestViolation(rule="V5", where="thinking", what=what))
    return faults


def thinking_can_be_on(messages: list[dict[str, Any]]) -> bool:
    """Return whether a request with these messages may have a thinking budget.

    It may not have one within a sequence of tool calls that began without thinking, or whose
    thinking was dropped.
    """
    if not messages or not _holds(messages[-1], "tool_result"):
        return True
    answer = next((m for m in reversed(messages) if m.get("role") == "assistant"), None)
    content = answer.get("content") if answer else None
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and first.get("type") in shapes.THINKING


def _holds(message: dict[str, Any], kind: str) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return any(isinstance(b, dict) and b.get("type") == kind for b in blocks)


class Validator:
    """Checks a request's messages in order; violations are added to `found` and never removed.

    Use `branch` for the part of a request that will still change: a branch checks messages without
    adding them here.
    """

    def __init__(self, target: Target) -> None:
        self.found: list[RequestViolation] = []
        self._target = target
        self._index = 0
        self._role = ""
        self._ids: set[str] = set()
        self._earlier_ids: frozenset[str] | set[str] = frozenset()
        self._open: list[str] = []  # calls of the last assistant message
        self._server_open: set[str] = set()
        self._server_here: set[str] = set()  # server calls of the last assistant message
        self._ends_paused = False
        self._bytes = 0
        self._has_calls = False
        self._blocks = BlockJudge(target, self.found)

    def branch(self) -> "Validator":
        """Return a copy with its own findings.

        The copy shares state, so do not use the original until you have discarded the copy.
        """
        other = Validator.__new__(Validator)
        other.__dict__.update(self.__dict__)
        other.found = list(self.found)
        other._ids = set()
        other._earlier_ids = self._ids
        other._open = list(self._open)
        other._server_open = set(self._server_open)
        other._server_here = set(self._server_here)
        other._blocks = self._blocks.branch(other.found)
        return other

    def say(self, rule: str, where: str, what: str) -> None:
        self.found.append(RequestViolation(rule=rule, where=where, what=what))

    # System and tools

    def system(self, system: Any) -> None:
        if system is None:
            return
        if isinstance(system, str):
            system = [{"type": "text", "text": system}]
        if type(system) is not list:
            self.say("V1", "system", "must be a string or a list")
            return
        for index, block in enumerate(system):
            self._blocks.only_text(block, f"system[{index}]")
        self._bytes += self._size(system, "system")

    def tools(self, tools: Any) -> None:
        if tools is not None and type(tools) is not list:
            self.say("V1", "tools", "must be a list")
            tools = []
        names: set[str] = set()
        for index, tool in enumerate(tools or ()):
            where = f"tools[{index}]"
            if type(tool) is not dict:
                self.say("V1", where, "must be an object")
                continue
            name = tool.get("name")
            if not shapes.is_word(name, self._target.max_tool_name):
                self.say("V9", f"{where}.name", "is not a valid tool name")
            elif name in names:
                self.say("V9", f"{where}.name", "is already used by an earlier tool")
            names.add(str(name))
            self._blocks.marks += "cache_control" in tool
            if tool.get("type", "custom") == "custom":
                self._own_tool(tool, where)
        if tools is not None:
            self._blocks.tools = frozenset(names)
            self._bytes += self._size(tools, "tools")

    def _own_tool(self, tool: dict[str, Any], where: str) -> None:
        for extra in tool.keys() - shapes.TOOL_FIELDS:
            self.say("V1", f"{where}.{extra}", "is not a field of a tool")
        schema = tool.get("input_schema")
        if type(schema) is not dict or schema.get("type") != "object":
            self.say("V1", f"{where}.input_schema", 'must be a JSON schema of type "object"')

    # Messages

    def add(self, message: Any) -> None:
        """Check the next message."""
        index = self._index
        self._index += 1
        if type(message) is not dict:
            self.say("V1", f"messages[{index}]", "must be an object")
            return
        role = message.get("role")
        self._ends_paused = False
        fields = shapes.MESSAGE_FIELDS.get(role) if type(role) is str else None
        if fields is None:
            self.say("V1", f"messages[{index}].role", "is not a valid role")
            return
        if not message.keys() <= fields:
            for extra in message.keys() - fields:
                self.say("V1", f"messages[{index}].{extra}", "is not a field of a message")
        if role == "system":
            self._system_message(message, index)
        else:
            self._turn(message, str(role), index)
        self._bytes += self._size(message, "messages", index)

    def _system_message(self, message: dict[str, Any], index: int) -> None:
        where = f"messages[{index}]"
        if not self._target.system_messages:
            self.say("V2", where, "is a system message, which this model does not support")
        if self._role != "user":
            self.say("V2", where, "is a system message that does not follow a user message")
        self._role = "system"
        for place, block in enumerate(self._content(message, index)):
            self._blocks.only_text(block, f"{where}.content[{place}]")

    def _turn(self, message: dict[str, Any], role: str, index: int) -> None:
        if role == self._role or (role == "user" and self._role == "system"):
            self.say("V2", f"messages[{index}]", f"follows another {role} message")
        if not self._role and role != "user":
            self.say("V2", f"messages[{index}]", "must be a user message, because it is the first")
        self._role = role
        blocks = self._content(message, index)
        if role == "user":
            self._user(blocks, index)
        else:
            self._unanswered(index)
            self._assistant(blocks, index)

    def _content(self, message: dict[str, Any], index: int) -> list[Any]:
        content = message.get("content")
        if type(content) is str:
            return [{"type": "text", "text": content}]
        if type(content) is not list:
            self.say("V1", f"messages[{index}].content", "must be a string or a list")
            return []
        if not content:
            self.say("V4", f"messages[{index}].content", "is empty")
        return content

    def _user(self, blocks: list[Any], index: int) -> None:
        left = self._open
        self._open = []
        others = False
        for place, block in enumerate(blocks):
            kind = kind_of(block)
            if kind == "tool_result":
                if others:
                    self.say("V3", self._at(index, place), "is a tool result after other content")
                self._result(block, left, index, place)
            else:
                others = True
                if kind not in shapes.USER:
                    self.say(
                        "V1",
                        self._at(index, place),
                        f"is not allowed in a user message: {kind or 'unknown block'}",
                    )
                    continue
            if not is_plain(block, kind):
                self._blocks.judge(block, kind, self._at(index, place))
                self._blocks.uncited(block, kind, self._at(index, place))
        if others and self._server_here:
            self.say(
                "V3",
                f"messages[{index}]",
                "contains content other than tool results while a server tool call is pending",
            )
        for use_id in left:
            self.say("V3", f"messages[{index}]", f"has no result for the call {use_id}")

    def _result(self, block: dict[str, Any], left: list[str], index: int, place: int) -> None:
        self._has_calls = True
        use_id = block.get("tool_use_id")
        if use_id in left:
            left.remove(use_id)
        else:
            self.say(
                "V3", self._at(index, place), "does not match an open call in the previous message"
            )

    def _unanswered(self, index: int) -> None:
        for use_id in self._open:
            self.say("V3", f"messages[{index}]", f"comes before the result of the call {use_id}")
        self._open = []

    def _assistant(self, blocks: list[Any], index: int) -> None:
        kind = ""
        self._server_here = set()
        for place, block in enumerate(blocks):
            before, kind = kind, kind_of(block)
            if before == "tool_use" != kind:
                self.say("V3", self._at(index, place), "comes after a tool call")
            if kind == "document" and not is_later(self._target.api_version):
                pass
            elif kind in shapes.NOT_ASSISTANT or kind in shapes.FOREIGN or not kind:
                self.say(
                    "V1",
                    self._at(index, place),
                    f"is not allowed in an assistant message: {kind or 'unknown block'}",
                )
                continue
            if kind == "tool_use":
                self._call(block, index, place)
            elif kind in shapes.SERVER_USES or kind in shapes.SERVER_RESULTS:
                self._server(block, kind, index, place)
            if not is_plain(block, kind):
                self._blocks.judge(block, kind, self._at(index, place))
        if kind in shapes.THINKING:
            self.say("V5", f"messages[{index}]", "ends with a thinking block")
        self._ends_paused = kind in shapes.SERVER_USES or kind in shapes.SERVER_RESULTS

    def _call(self, block: dict[str, Any], index: int, place: int) -> None:
        use_id = block.get("id")
        self._has_calls = True
        if not shapes.is_word(use_id, self._target.max_id):
            self.say("V3", f"{self._at(index, place)}.id", "is not a valid ID")
        elif self._is_taken(str(use_id)):
            self.say("V3", f"{self._at(index, place)}.id", "is already used by an earlier call")
        if not shapes.is_word(block.get("name"), self._target.max_tool_name):
            self.say("V3", f"{self._at(index, place)}.name", "is not a valid tool name")
        if shapes.is_too_deep(block.get("input")):
            self.say("V6", f"{self._at(index, place)}.input", "is nested too deeply")
        self._open.append(str(use_id))

    def _is_taken(self, use_id: str) -> bool:
        if use_id in self._ids or use_id in self._earlier_ids:
            return True
        self._ids.add(use_id)
        return False

    def _server(self, block: dict[str, Any], kind: str, index: int, place: int) -> None:
        where = self._at(index, place)
        if not self._target.server_tools:
            self.say("V1", where, "belongs to a server tool of another platform")
        if kind in shapes.SERVER_USES:
            use_id = str(block.get("id"))
            if self._is_taken(use_id):
                self.say("V3", f"{where}.id", "is already used by an earlier call")
            self._server_open.add(use_id)
            self._server_here.add(use_id)
        elif (use_id := str(block.get("tool_use_id"))) in self._server_open:
            self._server_open.discard(use_id)
            self._server_here.discard(use_id)
        else:
            self.say("V3", where, "does not match an open server tool call")

    @staticmethod
    def _at(index: int, place: int) -> str:
        return f"messages[{index}].content[{place}]"

    def _size(self, value: Any, where: str, index: int | None = None) -> int:
        try:
            return len(_encode(value))
        except (UnicodeEncodeError, RecursionError, TypeError, ValueError) as fault:
            place = where if index is None else f"{where}[{index}]"
            self.say("V1", place, f"cannot be encoded as JSON: {type(fault).__name__}")
            return 0

    def close(self) -> None:
        """Check properties of the entire request: its end, its size, and its number of images."""
        target = self._target
        if not self._role:
            self.say("V4", "messages", "is empty")
        for use_id in self._open:
            self.say("V3", "messages", f"ends before the result of the call {use_id}")
        if self._role == "assistant" and not (target.prefill or self._ends_paused):
            self.say(
                "V4",
                "messages",
                "ends with an assistant message, which this model does not support",
            )
        if self._blocks.images > target.max_images:
            self.say(
                "V8",
                "messages",
                f"has {self._blocks.images} images, more than the limit of {target.max_images}",
            )
        if self._blocks.documents > target.max_documents:
            self.say(
                "V8",
                "messages",
                f"has {self._blocks.documents} documents, more than the limit of {target.max_documents}",
            )
        if self._blocks.images > target.crowd:
            for where, longest in self._blocks.oversized:
                self.say(
                    "V8",
                    where,
                    f"has a side of {longest} pixels, too long for a request with this many images",
                )
        if self._bytes > target.max_body_bytes:
            self.say(
                "V8",
                "messages",
                f"has {self._bytes} bytes, more than the limit of {target.max_body_bytes}",
            )
        if self._blocks.marks > MAX_CACHE_MARKS:
            self.say(
                "V1",
                "cache_control",
                f"is used {self._blocks.marks} times, more than the limit of {MAX_CACHE_MARKS}",
            )
        if self._has_calls and not self._blocks.tools and self._blocks.tools is not None:
            self.say("V3", "tools", "is empty, but the messages contain tool calls")


def violations(faults: Iterable[RequestViolation]) -> str:
    """Format the violations as lines for the user."""
    return "\n".join(f"{v.rule} {v.where} {v.what}" for v in faults)
