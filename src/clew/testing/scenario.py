"""The scenario format: what a scripted model answers, to which requests, and how the wire misbehaves.

Owns the types of the format and its reading from JSON or YAML; every complaint names the file, the
line and the path of the key. Must never touch a file or a clock: `scenario_file` reads the disk,
`scenario_rules` chooses an answer, `scenario_answer` turns it into bytes.
Described in docs/extending/scenarios.md.

Decision: docs/decisions/040-scripted-models.md
"""

import json
import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct

from clew.core.json_object import Json
from clew.core.messages.errors import UserError

# Text to value for scenarios: JSON or YAML, strict about keys said twice, and where a path stands.


class ScenarioError(UserError):
    """A scenario that cannot be read: which file, where in it, and what is wrong."""


def _is_yaml(source: str) -> bool:
    return source.lower().endswith((".yaml", ".yml"))


def value_of(text: str, source: str) -> Any:
    return _yaml(text, source) if _is_yaml(source) else _json(text, source)


def must_be_json(value: Any) -> None:
    """Refuses what no response can carry, whoever made the value."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        what = "half of a surrogate pair is no text; bytes go into body_base64 or insert_base64"
        raise ScenarioError(what) from None
    except (TypeError, ValueError) as error:
        # YAML reads 2026-01-01 as a date, and anchors may tie a knot.
        raise ScenarioError(f"not a value of JSON (quotes help): {error}") from None


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
                raise ScenarioError(f"{source}: the key {key!r} stands twice in one object")
            seen[key] = value
        return seen

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ScenarioError(f"{source}:{error.lineno}: {error.msg}") from None
    except RecursionError:
        raise ScenarioError(f"{source}: nested too deep") from None


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
        raise ScenarioError(f"{source}: nested too deep") from None


def _refuse_twice(root: Any, source: str) -> None:
    """YAML lets the last of two equal keys win in silence; a scenario does not."""
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
                raise ScenarioError(f"{source}:{line}: the key {key.value!r} stands twice")
            nodes.append(value)


def line_of(text: str, place: str) -> int | None:
    """The line a path such as `answers[2].content[0]` stands on; JSON is read as the YAML it is."""
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
    """The node that says where a child stands (its key, if it has one), and the child."""
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
# null takes away a header that the answer would have of itself.
HeaderValue: TypeAlias = str | int | float | None


class Shape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The root of the format's types: a key nobody knows is an error, never ignored."""


class TextCondition(Shape, frozen=True, rename={"is_": "is"}):
    """A condition on a text; all that is said must hold. A bare string means `contains`."""

    is_: str | None = None
    contains: str | None = None
    regex: str | None = None


class ToolResultCondition(Shape, frozen=True):
    """A condition on one tool result of the last user message."""

    tool: str | None = None
    content: str | TextCondition | None = None
    is_error: bool | None = None


class When(Shape, frozen=True):
    """What a request must hold for an answer to be its answer; all that is said must hold."""

    user: str | TextCondition | None = None
    system: str | TextCondition | None = None
    model: str | TextCondition | None = None
    tool_result: str | ToolResultCondition | None = None
    has_tool: str | None = None
    request: Positive | None = None
    stream: bool | None = None
    body_sha256: str | None = None


class ScriptedBlock(Shape, frozen=True):
    """One block of content: exactly one of the six kinds. A list of strings fixes the deltas."""

    text: str | list[str] | None = None
    thinking: str | list[str] | None = None
    redacted_thinking: str | None = None
    tool: str | None = None
    server_tool: str | None = None
    block: Json | None = None
    # beside text
    citations: list[Json] | None = None
    # beside thinking
    signature: str | None = None
    # beside tool and server_tool; `input_json` is sent as it stands, valid or not
    id: str | None = None
    input: Any = UNSET
    input_json: str | list[str] | None = None


class ScriptedFault(Shape, frozen=True):
    """One thing that goes wrong at one place of the answer; positions count the body uncompressed."""

    at: Literal["headers"] | None = None
    after_events: Count | None = None
    after_bytes: Count | None = None
    stall_s: Seconds | Literal["forever"] | None = None
    cut: Literal["close", "reset", "end"] | None = None
    error: Json | None = None
    insert: str | None = None
    insert_base64: str | None = None


class Send(Shape, frozen=True):
    """How the body goes out. Without a word of it: an HTTP chunk an event, as fast as it is read."""

    chunk_bytes: Positive | list[Positive] | None = None
    bytes_per_s: Rate | None = None
    events_per_s: Rate | None = None
    gzip: bool = False


