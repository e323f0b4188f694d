"""Choose the answer to a request: the facts of a request, the conditions, and used-up answers.

This module must never render an answer. The choice depends only on the scenario and the requests so
far, so the same requests in the same order always get the same answers.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json, list_of
from clew.core.messages.text import format_count
from clew.testing.scenario import (
    Scenario,
    ScriptedAnswer,
    TextCondition,
    ToolResultCondition,
    When,
    answers_of,
)

Endpoint: TypeAlias = Literal["answers", "count_tokens"]
TAIL_CHARS = 200
# The answer to token counts if the scenario has none: an estimate from the request's size.
ESTIMATE = ScriptedAnswer(times="always")


class ScriptedToolResult(Struct, frozen=True, kw_only=True):
    """A tool result in the last user message, with the name of the tool."""

    tool: str
    content: str
    is_error: bool


class Facts(Struct, frozen=True, kw_only=True):
    """The facts about a request that conditions refer to.

    They are parsed leniently, because requests are not validated here.
    """

    number: int
    user: str
    system: str
    model: str
    tool_results: list[ScriptedToolResult]
    tools: list[str]
    stream: bool
    messages: int
    body: Json


class Chosen(Struct, frozen=True, kw_only=True):
    """The answer to a request, and its path in the scenario."""

    answer: ScriptedAnswer
    place: str
    facts: Facts


class NoAnswer(Struct, frozen=True, kw_only=True):
    """A request that no answer matches.

    The message contains the end of the request and why no answer matched.
    """

    message: str
    facts: Facts


class Player:
    """The state of a running scenario: the number of requests, and the uses of each answer."""

    __slots__ = ("_requests", "_scenario", "_used", "source")

    def __init__(self, scenario: Scenario, source: str = "scenario") -> None:
        self._scenario = scenario
        self.source = scenario.name or source
        self._requests: dict[str, int] = {}
        self._used: dict[str, int] = {}

    def choose(self, body: Json, endpoint: Endpoint = "answers") -> Chosen | NoAnswer:
        number = self._requests[endpoint] = self._requests.get(endpoint, 0) + 1
        facts = facts_of(body, number)
        reasons = []
        for i, answer in enumerate(self._answers(endpoint)):
            place = f"{endpoint}[{i}]"
            reason = self._used_up(answer, place) or mismatch(answer.when, facts)
            if reason is None:
                self._used[place] = self._used.get(place, 0) + 1
                return Chosen(answer=answer, place=place, facts=facts)
            reasons.append(f"{place}: {reason}")
        return NoAnswer(message=self._no_answer(facts, reasons), facts=facts)

    def unused(self) -> list[str]:
        """Return the answers that were never sent, so that a test can check for them."""
        places = [place for place, _ in answers_of(self._scenario)]
        return [place for place in places if place not in self._used]

    def _answers(self, endpoint: Endpoint) -> list[ScriptedAnswer]:
        if endpoint == "answers":
            return self._scenario.answers
        if self._scenario.count_tokens is None:
            return [ESTIMATE]
        return self._scenario.count_tokens

    def _used_up(self, answer: ScriptedAnswer, place: str) -> str | None:
        limit = answer.times or (1 if answer.when is None else "always")
        used = self._used.get(place, 0)
        return f"used up ({used} of {limit})" if limit != "always" and used >= limit else None

    def _no_answer(self, facts: Facts, reasons: list[str]) -> str:
        head = (
            f"scenario {self.source}: no rule matched request {facts.number} "
            f"(model {facts.model!r}, {format_count(facts.messages, 'message')}, "
            f"tools: {', '.join(facts.tools) or 'none'}). "
        )
        return f"{head}It ends with {describe_tail(facts)}. " + "; ".join(
            reasons or ["the scenario has no answers"]
        )


def describe_tail(facts: Facts) -> str:
    """Return the end of a request on one line."""
    lines = [f"the result of {r.tool}: {_end_of(r.content)}" for r in facts.tool_results]
    if facts.user or not lines:
        lines.append(f"user text: {_end_of(facts.user)}")
    return ", ".join(lines)


def facts_of(body: Json, number: int) -> Facts:
    messages = [m for m in list_of(body.get("messages")) if isinstance(m, dict)]
    last = next((m for m in reversed(messages) if m.get("role") == "user"), {})
    return Facts(
        number=number,
        user=text_of(last.get("content")),
        system=text_of(body.get("system")),
        model=str(body.get("model", "")),
        tool_results=list(_tool_results(messages, last)),
        tools=[str(t.get("name")) for t in list_of(body.get("tools")) if isinstance(t, dict)],
        stream=bool(body.get("stream")),
        messages=len(messages),
        body=body,
    )


def hash_body(body: Any) -> str:
    """Return a hash of a JSON value that does not depend on the order of keys."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def mismatch(when: When | None, facts: Facts) -> str | None:
    """Return why these facts do not meet the condition, or None if they do."""
    if when is None:
        return None
    return next(_mismatches(when, facts), None)


