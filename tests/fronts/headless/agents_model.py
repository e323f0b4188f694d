"""A model that answers each conversation by its prompt: the session's, and its subagents'."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
Answer: TypeAlias = Json | Callable[[Json], Json]


def by_prompt(answers: Mapping[str, list[Answer]]) -> Callable[[Json], Json]:
    """Return the n-th answer for a prompt that begins this way; an unexpected prompt is echoed."""

    def answer(body: Json) -> Json:
        prompt, rounds = asked(body["messages"])
        for beginning, told in answers.items():
            if prompt.startswith(beginning):
                found = told[min(rounds, len(told) - 1)]
                return found(body) if callable(found) else found
        return {"text": f"unexpected: {prompt[:200]}"}

    return answer


def asked(messages: list[Json]) -> tuple[str, int]:
    """Return the last prompt, and how many answers follow it."""
    rounds = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            rounds += 1
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        said = [text for text in texts if not text.startswith(("<system-reminder", "Kinds of"))]
        if said and message["role"] == "user":
            return said[-1], rounds
    return "", rounds


def agent(prompt: str, **given: Any) -> Json:
    """A call of the Agent tool."""
    return {"tool": "Agent", "input": {"description": "some work", "prompt": prompt, **given}}


def uses(*calls: Json) -> Json:
    return {"content": list(calls)}


def once_heard(words: str, answer: Json) -> Answer:
    """Answer once the conversation contains `words`, however many steps that takes."""

    def look(body: Json) -> Json:
        if words in json.dumps(body["messages"], ensure_ascii=False):
            return answer
        # Another call each time: the same one again and again would be refused.
        command = f"sleep 0.1; : {len(body['messages'])}"
        return uses({"tool": "Bash", "input": {"command": command}})

    return look


def results(body: Json) -> list[str]:
    """Return the results in the last message as text."""
    blocks = body["messages"][-1]["content"]
    return [
        content
        if isinstance(content := block["content"], str)
        else "\n".join(part["text"] for part in content)
        for block in blocks
        if block["type"] == "tool_result"
    ]
