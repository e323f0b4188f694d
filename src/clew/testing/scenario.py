"""The scenario format: the answers of a scripted model, their conditions, and network faults.

This module contains the types of the format and the parser for JSON and YAML. Every error names the
file, the line and the path of the key. The module must never access a file or a clock: `options`
reads files, `scenario_rules` chooses an answer, and `scenario_answer` renders it. The format is
described in docs/extending/scenarios.md.

Decision: docs/decisions/040-scripted-models.md
"""

import json
import re
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct

from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.core.nearest import suggest_nearest

# Parse scenarios from JSON or YAML, reject duplicate keys, and find the line of a path.


class ScenarioError(UserError):
    """Raised for an invalid scenario. The text names the file, the place and the error."""


def _is_yaml(source: str) -> bool:
    return source.lower().endswith((".yaml", ".yml"))


def value_of(text: str, source: str) -> Any:
    return _yaml(text, source) if _is_yaml(source) else _json(text, source)


def must_be_json(value: Any) -> None:
    """Raise ScenarioError for a value that no response can contain."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        what = "a lone surrogate is not valid text; use body_base64 or insert_base64 for bytes"
        raise ScenarioError(what) from None
    except (TypeError, ValueError) as error:
        # YAML parses 2026-01-01 as a date, and anchors can create cycles.
        raise ScenarioError(f"not a JSON value (try quotes): {error}") from None


def decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"{source}:{line}: not UTF-8: {error.reason}") from None


def _json(text: str, source: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> Json:
        seen: Json = {}
        for key, value in pairs:
            if key in seen:
                raise ScenarioError(f"{source}: duplicate key {key!r}")
            seen[key] = value
        return seen

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ScenarioError(f"{source}:{error.lineno}: {error.msg}") from None
    except RecursionError:
        raise ScenarioError(f"{source}: nested too deeply") from None


def _yaml(text: str, source: str) -> Any:
    import yaml

    try:
        _refuse_twice(yaml.compose(text, yaml.SafeLoader), source)
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScenarioError(f"{source}:{line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ScenarioError(f"{source}: {error}") from None
    except RecursionError:
        raise ScenarioError(f"{source}: nested too deeply") from None


def _refuse_twice(root: Any, source: str) -> None:
    """Raise ScenarioError for duplicate keys, of which YAML would silently use the last."""
    nodes, done = [root], set()
    while nodes:
        node = nodes.pop()
        if id(node) in done or not isinstance(getattr(node, "value", None), list):
            continue
        done.add(id(node))
        if node.id == "sequence":
            nodes += node.value
            continue
        keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
        for i, (key, value) in enumerate(node.value):
            if key.value in keys[:i]:
                line = key.start_mark.line + 1
                raise ScenarioError(f"{source}:{line}: duplicate key {key.value!r}")
            nodes.append(value)


def line_of(text: str, place: str) -> int | None:
    """Return the line of a path such as `answers[2].content[0]`, or of its nearest parent.

    Return None if no part of the path is found. JSON is parsed as YAML.
    """
    import yaml

    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    if node is None:
        return None
    line = None
    for key, index in re.findall(r"([A-Za-z_]\w*)|\[(\d+)\]", place):
        child = _child(node, key, index)
        if child is None:
            break
        at, node = child
        line = at.start_mark.line + 1
    return line


def _child(node: Any, key: str, index: str) -> tuple[Any, Any] | None:
    """Return the node that marks a child's line (its key, if it has one), and the child.

    Return None if there is no such child.
    """
    if index:
        item = node.value[int(index)] if node.id == "sequence" else None
        return None if item is None else (item, item)
    if node.id != "mapping":
        return None
    return next(((k, value) for k, value in node.value if k.value == key), None)


Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Rate: TypeAlias = Annotated[float, Meta(gt=0)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
# null removes a header that the answer has by default.
HeaderValue: TypeAlias = str | int | float | None


class Shape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class for the format's types. An unknown key is an error and never ignored."""


class TextCondition(Shape, frozen=True, rename={"is_": "is"}):
    """A condition on text. All given fields must match. A bare string means `contains`."""

    is_: str | None = None
    contains: str | None = None
    regex: str | None = None


class ToolResultCondition(Shape, frozen=True):
    """A condition on one tool result of the last user message."""

    tool: str | None = None
    content: str | TextCondition | None = None
    is_error: bool | None = None


class When(Shape, frozen=True):
    """The conditions that a request must meet for an answer. All given fields must match."""

    user: str | TextCondition | None = None
    system: str | TextCondition | None = None
    model: str | TextCondition | None = None
    tool_result: str | ToolResultCondition | None = None
    has_tool: str | None = None
    request: Positive | None = None
    stream: bool | None = None
    body_sha256: str | None = None


