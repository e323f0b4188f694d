"""A provider of one's own: it answers from a table, and asks another time when it is busy."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import clew

ANSWERS = {"capital of France": "Paris", "capital of Peru": "Lima"}


class TableProvider:
    """The provider is any callable that returns an async iterator, so it can have state."""

    def __init__(self) -> None:
        self.requests = 0

    async def __call__(
        self, request: clew.ModelRequest
    ) -> AsyncIterator[str | dict[str, Any] | clew.Failure]:
        self.requests += 1
        if self.requests == 1:
            # Repeated like the same failure of a service: after a short pause.
            yield clew.Failure(kind="status", status=529, message="busy", retry_after_s=0.01)
            return
        asked = str(request.messages[-1]["content"])
        for question, answer in ANSWERS.items():
            if question in asked:
                for piece in ("The ", question, " is ", answer, "."):
                    yield piece
                    await asyncio.sleep(0)  # Pieces are shown as they arrive.
        yield {"type": "usage", "input_tokens": 20, "output_tokens": 7}


async def main() -> None:
    provider = TableProvider()
    with tempfile.TemporaryDirectory() as folder:
        options = clew.ClewOptions(
            cwd=folder,
            home=f"{folder}/home",
            setting_sources=[],
            persists=False,
            provider=provider,
            model="table",
        )
        async with clew.ClewClient(options) as client:
            for question in ANSWERS:
                async with client.turn(f"What is the {question}?") as turn:
                    print((await turn.finish()).text)
    print(provider.requests, "requests")


if __name__ == "__main__":
    asyncio.run(main())

# -> The capital of France is Paris.
# -> The capital of Peru is Lima.
# -> 3 requests
