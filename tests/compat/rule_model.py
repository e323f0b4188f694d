"""A model that knows the Agent SDK's own end-to-end tests, and answers each of their prompts."""

import re
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

RUN = re.compile(r"Run(?: this bash command| the command)?: (.+)", re.DOTALL)
WRITE = re.compile(r"create the file (\S+) containing exactly the text (\w+)")
EXACTLY = re.compile(r"Reply with exactly: (\w+)")
VALUES: Json = {
    "file_count": 12,
    "has_tests": True,
    "test_file_count": 3,
    "test_framework": "pytest",
    "test_count": 5,
    "has_readme": False,
    "analysis": {"word_count": 2, "character_count": 11},
    "words": ["Hello", "world"],
}


def answer(body: Json) -> Json:
    """The answer to a request, in the form of a scenario."""
    if "nonexistent" in body["model"]:
        return {"status": 404, "error": {"message": f"model: {body['model']}"}}
    prompt, is_after_a_call = said(body["messages"])
    tools = {tool["name"]: tool for tool in body.get("tools") or []}
    if is_after_a_call:
        return after_a_call(body, prompt)
    return call(prompt, tools) or words(body, prompt)


def said(messages: list[Json]) -> tuple[str, bool]:
    """Return the last prompt, and whether results follow it."""
    results = False
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = results or any(block["type"] == "tool_result" for block in blocks)
        texts = [
            block["text"]
            for block in blocks
            if block["type"] == "text" and not block["text"].startswith("<system-reminder")
        ]
        if texts and not any(block["type"] == "tool_result" for block in blocks):
            return texts[0], results
    return "", results


def call(prompt: str, tools: dict[str, Json]) -> Json | None:
    """The tool that a prompt asks for."""
    if "StructuredOutput" in tools:
        wanted = tools["StructuredOutput"]["input_schema"]["properties"]
        return uses("StructuredOutput", {name: VALUES[name] for name in wanted})
    if found := RUN.search(prompt):
        return uses("Bash", {"command": found[1]})
    if found := WRITE.search(prompt):
        return uses("Write", {"file_path": found[1], "content": found[2]})
    if "Use the Agent tool" in prompt:
        given = {"subagent_type": "greeter", "prompt": "say hi", "description": "greet"}
        return uses("Agent", given | {"run_in_background": False})
    if "First use the greet tool" in prompt:
        return uses("mcp__test__greet", {"name": "Alice"})
    if "mcp__multi__echo" in prompt:
        return {
            "content": [
                {"tool": "mcp__multi__echo", "input": {"text": "test"}},
                {"tool": "mcp__multi__greet", "input": {"name": "Bob"}},
            ]
        }
    if found := re.search(r"mcp__\w+__echo", prompt):
        return uses(found[0], {"text": "any text"})
    return None


def after_a_call(body: Json, prompt: str) -> Json:
    used = [
        block["name"]
        for message in body["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    if "First use the greet tool" in prompt and "mcp__test__echo" not in used:
        return uses("mcp__test__echo", {"text": "test"})
    return {"text": "DONE"}


def words(body: Json, prompt: str) -> Json:
    if found := EXACTLY.search(prompt):
        return {"text": found[1]}
    if "Count from 1 to 100" in prompt:
        counted = ", ".join(str(n) for n in range(1, 101))
        return {"text": counted, "send": {"events_per_s": 100}}
    if (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
        thought = {"thinking": "2 and 2 are 4; three jokes come to mind.", "signature": "c2ln"}
        return {"content": [thought, "4. A clew walks into a labyrinth."]}
    return {"text": "Hello there, friend."}


def uses(name: str, given: Json) -> Json:
    return {"content": [{"tool": name, "input": given}]}
