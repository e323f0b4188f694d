"""A conversation changes in three ways only; recorded messages are never changed."""

import ast
import copy
import gc
import itertools
import weakref
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.messages import factories as make
from clew.core.messages.errors import MisuseError
from clew.core.messages.history import History, make_missing_results, with_cost, with_results
from clew.core.messages.messages import AssistantMessage
from tests.requirements import requirement

AT = "2026-01-31T12:00:00.000Z"
SOURCE = Path(clew.__file__).parent


def asked(*call_ids: str) -> list[dict[str, Any]]:
    content = [{"type": "tool_use", "id": i, "name": "Read", "input": {}} for i in call_ids]
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content}
    uuids = (f"a{n}" for n in itertools.count())
    return make.make_assistant(message, uuids=uuids, at=AT, request_id="r")


def answered(call_id: str) -> dict[str, Any]:
    return make.make_tool_answer(call_id, "out", uuid=f"u-{call_id}", at=AT, source_uuid="a0")


@requirement("R036")
def test_one_call_adds_exactly_two_messages() -> None:
    start = History([make.make_user("read it", uuid="u", at=AT)])
    history = with_results(start.with_messages(asked("t1")), [answered("t1")])
    assert [m["type"] for m in history] == ["user", "assistant", "user"]
    assert len(history) == len(start) + 2
    assert not history.unanswered()


def test_results_join_once_in_any_order_and_only_for_calls_that_were_made() -> None:
    history = History([*asked("t0"), answered("t0"), *asked("t1", "t2"), {"type": "system"}])
    one = with_results(history, [answered("t2")])
    both = with_results(one, [answered("t2"), answered("t1"), answered("t1"), answered("t0")])
    assert [m.get("uuid") for m in both][len(history) :] == ["u-t2", "u-t1"]
    assert with_results(both, []) is not both
    with pytest.raises(MisuseError, match=r"no tool call found .*t9"):
        with_results(history, [answered("t9")])
    with pytest.raises(MisuseError, match="every message must contain a tool result"):
        with_results(history, [make.make_user("no result", uuid="u", at=AT)])


def test_a_message_with_several_results_joins_as_one() -> None:
    history = History(asked("t1", "t2"))
    blocks = [make.make_tool_result("t1", "a"), make.make_tool_result("t2", "b")]
    message = make.make_user(blocks, uuid="u", at=AT)
    assert len(with_results(history, [message, message])) == len(history) + 1


def test_cost_joins_an_answer_as_a_new_value_and_an_unknown_cost_is_not_zero() -> None:
    [message] = asked("t1")
    costed = AssistantMessage(with_cost(message, cost_usd=0.25, duration_ms=12.5))
    assert (costed.cost_usd, costed.duration_ms) == (0.25, 12.5)
    unknown = with_cost(message, cost_usd=None, duration_ms=12.5)
    assert "costUSD" not in unknown
    assert "durationMs" not in message


def test_no_change_touches_what_it_was_given() -> None:
    messages = [*asked("t1", "t2"), answered("t1")]
    before = copy.deepcopy(messages)
    history = History(messages)
    with_results(history, [answered("t2")])
    with_cost(messages[0], cost_usd=1, duration_ms=1)
    make_missing_results(history, "gone", new_uuid=lambda: "n", at=AT)
    history.without(["a0"])
    assert messages == list(history) == before


@requirement("R026")
def test_a_recorded_message_refuses_to_be_written_to() -> None:
    history = History(asked("t1"))
    said = AssistantMessage(history[0])
    for attribute in ("cost_usd", "usage", "message", "data", "blocks"):
        with pytest.raises(AttributeError):
            setattr(said, attribute, 1)
    with pytest.raises(TypeError):
        history[0:1] = []
    with pytest.raises(AttributeError):
        history.append({})


# Where a message may be written into while it is made, besides the stream that brings it: nowhere.
MUTATION_POINTS = (
    "clew/core/stream/accumulate.py:feed",
    "clew/core/messages/history.py:with_results",
    "clew/core/messages/history.py:with_cost",
)
# Members that are a message's and nobody else's.
OF_A_MESSAGE = {
    "message", "content", "usage", "stop_reason", "stop_sequence", "toolUseResult", "costUSD",
    "durationMs", "isMeta", "isVirtual", "isCompactSummary", "parentUuid", "uuid", "requestId",
    "sourceToolAssistantUUID", "is_error", "tool_use_id",
}  # fmt: skip
MUTATORS = {
    "append", "extend", "insert", "pop", "popitem", "remove", "clear", "update", "setdefault",
    "sort", "reverse",
}  # fmt: skip