class ScriptedBlock(Shape, frozen=True):
    """A content block of exactly one of the six kinds. A list of strings defines the deltas."""

    text: str | list[str] | None = None
    thinking: str | list[str] | None = None
    redacted_thinking: str | None = None
    tool: str | None = None
    server_tool: str | None = None
    block: Json | None = None
    # with text
    citations: list[Json] | None = None
    # with thinking
    signature: str | None = None
    # with tool and server_tool; `input_json` is sent verbatim, valid or not
    id: str | None = None
    input: Any = UNSET
    input_json: str | list[str] | None = None


class ScriptedFault(Shape, frozen=True):
    """A fault at one position of the answer: at the headers, or after some events or bytes.

    `after_bytes` counts bytes of the uncompressed body.
    """

    at: Literal["headers"] | None = None
    after_events: Count | None = None
    after_bytes: Count | None = None
    stall_s: Seconds | Literal["forever"] | None = None
    cut: Literal["close", "reset", "end"] | None = None
    error: Json | None = None
    insert: str | None = None
    insert_base64: str | None = None


class Send(Shape, frozen=True):
    """The pace of the body.

    By default, each event is one HTTP chunk, sent as fast as it is read.
    """

    chunk_bytes: Positive | list[Positive] | None = None
    bytes_per_s: Rate | None = None
    events_per_s: Rate | None = None
    gzip: bool = False


class ScriptedAnswer(Shape, frozen=True):
    """An answer (a message, an error, or a raw body) and the conditions for it."""

    when: When | None = None
    times: Positive | Literal["always"] | None = None
    note: str | None = None
    # a message
    text: str | list[str] | None = None
    content: list[str | ScriptedBlock] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Json | None = None
    id: str | None = None
    model: str | None = None
    message: Json | None = None
    delta_chars: Positive | None = None
    # a number of tokens, under `count_tokens`
    input_tokens: Count | None = None
    # a raw body
    events: list[Json | str] | None = None
    body: str | None = None
    body_json: Any = UNSET
    body_base64: str | None = None
    # a raw response, including the status line
    http: str | None = None
    # an error, or any other status
    status: Annotated[int, Meta(ge=200, le=599)] | None = None
    error: Json | None = None
    headers: dict[str, HeaderValue] | None = None
    send: Send | None = None
    faults: list[ScriptedFault] = []


class Defaults(Shape, frozen=True):
    """The defaults for answers."""

    model: str | None = None
    usage: Json | None = None
    delta_chars: Positive | None = None
    send: Send | None = None


class Scenario(Shape, frozen=True):
    """A scenario. Each request gets the first answer that matches and is not used up."""

    scenario: Literal[1]
    name: str | None = None
    # The user's prompts, for programs that play both sides of the conversation.
    prompts: list[str] = []
    defaults: Defaults = Defaults()
    answers: list[ScriptedAnswer] = []
    count_tokens: list[ScriptedAnswer] | None = None


BLOCK_KINDS = ("text", "thinking", "redacted_thinking", "tool", "server_tool", "block")
BESIDE: dict[str, tuple[str, ...]] = {
    "citations": ("text",),
    "signature": ("thinking",),
    "id": ("tool", "server_tool"),
    "input": ("tool", "server_tool"),
    "input_json": ("tool", "server_tool"),
}
BODIES = (
    "text", "content", "input_tokens", "events", "body", "body_json", "body_base64", "http",
    "error",
)  # fmt: skip
OF_A_MESSAGE = ("stop_reason", "stop_sequence", "usage", "id", "model", "message", "delta_chars")
ACTIONS = ("stall_s", "cut", "error", "insert", "insert_base64")
PLACES = ("at", "after_events", "after_bytes")


def parse(data: bytes, source: str = "scenario.json") -> Scenario:
    """Parse a scenario. Errors name `source`, and its suffix selects JSON or YAML."""
    text = decode(data, source)
    value = value_of(text, source)
    try:
        return from_value(value)
    except ScenarioError as error:
        line = line_of(text, str(error).split(": ", 1)[0])
        raise ScenarioError(f"{source}:{line}: {error}" if line else f"{source}: {error}") from None