class ScriptedAnswer(Shape, frozen=True):
    """One answer: a message, an error, or a body as it stands; and to which requests it is given."""

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
    # a body as it stands
    events: list[Json | str] | None = None
    body: str | None = None
    body_json: Any = UNSET
    body_base64: str | None = None
    # a whole response as it stands, status line and all
    http: str | None = None
    # an error, or any other status
    status: Annotated[int, Meta(ge=200, le=599)] | None = None
    error: Json | None = None
    headers: dict[str, HeaderValue] | None = None
    send: Send | None = None
    faults: list[ScriptedFault] = []


class Defaults(Shape, frozen=True):
    """What answers take that do not say otherwise."""

    model: str | None = None
    usage: Json | None = None
    delta_chars: Positive | None = None
    send: Send | None = None


class Scenario(Shape, frozen=True):
    """A whole scenario. Answers stand in order: the first that matches and is not used up is given."""

    scenario: Literal[1]
    name: str | None = None
    # What a person asks, for who plays both sides of the conversation.
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
    """Reads a scenario; `source` names it in complaints and, by its ending, says JSON or YAML."""
    text = decode(data, source)
    value = value_of(text, source)
    try:
        return from_value(value)
    except ScenarioError as error:
        line = line_of(text, str(error).split(": ", 1)[0])
        raise ScenarioError(f"{source}:{line}: {error}" if line else f"{source}: {error}") from None


def from_value(value: Any) -> Scenario:
    """A scenario from a decoded value, for tests that write one in Python."""
    must_be_json(value)
    try:
        scenario = msgspec.convert(value, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(_convert_complaint(str(error))) from None
    for place, answer in answers_of(scenario):
        _check_answer(answer, place)
    return scenario


def answers_of(scenario: Scenario) -> list[tuple[str, ScriptedAnswer]]:
    """Every answer with the path it has in the file."""
    groups = (("answers", scenario.answers), ("count_tokens", scenario.count_tokens or []))
    return [(f"{key}[{i}]", a) for key, answers in groups for i, a in enumerate(answers)]


def given(shape: Shape, names: tuple[str, ...]) -> list[str]:
    """Which of these keys were said; where null is a value, only UNSET means that nothing was."""
    unsaid = [UNSET if name in ("body_json", "input") else None for name in names]
    return [n for n, u in zip(names, unsaid, strict=True) if getattr(shape, n) is not u]


def _check_answer(answer: ScriptedAnswer, place: str) -> None:
    bodies = given(answer, BODIES)
    if len(bodies) > 1:
        raise ScenarioError(f"{place}: says {' and '.join(bodies)}; an answer has one body")
    if not bodies and answer.status is None:
        raise ScenarioError(f"{place}: says nothing; give it one of {', '.join(BODIES)} or status")
    is_message = bodies in (["text"], ["content"])
    extra = given(answer, OF_A_MESSAGE)
    if extra and not is_message:
        raise ScenarioError(f"{place}.{extra[0]}: belongs to an answer with text or content")
    if is_message and answer.status not in (None, 200):
        raise ScenarioError(f"{place}.status: a message has status 200; use error or body")
    if answer.error is not None and answer.status is None:
        raise ScenarioError(f"{place}.error: needs a status (inside a stream: a fault with error)")
    if place.startswith("answers") and answer.input_tokens is not None:
        raise ScenarioError(f"{place}.input_tokens: stands under count_tokens")
    if place.startswith("count_tokens") and is_message:
        raise ScenarioError(f"{place}: a message stands under answers; say input_tokens")
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
            f"{place}: a block has one of {', '.join(BLOCK_KINDS)}; found {listing}"
        )
    for key in given(block, tuple(BESIDE)):
        if kinds[0] not in BESIDE[key]:
            raise ScenarioError(f"{place}.{key}: stands beside {' or '.join(BESIDE[key])} only")
    if block.input is not UNSET and block.input_json is not None:
        raise ScenarioError(f"{place}: says input and input_json; choose one")


def _check_fault(fault: ScriptedFault, place: str) -> None:
    for names, what in ((ACTIONS, "one thing that happens"), (PLACES, "one place")):
        if len(given(fault, names)) != 1:
            raise ScenarioError(f"{place}: a fault has {what}: one of {', '.join(names)}")
    if fault.at is not None and not given(fault, ("stall_s", "cut")):
        raise ScenarioError(f"{place}: before the headers there is only stall_s and cut")
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
    """msgspec's complaint in the format's words: the path first, then what is wrong there."""
    what, _, path = message.partition(" - at `$")
    place = path.rstrip("`").lstrip(".") or "scenario"
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    if unknown is None:
        return f"{place}: {what[0].lower()}{what[1:]}"
    near = get_close_matches(unknown[1], _all_keys(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
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
