"""The published schema of settings files: it says of every file what clew itself says."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.commands.config import SCHEMAS
from clew.system.config.settings import (
    BY_NAME,
    KEYS,
    check,
    read_list,
    read_number,
    read_object,
    read_switch,
    read_text,
    value_in,
)
from tests.gates.house import ROOT

PUBLISHED = json.loads(SCHEMAS["settings"].read_text("utf-8"))
VALIDATOR = jsonschema.Draft7Validator(PUBLISHED)
# What the sandbox and the hooks say of their objects, clew finds when it reads them, not here.
DEEPER = {"sandbox", "hooks"}


def is_right(data: dict[str, Any]) -> bool:
    return not any(fault.fatal for fault in check(data, managed=True))


def objects(text: str) -> Iterator[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        return
    if isinstance(found, dict) and found and all(name in BY_NAME for name in found):
        yield found


def of_docs() -> Iterator[dict[str, Any]]:
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text("utf-8")
        for fence in re.findall(r"^```json\n(.*?)^```", text, re.M | re.S):
            yield from objects(fence)
        for line in re.findall(r"echo '(\{.*?\})' >", text):
            yield from objects(line)


def of_tests() -> Iterator[dict[str, Any]]:
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from objects(node.value)
            elif isinstance(node, ast.Dict):
                try:
                    yield from objects(json.dumps(ast.literal_eval(node)))
                except (TypeError, ValueError):
                    continue


def test_the_schema_is_one_and_clew_prints_it() -> None:
    jsonschema.Draft7Validator.check_schema(PUBLISHED)
    done = subprocess.run(
        [sys.executable, "-m", "clew", "config", "schema"], capture_output=True, check=True
    )
    assert json.loads(done.stdout) == PUBLISHED


def test_the_schema_accepts_every_example_of_the_docs() -> None:
    examples = list(of_docs())
    assert len(examples) >= 5
    for example in examples:
        VALIDATOR.validate(example)
        assert is_right(example)


@pytest.mark.no_cover
def test_the_schema_says_of_the_settings_in_tests_what_clew_says() -> None:
    found = [each for each in of_tests() if not each.keys() & DEEPER]
    assert len(found) >= 100
    for each in found:
        assert VALIDATOR.is_valid(each) == is_right(each), each


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["", "x", "auto", "plan", 0.5]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=3,
)


@given(known=st.sampled_from([k for k in KEYS if k.name not in DEEPER]), value=VALUES)
def test_the_schema_refuses_what_clew_leaves_out(known: Any, value: Any) -> None:
    data = value
    for name in reversed(known.name.split(".")):
        data = {name: data}
    assert VALIDATOR.is_valid(data) == is_right(data)
    # And a reader gives only what is right.
    meant = value if is_right(data) and value is not None else known.default
    if is_right(data):
        assert value_in(data, known.name) == meant


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ('{"sandbox": {"enabled": true, "network": {"allowedDomains": ["a.b"]}}}', True),
        ('{"sandbox": {"enabled": "yes"}}', False),
        ('{"hooks": {"Stop": [{"hooks": []}]}}', True),
        ('{"hooks": {"Stop": {}}}', False),
        ('{"$schema": "./settings.schema.json", "someone.elses": {"key": 1}}', True),
    ],
)
def test_objects_have_their_members_in_the_schema(text: str, *, is_valid: bool) -> None:
    assert VALIDATOR.is_valid(json.loads(text)) == is_valid


def test_readers_give_the_value_of_its_kind_or_the_default() -> None:
    said = {
        "lspDetection": False,
        "theme": "",
        "model": "opus",
        "maxThinkingTokens": True,
        "permissions": {"additionalDirectories": ["a", "b"]},
        "env": {"A": "1"},
        "hooks": [],
    }
    assert [read_switch(settings, "lspDetection") for settings in (said, {})] == [False, True]
    assert read_switch({}, "cacheDiagnostics") is None
    assert (read_text(said, "theme"), read_text(said, "model")) == (None, "opus")
    assert read_text({"permissions": "x"}, "permissions.defaultMode") == "default"
    assert read_number(said, "maxThinkingTokens") is None
    assert read_number({}, "messageIdleNotifThresholdMs") == 60_000
    assert read_list(said, "permissions.additionalDirectories") == ("a", "b")
    assert read_list(said, "webPrivateHosts") is None
    assert (read_object(said, "env"), read_object(said, "hooks")) == ({"A": "1"}, {})
