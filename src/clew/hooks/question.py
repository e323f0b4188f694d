"""Hooks that are questions: the event goes with the prompt, a model or an agent answers yes or no."""

import re

from msgspec import json

from clew.hooks.handlers import Agent, Hook, Prompt
from clew.hooks.output import Ran, judged
from clew.hooks.reach import HookError, Json, Reach

FORM = (
    'Answer with one JSON object and nothing else: {"ok": true}, or {"ok": false, "reason": "why"}.'
)
NEVER = 'If the condition can never be met, add "impossible": true.'
# `$ARGUMENTS`, unless a backslash says that it is meant as it stands.
PLACE = re.compile(r"(?<!\\)\$ARGUMENTS")
OBJECT = re.compile(r"\{.*\}", re.DOTALL)


async def ask(hook: Hook, handler: Prompt, given: Json, reach: Reach) -> Ran:
    if reach.ask_model is None:
        raise HookError("no model can be asked from here")
    prompt = asked(handler.prompt, given, f"{FORM} {NEVER}")
    words = await reach.ask_model(prompt, handler.model)
    answer = judged(hook.event.name, verdict(words), continues=handler.continues)
    return Ran(stdout=json.encode(answer).decode() if answer else "")


async def look(hook: Hook, handler: Agent, given: Json, reach: Reach) -> Ran:
    """An agent looks around before it answers; its no never ends the turn."""
    if reach.ask_agent is None:
        raise HookError("no agent can be asked from here")
    words = await reach.ask_agent(asked(handler.prompt, given, FORM), handler.model)
    said = {name: value for name, value in verdict(words).items() if name != "impossible"}
    answer = judged(hook.event.name, said, continues=True)
    return Ran(stdout=json.encode(answer).decode() if answer else "")


def asked(prompt: str, given: Json, form: str) -> str:
    event = json.encode(given).decode()
    filled, count = PLACE.subn(lambda _: event, prompt)
    filled = filled.replace("\\$", "$")
    parts = [filled] if count else [filled, event]
    return "\n\n".join([*parts, form])


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