def _mismatches(when: When, facts: Facts) -> Iterator[str]:
    texts = (
        ("user", when.user, facts.user),
        ("system", when.system, facts.system),
        ("model", when.model, facts.model),
    )
    for key, wanted, actual in texts:
        if wanted is not None and not holds(wanted, actual):
            yield f"{key} {_said(wanted)} does not match"
    if when.request is not None and when.request != facts.number:
        yield f"is for request {when.request}"
    if when.stream is not None and when.stream != facts.stream:
        yield f"is for stream {str(when.stream).lower()}"
    if when.has_tool is not None and when.has_tool not in facts.tools:
        yield f"tool {when.has_tool!r} is not offered"
    if when.tool_result is not None and not _has_result(when.tool_result, facts):
        yield "no matching tool result in the last message"
    if when.body_sha256 is not None and when.body_sha256 != hash_body(facts.body):
        yield "different body_sha256"


def holds(wanted: str | TextCondition, actual: str) -> bool:
    if isinstance(wanted, str):
        return wanted in actual
    return (
        (wanted.is_ is None or wanted.is_ == actual)
        and (wanted.contains is None or wanted.contains in actual)
        and (wanted.regex is None or re.search(wanted.regex, actual) is not None)
    )


def _has_result(wanted: str | ToolResultCondition, facts: Facts) -> bool:
    rule = ToolResultCondition(tool=wanted) if isinstance(wanted, str) else wanted
    return any(
        rule.tool in (None, result.tool)
        and rule.is_error in (None, result.is_error)
        and (rule.content is None or holds(rule.content, result.content))
        for result in facts.tool_results
    )


def text_of(content: Any) -> str:
    """Return the text in the content of a message, with blocks joined by newlines."""
    if isinstance(content, str):
        return content
    blocks = [b for b in list_of(content) if isinstance(b, dict) and b.get("type") == "text"]
    return "\n".join(str(b.get("text", "")) for b in blocks)


def _tool_results(messages: list[Json], last: Json) -> Iterator[ScriptedToolResult]:
    results = [b for b in _blocks(last) if b.get("type") == "tool_result"]
    if not results:
        return
    names = {
        str(b.get("id")): str(b.get("name"))
        for message in messages
        for b in _blocks(message)
        if b.get("type") == "tool_use"
    }
    for result in results:
        yield ScriptedToolResult(
            tool=names.get(str(result.get("tool_use_id")), "unknown"),
            content=text_of(result.get("content")),
            is_error=bool(result.get("is_error")),
        )


def _blocks(message: Json) -> list[Json]:
    return [b for b in list_of(message.get("content")) if isinstance(b, dict)]


def _end_of(text: str) -> str:
    return repr(text if len(text) <= TAIL_CHARS else "…" + text[-TAIL_CHARS:])


def _said(wanted: str | TextCondition) -> str:
    if isinstance(wanted, str):
        return f"contains {wanted!r}"
    parts = (("is", wanted.is_), ("contains", wanted.contains), ("regex", wanted.regex))
    return " and ".join(f"{word} {value!r}" for word, value in parts if value is not None)