def member_of_a_message(node: ast.AST) -> bool:
    """Return whether an expression is `x["content"]`, `x.get("content")`, or anything below."""
    if isinstance(node, ast.Subscript):
        named = isinstance(node.slice, ast.Constant) and node.slice.value in OF_A_MESSAGE
        return named or member_of_a_message(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        first = node.args[0]
        return (
            node.func.attr == "get"
            and isinstance(first, ast.Constant)
            and first.value in OF_A_MESSAGE
        )
    return False


def is_new(value: ast.AST) -> bool:
    """Return whether an expression creates an object: `{...}`, `dict(...)`, `a | b`."""
    called = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    return (
        isinstance(value, ast.Dict)
        or (called and value.func.id == "dict")
        or (isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr))
    )


def made_here(tree: ast.AST) -> set[tuple[str, int]]:
    """Return the names to which a function assigns only objects that it creates."""
    made: set[tuple[str, int]] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            given: dict[str, list[bool]] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for name in (t.id for t in targets if isinstance(t, ast.Name)):
                        given.setdefault(name, []).append(is_new(node.value))
            lines = range(function.lineno, (function.end_lineno or 0) + 1)
            made |= {(name, line) for name, news in given.items() if all(news) for line in lines}
    return made


def writes(tree: ast.AST) -> list[int]:
    """Yield the lines that write into a member of a message that the function did not create."""
    found: list[tuple[ast.AST, int]] = []
    for node in ast.walk(tree):
        targets: list[ast.AST] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = [*node.targets]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            targets = [node.func.value] if node.func.attr in MUTATORS else []
        found += [(target, node.lineno) for target in targets if member_of_a_message(target)]
    # Few modules have such lines, and this is slow.
    made = made_here(tree) if found else set()
    return [
        line
        for target, line in found
        if not isinstance(inner := getattr(target, "value", None), ast.Name)
        or (inner.id, line) not in made
    ]


@pytest.mark.parametrize(
    "code",
    ['m["content"].append(b)', 'm["message"]["usage"] = u', 'del m["uuid"]', 'm["usage"]["n"] += 1',
     'm.get("content").extend(x)', 'm["message"].update(x)'],
)  # fmt: skip
def test_the_search_for_writes_sees_them(code: str) -> None:
    assert writes(ast.parse(code)) == [1]
    assert not writes(ast.parse('m | {"content": x}; y = m["content"]; y.append(m["uuid"])'))


def test_the_search_passes_over_objects_in_the_making_but_not_what_they_hold() -> None:
    make = "def f(m):\n n = dict(m)\n n['usage'] = 1\n n['message']['usage'] = 2\n m['usage'] = 3"
    assert writes(ast.parse(make)) == [4, 5]
    again = "def f(m):\n n = {}\n n = m\n n['usage'] = 1"
    assert writes(ast.parse(again)) == [4]


@pytest.mark.no_cover
@requirement("R026", "W16")
def test_messages_are_changed_at_three_points_and_nowhere_else() -> None:
    for point in MUTATION_POINTS:
        path, name = point.split(":")
        tree = ast.parse((SOURCE.parent / path).read_text("utf-8"))
        assert any(isinstance(n, ast.FunctionDef) and n.name == name for n in ast.walk(tree)), point
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if SOURCE / "stream" not in path.parents
        for line in writes(ast.parse(path.read_text("utf-8")))
    ]
    assert not found


class Message(dict[str, Any]):
    """A message that reports writes."""

    __slots__ = ("__weakref__",)


@requirement("R027")
def test_a_removed_message_belongs_to_nobody_any_more() -> None:
    watched = Message(uuid="gone", type="user")
    removed = weakref.ref(watched)
    history = History([watched, {"uuid": "stays"}])
    del watched
    history = history.without(["gone"])
    gc.collect()
    assert removed() is None
    assert [m["uuid"] for m in history] == ["stays"]


@requirement("R027")
def test_growing_a_history_copies_nothing_that_was_there() -> None:
    history = History()
    for n in range(1000):
        longer = history.with_messages([{"uuid": str(n)}])
        assert longer._shared is history._shared
        history = longer
    assert len(history) == 1000
