"""A compaction of one's own: what was decided stays word for word, and no model is asked.

Lines that begin with `Decision:` are kept, and so is the newest turn.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import takewhile
from typing import Any

import clew

MARK = "Decision:"


def find_texts(entry: dict[str, Any]) -> Iterator[str]:
    message = entry.get("message") or {}
    content = message.get("content") or ""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    yield from (block["text"] for block in blocks if block.get("type") == "text")


async def keep_decisions(request: clew.CompactionRequest) -> clew.CompactionSummary | None:
    """Return the decisions so far, and keep the conversation from the newest prompt on."""
    prompts = [entry["uuid"] for entry in request.entries if entry.get("promptSource")]
    decisions = [
        line
        for entry in takewhile(lambda entry: entry["uuid"] != prompts[-1], request.entries)
        for text in find_texts(entry)
        for line in text.splitlines()
        if line.startswith(MARK)
    ]
    if not decisions:
        return None  # clew asks the model for a summary, as usual.
    return clew.CompactionSummary(text="\n".join(decisions), keep_from=prompts[-1])


async def answer(request: clew.ModelRequest) -> AsyncIterator[str]:
    """A model that decides something in every answer, after many words."""
    sent = str(request.messages)
    known = sent.count(MARK)
    yield "Some thoughts. " * 200
    yield f"\n{MARK} use color {known + 1}. I was sent {known} decisions"
    yield f" and {sent.count('Some thoughts') // 200} answers."


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = clew.ClewOptions(
            cwd=folder,
            home=f"{folder}/home",
            setting_sources=[],
            provider=answer,
            model="painter",
            compact=keep_decisions,
        )
        async with clew.ClewClient(options) as client:
            for prompt in ("A color?", "Another?", "/compact", "And now?"):
                async with client.turn(prompt) as turn:
                    result = await turn.finish()
                if not prompt.startswith("/"):
                    print(result.text.splitlines()[-1])


if __name__ == "__main__":
    asyncio.run(main())

# -> Decision: use color 1. I was sent 0 decisions and 0 answers.
# -> Decision: use color 2. I was sent 1 decisions and 1 answers.
# -> Decision: use color 3. I was sent 2 decisions and 1 answers.
