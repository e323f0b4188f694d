"""One conversation in the requests to each family of models, compared with the files in `golden/`.

After an intended change: `CLEW_GOLDEN=write python -m pytest tests/core/normalize/test_golden.py`,
and review the difference.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.agent.context.system_prompt import system_prompt
from clew.core.catalog.lookup import CATALOG
from clew.core.normalize import dialects
from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from tests.core.normalize.build import answer, attachment, call, result, system, thought, user
from tests.core.normalize.generator import png

GOLDEN = Path(__file__).parent / "golden"
TOOLS = [{"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}]  # fmt: skip
PIC = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(3, 4)}}
TALK = [
    user("why is the build red?", PIC),
    attachment("<system-reminder>\nBe kind.\n</system-reminder>", type="instructions"),
    attachment("Today is 2026-11-20.", type="date", role="system"),
    answer("msg_1", thought("I should look."), stop="tool_use"),
    answer("msg_1", "I run it.", stop="tool_use"),
    answer("msg_1", call("toolu_1", command="make"), stop="tool_use"),
    answer("msg_1", call("toolu_2", command="git log"), stop="tool_use"),
    user(result("toolu_2", "a1b2c3 begin")),
    user(result("toolu_1", "error: 1", is_error=True)),
    answer("x", "API Error: overloaded", isApiErrorMessage=True),
    answer("msg_2", "Because of a1b2c3.", call("call.7", command="make -k"), model="openai/gpt-5"),
    user("[Request interrupted by user for tool use]"),
    system("local_command", "<command-name>/model</command-name>"),
    user("go on"),
]


def _messages_api(model: str) -> dict[str, Any]:
    made = for_api(TALK, Target.of(CATALOG.entry(model)), tools=TOOLS)
    assert made.violations == []
    return {
        "system": system_prompt(model, ["Bash"]),
        "tools": TOOLS,
        "messages": made.messages,
        "repairs": [[r.kind, r.detail] for r in made.repairs],
    }


def _converse() -> dict[str, Any]:
    target = dialects.for_converse(Target.of(CATALOG.entry("claude-sonnet-4-5")))
    return dialects.to_bedrock(
        for_api(TALK, target, tools=TOOLS).messages, system="Be.", tools=TOOLS
    )


def _chat() -> dict[str, Any]:
    target = dialects.for_chat(Target.of(CATALOG.entry("openai/gpt-5")))
    return dialects.to_openai(
        for_api(TALK, target, tools=TOOLS).messages, system="Be.", tools=TOOLS
    )


REQUESTS: dict[str, Callable[[], dict[str, Any]]] = {
    "opus-5-5": lambda: _messages_api("claude-opus-5-5"),
    "sonnet-4-5": lambda: _messages_api("claude-sonnet-4-5"),
    "haiku-4-5": lambda: _messages_api("claude-haiku-4-5"),
    "converse": _converse,
    "chat": _chat,
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_family_of_models_is_sent_this(name: str) -> None:
    made = REQUESTS[name]()
    path = GOLDEN / f"{name}.json"
    if os.environ.get("CLEW_GOLDEN") == "write":
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert made == json.loads(path.read_text("utf-8"))
