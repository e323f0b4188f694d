"""Replacements of tool results by hooks: converted to the tool's format, or rejected."""

from typing import Any

import pytest

from clew.agent.hooks.outcome import rewrite_result

BASH = {"stdout": "a", "stderr": "b", "interrupted": False, "isImage": False}
READ = {"type": "text", "file": {"filePath": "/f", "content": "secret"}}
BLOCKS = [{"type": "text", "text": "in place"}]


@pytest.mark.parametrize(
    ("raw", "new", "read"),
    [
        (BASH, {"stdout": "x", "stderr": "", "interrupted": False, "isImage": False}, "x"),
        (BASH, {"stdout": "x", "stderr": "y"}, "x\ny"),
        (BASH, "a plain text", None),
        (BASH, {}, None),
        (BASH, {"stdout": "x", "more": 1}, None),
        (READ, {"type": "text", "file": {"filePath": "/f", "content": "hidden"}}, "hidden"),
        ({"content": "a", "n": 1}, {"content": "b"}, "b"),
        ({"n": 1}, {"n": 2}, '{"n":2}'),
        ({"content": [1]}, {"content": [2]}, '{"content":[2]}'),
        ("text", "other", "other"),
        (None, BLOCKS, BLOCKS),
        ("text", ["no", "blocks"], '["no","blocks"]'),
        ("text", {"a": 1}, None),
        ("text", 7, None),
    ],
)
def test_a_built_in_tools_result_is_replaced_in_its_own_shape(
    raw: Any, new: Any, read: Any
) -> None:
    assert rewrite_result(raw, new, is_mcp=False) == read


@pytest.mark.parametrize(("new", "read"), [({"any": 1}, '{"any":1}'), (7, "7"), ("t", "t")])
def test_a_servers_result_is_replaced_by_anything(new: Any, read: str) -> None:
    assert rewrite_result(BLOCKS, new, is_mcp=True) == read
