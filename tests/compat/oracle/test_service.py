"""The service: reasons to stop, errors, retries, broken streams; and slash commands."""

from pathlib import Path

import pytest

from tests.compat.oracle.check import check
from tests.compat.oracle.trial import (
    AGAIN,
    BEGIN,
    DONE,
    Trial,
    answer,
    hooked,
    refuse,
    say,
)

ONE_RETRY = {"CLAUDE_CODE_MAX_RETRIES": "1"}
STOPS = {
    "the service refuses": Trial(
        steps=(BEGIN, AGAIN), model=[answer("PART", stop_reason="refusal"), DONE]
    ),
    "max_tokens twice": Trial(
        steps=(BEGIN,),
        model=[
            answer("ALPHA", stop_reason="max_tokens"),
            answer("BETA", stop_reason="max_tokens"),
            DONE,
        ],
    ),
    "max_tokens always": Trial(steps=(BEGIN,), model=[answer("PART", stop_reason="max_tokens")]),
    "model_context_window_exceeded": Trial(
        steps=(BEGIN,), model=[answer("PART", stop_reason="model_context_window_exceeded"), DONE]
    ),
    "pause_turn": Trial(steps=(BEGIN,), model=[answer("PART", stop_reason="pause_turn"), DONE]),
    "an empty answer": Trial(steps=(BEGIN,), model=[answer(), DONE]),
}
LONG_PROMPT = "prompt is too long: 250000 tokens > 200000 maximum"
ERRORS = {
    "529, then an answer": Trial(
        steps=(BEGIN,), model=[refuse(529, "overloaded_error", "OVERLOADED"), DONE]
    ),
    "429 with retry-after": Trial(
        steps=(BEGIN,),
        model=[refuse(429, "rate_limit_error", "LIMITED", **{"retry-after": 1}), DONE],
    ),
    "529 always": Trial(
        environ=ONE_RETRY, steps=(BEGIN,), model=[refuse(529, "overloaded_error", "OVERLOADED")]
    ),
    "400, the prompt is too long": Trial(
        steps=(BEGIN, AGAIN), model=[refuse(400, "invalid_request_error", LONG_PROMPT)]
    ),
    "401": Trial(
        environ=ONE_RETRY,
        steps=(BEGIN,),
        model=[refuse(401, "authentication_error", "invalid x-api-key")],
    ),
    "403": Trial(steps=(BEGIN,), model=[refuse(403, "permission_error", "FORBIDDEN")]),
    "404 for the model": Trial(
        args=("--model", "unheard-of"),
        steps=(BEGIN,),
        model=[refuse(404, "not_found_error", "model: unheard-of")],
    ),
    "403 in text form": Trial(
        args=("-p", "BEGIN"),
        is_hosted=False,
        model=[refuse(403, "permission_error", "FORBIDDEN")],
    ),
    "a cut stream": Trial(
        steps=(BEGIN,),
        model=[answer("PART", faults=[{"after_events": 0, "cut": "close"}]), DONE],
    ),
    "an error in a stream": Trial(
        steps=(BEGIN,),
        model=[
            answer("PART", faults=[{"after_events": 4, "error": {"type": "overloaded_error"}}]),
            DONE,
        ],
    ),
}
COMMANDS = {
    name: Trial(
        steps=(BEGIN, say(prompt), AGAIN),
        files={".claude/commands/mine.md": "---\ndescription: my\n---\nMINE $ARGUMENTS $1"},
        model=[DONE],
    )
    for name, prompt in {
        "/context": "/context",
        "/cost": "/cost",
        "/clear": "/clear",
        "/compact": "/compact KEEP",
        "an unknown command": "/unheard-of WORDS",
        "a prompt that begins with a path": "/etc/hosts WORDS",
        "a command of the project": "/mine ALPHA BETA",
    }.items()
}
SKILLS = {
    "arguments of a skill": Trial(
        steps=(say("/mine ALPHA BETA"),),
        files={
            ".claude/skills/mine/SKILL.md": "---\nname: mine\ndescription: d\n---\n"
            "MINE [$ARGUMENTS] 0=$ARGUMENTS[0] 1=$ARGUMENTS[1]"
        },
        model=[DONE],
    ),
    "PreCompact blocks": Trial(
        steps=(BEGIN, AGAIN, say("/compact"), say("AFTER")),
        **hooked("PreCompact", {"decision": "block", "reason": "HOOKED"}),
        model=[DONE],
    ),
}
TRIALS = STOPS | ERRORS | COMMANDS | SKILLS


@pytest.mark.e2e
@pytest.mark.parametrize("name", TRIALS)
def test_the_service_is_used_as_by_the_reference_client(name: str, tmp_path: Path) -> None:
    check(name, TRIALS[name], tmp_path)