def from_value(value: Any) -> Scenario:
    """Convert a decoded value to a scenario, for tests that define one in Python."""
    must_be_json(value)
    try:
        scenario = msgspec.convert(value, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(_convert_complaint(str(error))) from None
    for place, answer in answers_of(scenario):
        _check_answer(answer, place)
    return scenario


def answers_of(scenario: Scenario) -> list[tuple[str, ScriptedAnswer]]:
    """Return every answer with its path in the file."""
    groups = (("answers", scenario.answers), ("count_tokens", scenario.count_tokens or []))
    return [(f"{key}[{i}]", a) for key, answers in groups for i, a in enumerate(answers)]


def given(shape: Shape, names: tuple[str, ...]) -> list[str]:
    """Return which of these keys are given. For keys that may be null, UNSET means not given."""
    unsaid = [UNSET if name in ("body_json", "input") else None for name in names]
    return [n for n, u in zip(names, unsaid, strict=True) if getattr(shape, n) is not u]


def _check_answer(answer: ScriptedAnswer, place: str) -> None:
    bodies = given(answer, BODIES)
    if len(bodies) > 1:
        raise ScenarioError(f"{place}: an answer must have one body, got {' and '.join(bodies)}")
    if not bodies and answer.status is None:
        raise ScenarioError(f"{place}: empty answer; expected one of {', '.join(BODIES)} or status")
    is_message = bodies in (["text"], ["content"])
    extra = given(answer, OF_A_MESSAGE)
    if extra and not is_message:
        raise ScenarioError(f"{place}.{extra[0]}: only allowed with text or content")
    if is_message and answer.status not in (None, 200):
        raise ScenarioError(f"{place}.status: must be 200 for a message; use error or body")
    if answer.error is not None and answer.status is None:
        raise ScenarioError(
            f"{place}.error: requires a status (for an error inside a stream, use a fault)"
        )
    if place.startswith("answers") and answer.input_tokens is not None:
        raise ScenarioError(f"{place}.input_tokens: only allowed under count_tokens")
    if place.startswith("count_tokens") and is_message:
        raise ScenarioError(f"{place}: messages are only allowed under answers; use input_tokens")
    for i, block in enumerate(answer.content or []):
        if isinstance(block, ScriptedBlock):
            _check_block(block, f"{place}.content[{i}]")
    for i, fault in enumerate(answer.faults):
        _check_fault(fault, f"{place}.faults[{i}]")
    if answer.body_base64 is not None:
        _check_base64(answer.body_base64, f"{place}.body_base64")
    if answer.when is not None:
        _check_patterns(answer.when, f"{place}.when")


def _check_block(block: ScriptedBlock, place: str) -> None:
    kinds = given(block, BLOCK_KINDS)
    if len(kinds) != 1:
        listing = " and ".join(kinds) or "none"
        raise ScenarioError(
            f"{place}: a block must have exactly one of {', '.join(BLOCK_KINDS)}, got {listing}"
        )
    for key in given(block, tuple(BESIDE)):
        if kinds[0] not in BESIDE[key]:
            raise ScenarioError(f"{place}.{key}: only allowed with {' or '.join(BESIDE[key])}")
    if block.input is not UNSET and block.input_json is not None:
        raise ScenarioError(f"{place}: input and input_json can't be combined")


def _check_fault(fault: ScriptedFault, place: str) -> None:
    for names, what in ((ACTIONS, "one action"), (PLACES, "one position")):
        if len(given(fault, names)) != 1:
            raise ScenarioError(f"{place}: a fault must have exactly {what}: {', '.join(names)}")
    if fault.at is not None and not given(fault, ("stall_s", "cut")):
        raise ScenarioError(f"{place}: only stall_s and cut are allowed before the headers")
    if fault.insert_base64 is not None:
        _check_base64(fault.insert_base64, f"{place}.insert_base64")


def _check_base64(text: str, place: str) -> None:
    try:
        unbase64(text)
    except ValueError as error:
        raise ScenarioError(f"{place}: not base64: {error}") from None


def unbase64(text: str) -> bytes:
    from binascii import a2b_base64

    return a2b_base64("".join(text.split()), strict_mode=True)


def _check_patterns(when: When, place: str) -> None:
    result = when.tool_result.content if isinstance(when.tool_result, ToolResultCondition) else None
    texts = {
        "user": when.user,
        "system": when.system,
        "model": when.model,
        "tool_result.content": result,
    }
    for key, text in texts.items():
        if isinstance(text, TextCondition) and text.regex is not None:
            try:
                re.compile(text.regex)
            except re.error as error:
                raise ScenarioError(f"{place}.{key}.regex: {error}") from None


def _convert_complaint(message: str) -> str:
    """Return msgspec's error in the format's style: first the path, then the problem."""
    what, _, path = message.partition(" - at `$")
    place = path.rstrip("`").lstrip(".") or "scenario"
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    if unknown is None:
        return f"{place}: {what[0].lower()}{what[1:]}"
    hint = suggest_nearest(unknown[1], _all_keys())
    place = "" if place == "scenario" else f"{place}."
    return f"{place}{unknown[1]}: unknown key{hint}"


def _all_keys() -> list[str]:
    shapes: tuple[type[Shape], ...] = (
        Scenario,
        Defaults,
        ScriptedAnswer,
        ScriptedBlock,
        ScriptedFault,
        Send,
        When,
        ToolResultCondition,
        TextCondition,
    )
    return sorted({key for shape in shapes for key in shape.__struct_encode_fields__})
