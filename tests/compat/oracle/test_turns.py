"""Turns: how they end, limits, structured output, prompts that wait, sessions, output formats."""

import json
from pathlib import Path

import pytest

from tests.compat.oracle.check import check
from tests.compat.oracle.trial import (
    AGAIN,
    BEGIN,
    DONE,
    SKIP,
    HostStep,
    Trial,
    answer,
    bash,
    call,
    control,
    late,
    say,
)

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
STRUCTURED = ("--json-schema", json.dumps(SCHEMA))
RIGHT = answer(call("StructuredOutput", n=2))
WRONG = answer(call("StructuredOutput", n="x"))
EXPENSIVE = {"input_tokens": 100_000, "output_tokens": 10_000}
ECHO = bash("echo ECHOED")
LONG = bash("touch started; exec sleep 50")
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
FIRST_ID = "11111111-1111-4111-8111-111111111111"
SECOND_ID = "22222222-2222-4222-8222-222222222222"
MEMORY = {
    "CLAUDE.md": "PROJECT",
    "~/CLAUDE.md": "PERSONAL",
    "~/settings.json": '{"permissions": {"deny": ["Bash"]}}',
    ".claude/settings.json": '{"permissions": {"deny": ["Read"]}}',
    "a.txt": "ALPHA\n",
}
ONE_EACH = [answer(ECHO), answer(call("Read", file_path="a.txt")), DONE]

TRIALS = {
    "a text": Trial(steps=(BEGIN,), model=[DONE]),
    "two turns": Trial(steps=(BEGIN, AGAIN), model=[answer("ALPHA"), DONE]),
    "partial messages": Trial(
        args=(*SKIP, "--include-partial-messages"),
        steps=(BEGIN,),
        model=[answer({"thinking": "THOUGHT"}, "TEXT", ECHO), DONE],
    ),
    "an image": Trial(
        steps=(say([{"type": "text", "text": "BEGIN"}, IMAGE]),),
        model=[DONE],
    ),
    # -- limits
    "the limit of turns": Trial(
        args=(*SKIP, "--max-turns", "1"), steps=(BEGIN,), model=[answer("TEXT", ECHO), DONE]
    ),
    "the limit of turns, in text form": Trial(
        args=("-p", "BEGIN", *SKIP, "--max-turns", "1"), is_hosted=False, model=[answer(ECHO)]
    ),
    "the limit of turns, in JSON": Trial(
        args=("-p", "BEGIN", *SKIP, "--max-turns", "1", "--output-format", "json"),
        is_hosted=False,
        model=[answer(ECHO)],
    ),
    "the limit of cost": Trial(
        args=(*SKIP, "--max-budget-usd", "0.01"),
        steps=(BEGIN, AGAIN),
        model=[answer(ECHO, usage=EXPENSIVE), DONE],
    ),
    # -- structured output
    "structured output": Trial(args=STRUCTURED, steps=(BEGIN,), model=[RIGHT, DONE]),
    "structured output, first wrong": Trial(
        args=STRUCTURED, steps=(BEGIN,), model=[WRONG, RIGHT, DONE]
    ),
    "structured output, always wrong": Trial(args=STRUCTURED, steps=(BEGIN,), model=[WRONG]),
    "structured output, text first": Trial(
        args=STRUCTURED, steps=(BEGIN,), model=[DONE, RIGHT, DONE]
    ),
    "structured output, text only": Trial(args=STRUCTURED, steps=(BEGIN,), model=[DONE]),
    # -- interrupts
    "an interrupted command": Trial(
        args=SKIP,
        steps=(
            say("BEGIN", until="assistant"),
            HostStep(file="started"),
            control("interrupt", until="result"),
            AGAIN,
        ),
        model=[answer(LONG), DONE],
    ),
    "an interrupted text": Trial(
        args=("--include-partial-messages",),
        steps=(
            say("BEGIN", until="event/content_block_delta"),
            control("interrupt", until="result"),
            AGAIN,
        ),
        model=[
            answer("WORD " * 5, faults=[{"after_events": 4, "stall_s": "forever"}]),
            DONE,
        ],
    ),
    "an interrupt without a turn": Trial(steps=(control("interrupt"), BEGIN), model=[DONE]),
    # -- prompts that wait
    "three prompts at once": Trial(
        steps=(say("BEGIN", until=""), say("BETA", until=""), say("GAMMA", until="result")),
        model=[late(DONE, 1.5)],
    ),
    "a prompt while a command runs": Trial(
        args=SKIP,
        steps=(
            say("BEGIN", until="assistant"),
            HostStep(file="started"),
            say("BETA", until="result"),
        ),
        model=[answer(bash("touch started; sleep 2")), DONE],
    ),
    "replayed prompts": Trial(
        args=("--replay-user-messages",),
        steps=(say("BEGIN", uuid=FIRST_ID), say("AGAIN", uuid=SECOND_ID)),
        model=[DONE],
    ),
    "the input ends during the turn": Trial(
        steps=(say("BEGIN", until=""), HostStep(closes=True)), model=[late(DONE, 1)]
    ),
    # -- controls
    "a model is chosen during the turn": Trial(
        args=SKIP,
        steps=(
            say("BEGIN", until="assistant"),
            HostStep(file="started"),
            control("set_model", until="result", model="claude-opus-4-5"),
            AGAIN,
        ),
        model=[answer(bash("touch started; sleep 1")), DONE],
    ),
    "unknown controls": Trial(
        steps=(control("unheard_of"), control("set_permission_mode", mode="unheard"), BEGIN),
        model=[DONE],
    ),
    # -- sessions
    "resume, fork and continue": Trial(
        steps=(BEGIN,),
        later=(
            ("--resume", "{session}"),
            ("--resume", "{session}", "--fork-session"),
            ("--continue",),
        ),
        model=[answer("ALPHA"), answer("BETA"), answer("GAMMA"), DONE],
    ),
    "resume of an unknown session": Trial(
        args=("-p", "BEGIN", "--resume", FIRST_ID), is_hosted=False, model=[DONE]
    ),
    # -- settings and instructions
    "the user's settings": Trial(
        args=("--setting-sources", "user"), files=MEMORY, steps=(BEGIN,), model=ONE_EACH
    ),
    "a system prompt is added": Trial(
        args=("--append-system-prompt", "SYSTEM"), steps=(BEGIN,), model=[DONE]
    ),
    # -- output
    "text": Trial(args=("-p", "BEGIN"), is_hosted=False, model=[DONE]),
    "an unknown option": Trial(args=("-p", "BEGIN", "--unheard-of"), is_hosted=False, model=[DONE]),
}


@pytest.mark.e2e
@pytest.mark.parametrize("name", TRIALS)
def test_turns_are_the_same_in_the_reference_client(name: str, tmp_path: Path) -> None:
    check(name, TRIALS[name], tmp_path)
