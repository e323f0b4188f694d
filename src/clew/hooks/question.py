"""Hooks that are questions to a model: the event goes with the prompt, the answer is yes or no."""

import re

from msgspec import json

from clew.hooks.handlers import Hook, Prompt
from clew.hooks.output import Ran, judged
from clew.hooks.reach import HookError, Json, Reach

FORM = (
    'Answer with one JSON object and nothing else: {"ok": true}, or {"ok": false, "reason": "why"}. '
    'If the condition can never be met, add "impossible": true.'
)
# `$ARGUMENTS`, unless a backslash says that it is meant as it stands.
PLACE = re.compile(r"(?<!\\)\$ARGUMENTS")
OBJECT = re.compile(r"\{.*\}", re.DOTALL)


async def ask(hook: Hook, handler: Prompt, given: Json, reach: Reach) -> Ran:
    if reach.ask_model is None:
        raise HookError("no model can be asked from here")
    words = await reach.ask_model(asked(handler.prompt, given), handler.model)
    answer = judged(hook.event.name, verdict(words), continues=handler.continues)
    return Ran(stdout=json.encode(answer).decode() if answer else "")


def asked(prompt: str, given: Json) -> str:
    event = json.encode(given).decode()
    filled, count = PLACE.subn(lambda _: event, prompt)
    filled = filled.replace("\\$", "$")
    parts = [filled] if count else [filled, event]
    return "\n\n".join([*parts, FORM])


def verdict(words: str) -> Json:
    """The object in a model's answer; without one there is no verdict, and that is told."""
    found = OBJECT.search(words)
    try:
        value = json.decode(found[0]) if found else None
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("ok"), bool):
        raise HookError(f"the model's answer is no verdict: {words[:200]}")
    return value
