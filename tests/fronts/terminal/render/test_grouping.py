"""Groups of calls in a few words, as hosts get them."""

from typing import Any

from clew.fronts.render.grouping import summarize_calls


def call(name: str, **given: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"{name}-1", "name": name, "input": given}


def test_calls_are_counted_by_verb_and_each_file_once() -> None:
    calls = [
        (call("Read", file_path="a.py"), False),
        (call("Read", file_path="a.py"), False),
        (call("Read", file_path="b.py"), False),
        (call("mcp__memo__echo", text="x"), False),
        (call("Bash", command="false"), True),
    ]
    told = summarize_calls(calls)
    assert "2 files" in told
    assert "1 other tool" in told
    assert "1 " in told.rpartition(",")[2]
    assert summarize_calls([(call("Read") | {"input": None}, False)])
