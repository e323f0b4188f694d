"""Describes what was observed in lines that must be the same for both programs.

Of texts, only the words of the scenario count: wording is each program's own. What is left out here
is left out for every trial, and `LEFT_OUT` says why.
"""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from tests.compat.oracle.programs import WORD, Observed, kind_of
from tests.compat.oracle.trial import Json

LEFT_OUT = {
    "system/thinking_tokens": "clew has no such feature (tests/compat/published.tsv)",
    "command_lifecycle": "not in the published types; results name the prompts that they answer",
    "event/ping": "clew sends every event of the service",
}
# Tools that both programs have.
COMMON_TOOLS = ("Bash", "Edit", "Read", "Write")
RESULT_FIELDS = (
    "is_error", "num_turns", "stop_reason", "terminal_reason", "api_error_status",
    "api_error_type", "structured_output",
)  # fmt: skip
SYSTEM_FIELDS = {
    "init": ("model", "permissionMode"),
    "api_retry": ("attempt", "max_retries", "error_status", "error"),
    "task_notification": ("status",),
    "compact_boundary": (),
}


class Description:
    """The lines of one program's observation."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._last = ""

    def lines(self) -> list[str]:
        observed = self._observed
        lines = [line for frame in observed.frames for line in self._frame(frame)]
        lines += [f"output {self._text(line)}" for line in observed.lines]
        if not observed.is_hosted:
            lines += [f"error output {text}" for text in [self._text(observed.errors)] if text]
        lines += [f"exit {code}" for code in observed.exits]
        lines += list(self._requests())
        lines += [f"file {path}" for path in self._files()]
        return lines

    def _text(self, text: Any) -> str:
        """Return the scenario's words in a text, "..." for a text without one, "" for none."""
        if not isinstance(text, str):
            text = "" if text is None else json.dumps(text)
        found = [word for word in WORD.findall(text) if word in self._observed.words]
        return " ".join(found) or ("..." if text.strip() else "")

    def _value(self, value: Any) -> str:
        """Return a value in which paths do not depend on the folder."""
        return json.dumps(value, sort_keys=True).replace(str(self._observed.work), "{work}")

    def _frame(self, frame: Json) -> Iterator[str]:
        kind = kind_of(frame)
        if kind in LEFT_OUT or kind == "control_response/start":
            return
        match frame["type"]:
            case "control_response":
                yield f"{kind} {frame['response']['subtype']}"
            case "control_request":
                yield from self._asked(frame["request"])
            case "system":
                fields = SYSTEM_FIELDS.get(frame["subtype"], ())
                yield " ".join([kind, *(f"{n}={frame.get(n)}" for n in fields)])
                if kind == "system/init":
                    yield f"  tools {[name for name in COMMON_TOOLS if name in frame['tools']]}"
            case "stream_event":
                line = " ".join(
                    [kind, str(frame["event"].get("delta", {}).get("type", ""))]
                ).strip()
                # How a block is divided over events is up to the program.
                if line != self._last or kind != "event/content_block_delta":
                    yield line
                self._last = line
            case "assistant" | "user":
                yield from self._message(frame)
            case "result":
                yield from self._result(frame)
            case _:
                yield kind

    def _asked(self, request: Json) -> Iterator[str]:
        match request["subtype"]:
            case "can_use_tool":
                yield f"asks about {request['tool_name']} {self._value(request['input'])}"
            case "hook_callback":
                given = request["input"]
                event = given["hook_event_name"]
                tool = given.get("tool_name", "")
                tool_input = self._value(given["tool_input"]) if "tool_input" in given else ""
                yield f"hook {event} {tool} {tool_input}".rstrip()
            case "mcp_message":
                message = request["message"]
                if message["method"] == "tools/call":
                    params = message["params"]
                    yield f"calls {params['name']} {self._value(params['arguments'])}"
            case subtype:
                yield f"asks {subtype}"

    def _message(self, frame: Json) -> Iterator[str]:
        of = "subagent " if frame.get("parent_tool_use_id") else ""
        replayed = " replayed" if frame.get("isReplay") else ""
        names = ("error", "api_error_type")
        error = "".join(f" {name}={frame[name]}" for name in names if frame.get(name))
        for block in self._blocks(frame["message"]["content"]):
            yield f"{of}{frame['type']}{replayed}{error} {self._block(block)}"

    def _blocks(self, content: Any) -> list[Json]:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    def _block(self, block: Json) -> str:
        match block["type"]:
            case "text":
                return f"text {self._text(block['text'])}".rstrip()
            case "tool_use":
                return f"call {block['id']} {block['name']} {self._value(block['input'])}"
            case "tool_result":
                outcome = "failed" if block.get("is_error") else "ok"
                content = self._blocks(block.get("content") or "")
                kinds = [b["type"] for b in content if b["type"] != "text"]
                text = " ".join(b.get("text", "") for b in content)
                words = self._text(text)
                words = "" if words == "..." else words
                return " ".join(["result", block["tool_use_id"], outcome, *kinds, words]).rstrip()
            case kind:
                return str(kind)

    def _result(self, frame: Json) -> Iterator[str]:
        yield f"result {frame['subtype']}"
        for name in RESULT_FIELDS:
            if frame.get(name) is not None:
                yield f"  {name} {json.dumps(frame[name])}"
        if "result" in frame:
            yield f"  result {self._text(frame['result'])}".rstrip()
        if frame.get("errors"):
            yield "  errors"
        for denial in frame["permission_denials"]:
            yield f"  denied {denial['tool_name']} {self._value(denial['tool_input'])}"
        usage = frame["usage"]
        yield f"  usage {usage['input_tokens']} {usage['output_tokens']}"
        yield f"  cost {frame['total_cost_usd']:.6f}"
        if frame.get("origin"):
            yield f"  origin {frame['origin']['kind']}"

    def _requests(self) -> Iterator[str]:
        """Yield what the model receives: of a request that continues another, the rest."""
        earlier: list[list[str]] = []
        for number, body in enumerate(self._observed.requests):
            # A program may tell the same twice, as a message and as a reminder.
            items = [item for item, _ in groupby(self._items(body))]
            continued = [
                (len(before), index)
                for index, before in enumerate(earlier)
                if items[: len(before)] == before
            ]
            length, index = max(continued, default=(0, -1))
            after = f" after {index}" if length else ""
            yield f"request {number}{after} {body['model']}"
            yield from (f"  {item}" for item in items[length:])
            earlier.append(items)

    def _items(self, body: Json) -> Iterator[str]:
        parts = [("told", self._blocks(body.get("system") or ""))]
        for message in body["messages"]:
            role = "assistant" if message["role"] == "assistant" else "told"
            parts.append((role, self._blocks(message["content"])))
        for role, blocks in parts:
            for block in blocks:
                if block["type"] != "text":
                    yield f"{role} {self._block(block)}"
                elif (words := self._text(block["text"])) not in ("", "..."):
                    yield f"{role} {words}"

    def _files(self) -> list[str]:
        work = self._observed.work
        return sorted(str(path.relative_to(work)) for path in work.rglob("*"))


def compare(reference: list[str], ours: list[str]) -> list[str]:
    """Return the lines that differ: those of the reference with "-", clew's with "+"."""
    matcher = SequenceMatcher(None, reference, ours, autojunk=False)
    found: list[str] = []
    for kind, start, end, our_start, our_end in matcher.get_opcodes():
        if kind != "equal":
            found += [f"- {line}" for line in reference[start:end]]
            found += [f"+ {line}" for line in ours[our_start:our_end]]
    return found
