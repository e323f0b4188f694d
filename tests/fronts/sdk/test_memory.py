"""Memory of a session in this process: the conversation once, and not what a summary replaced."""

import gc
import tracemalloc
from pathlib import Path

import clew
from clew.testing.server import serving
from tests.agent.compaction.window import Window, answered
from tests.fronts.sdk.test_client import options
from tests.requirements import requirement

PROMPT_CHARS, PROMPTS = 200_000, 4


async def say(client: clew.ClewClient, prompt: str) -> None:
    async with client.turn(prompt) as turn:
        await turn.finish()


@requirement("R027")
async def test_a_conversation_is_held_once_and_goes_with_its_summary(tmp_path: Path) -> None:
    window = Window(lambda body: answered("Heard.", body), limit=1 << 40)
    with serving(window) as server:

        def held_bytes() -> int:
            # The service is in this process too.
            server.requests.clear()
            window.asked.clear()
            window.summaries.clear()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            async with clew.ClewClient(options(tmp_path, server.url)) as client:
                # What is loaded and kept for a summary does not count.
                for prompt in ("Begin.", "/compact", "Next."):
                    await say(client, prompt)
                begun = held_bytes()
                for number in range(PROMPTS):
                    await say(client, f"{number} " + "wool " * (PROMPT_CHARS // 5))
                grown = held_bytes()
                await say(client, "/compact")
                # The last request is kept until the next one, to be compared with it.
                await say(client, "Next.")
                left = held_bytes()
        finally:
            tracemalloc.stop()
    said = PROMPT_CHARS * PROMPTS
    assert said < grown - begun < 2 * said
    assert left - begun < said // 2
