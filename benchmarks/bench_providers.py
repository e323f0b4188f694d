"""One hello over loopback in a new process, compared with the official client and a bare
interpreter.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measure import Figure, process
from clew.providers.answer import Answering
from clew.providers.anthropic import provider_from_environment
from clew.providers.base import ModelRequest
from clew.testing.server import LoopbackServer, serving

OURS = """
import asyncio, os
from clew.providers.anthropic import provider_from_environment
from clew.providers.answer import Answering
from clew.providers.base import ModelRequest

async def main():
    provider = provider_from_environment(dict(os.environ))
    provider.transport.trust.warm()
    request = ModelRequest(model="opus", messages=[{"role": "user", "content": "hello"}])
    async def emit(event): pass
    ended = await Answering(provider, new_tool_id=lambda: "own").run(request, emit)
    await provider.transport.trust.context()
    await provider.aclose()
    assert ended.message["content"][0]["text"] == "hello there", ended

asyncio.run(main())
"""

THEIRS = """
import anthropic

client = anthropic.Anthropic()
with client.messages.stream(
    model="claude-opus-5-5", max_tokens=1000, messages=[{"role": "user", "content": "hello"}]
) as stream:
    message = stream.get_final_message()
assert message.content[0].text == "hello there", message
"""


# The states in which an answer is cancelled: before its headers, between two events, inside one.
PLACES: dict[str, dict[str, Any]] = {
    "waiting for headers": {"at": "headers"},
    "between two events": {"after_events": 3},
    "inside an event": {"after_bytes": 500},
}


async def cancel_s(place: dict[str, Any], tries: int = 20) -> float:
    """Return the longest time from a cancel to the end of the task, including releasing the
    connection.
    """
    answer = {"text": "word " * 200, "faults": [place | {"stall_s": "forever"}], "times": "always"}
    worst = 0.0
    async with LoopbackServer({"scenario": 1, "answers": [answer]}) as server:
        provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
        request = ModelRequest(model="opus", messages=[{"role": "user", "content": "hello"}])

        async def emit(event: object) -> None:
            pass

        for number in range(tries):
            answering = Answering(provider, new_tool_id=lambda: "own")
            task = asyncio.ensure_future(answering.run(request, emit))
            await server.wait_for_requests(number + 1)
            await asyncio.sleep(0.02)
            begin = time.perf_counter()
            task.cancel()
            await asyncio.wait([task])
            worst = max(worst, time.perf_counter() - begin)
        await provider.aclose()
    return worst


def figures() -> Iterator[Figure]:
    for name, place in PLACES.items():
        yield Figure(
            name=f"cancel while {name}, worst of 20, wall",
            value=asyncio.run(cancel_s(place)) * 1000,
            unit="ms",
            at_most=100,
        )
    answers = {"scenario": 1, "answers": [{"text": "hello there", "times": "always"}]}
    with serving(answers) as server, tempfile.TemporaryDirectory() as home:
        # Without this machine's proxies and certificates, which would be measured too.
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "key",
        }
        bare = process([sys.executable, "-c", "import asyncio"], env=environment)
        ours = process([sys.executable, "-c", OURS], env=environment)
        whole = process([sys.executable, "-m", "clew", "-p", "hi"], env=environment)
        theirs = process([sys.executable, "-c", THEIRS], env=environment, runs=3)
    yield Figure(name="import asyncio, CPU", value=bare.cpu_s * 1000, unit="ms")
    yield Figure(name="one hello, TLS context built, CPU", value=ours.cpu_s * 1000, unit="ms")
    yield Figure(
        name="the same over import asyncio", value=ours.cpu_s / bare.cpu_s, unit="x", at_most=3.8
    )
    yield Figure(
        name="one hello, TLS context built, memory", value=ours.peak_rss_mb, unit="MB", at_most=32
    )
    yield Figure(name="clew -p, CPU over import asyncio", value=whole.cpu_s / bare.cpu_s, unit="x")
    yield Figure(name="clew -p, memory", value=whole.peak_rss_mb, unit="MB")
    yield Figure(
        name="the official client's hello / ours, CPU",
        value=theirs.cpu_s / ours.cpu_s,
        unit="x",
        at_least=5,
    )
    yield Figure(
        name="the official client's hello / ours, memory",
        value=theirs.peak_rss_mb / ours.peak_rss_mb,
        unit="x",
    )
