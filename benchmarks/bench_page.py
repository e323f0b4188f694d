"""The page in a real browser: first screens of long sessions, and how soon what happens is seen.

It needs Chromium and the packages of `make e2e`.
"""

import json
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Figure

MEGABYTE = 1_000_000
VIEWERS = 50
LINES = 60
TEXT = (
    "A paragraph of a long answer with **bold** words, `code` and [a link](https://example.com). "
)
# Sets window.seen[text] to the time of the frame in which a text is first drawn.
WATCH = """() => {
  window.seen = {};
  const look = () => {
    const shown = document.querySelector('.session')?.innerText ?? '';
    for (const word of window.wanted ?? [])
      if (!(word in window.seen) && shown.includes(word))
        requestAnimationFrame(() => { window.seen[word] = performance.timeOrigin + performance.now(); });
    requestAnimationFrame(look);
  };
  look();
}"""
FRAMES = """() => {
  window.gaps = []; window.counting = true; let last = performance.now();
  const tick = (now) => { window.gaps.push(now - last); last = now; if (window.counting) requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""


@contextmanager
def watched(url: str, token: str, session: str) -> Iterator[None]:
    """Let other viewers read the stream of a session."""
    stop = threading.Event()

    def watch() -> None:
        path = f"{url}/v1/web/stream?session={session}&after=0"
        request = urllib.request.Request(path, headers={"authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as stream:
            while not stop.is_set() and stream.readline():
                pass

    threads = [threading.Thread(target=watch, daemon=True) for _ in range(VIEWERS - 1)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    try:
        yield
    finally:
        stop.set()


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def figures() -> Iterator[Figure]:
    from tests.fronts.remote.yard import Yard
    from tests.fronts.web.browsing import Screen, browsing
    from tests.fronts.web.test_reach import Worker, asked, fill, said

    with (
        tempfile.TemporaryDirectory() as folder,
        Yard(Path(folder), "http://127.0.0.1:9") as yard,
        browsing() as browser,
    ):
        screen = Screen(browser, "desk")
        screen.use_token(yard.url, yard.token)
        page = screen.page
        filler = "x" * 1500

        def open_s(session: str, last: str) -> float:
            """Return the time until the end of a session is drawn."""
            times = []
            for _ in range(5):
                page.goto("about:blank")
                page.goto(f"{yard.url}/#/s/{session}")
                page.wait_for_selector(f".session .said:has-text({last!r})")
                shown = "performance.getEntriesByName('shown')[0]?.startTime"
                page.wait_for_function(shown)
                times.append(float(page.evaluate(shown)) / 1000)
            return median(times)

        for size, goal in ((10 * MEGABYTE, 0.3), (100 * MEGABYTE, 1.0)):
            worker = Worker(yard, f"Size {size}")
            for start in range(0, size // 2000, 500):
                worker.send(*(said(f"{filler} {start + n} {TEXT}") for n in range(500)))
            worker.send(said("The end."))
            name = f"first screen of a session of {size // MEGABYTE} MB"
            yield Figure(
                name=name, value=open_s(worker.session, "The end."), unit="s", at_most=goal
            )

        worker = Worker(yard, "Entries")
        worker.send(*fill(10_000), said("The end."))
        page.goto(f"{yard.url}/#/s/{worker.session}")
        page.wait_for_selector(".said:has-text('The end.')")
        for _ in range(400):
            page.evaluate("document.querySelector('.scroller').scrollTop = 0")
            if page.locator(".typed:text-is('Prompt 1')").count():
                break
            page.wait_for_timeout(40)
        cdp = screen.context.new_cdp_session(page)
        cdp.send("HeapProfiler.collectGarbage")
        heap = float(page.evaluate("performance.memory.usedJSHeapSize")) / MEGABYTE
        name = "JavaScript heap after reading 10,000 entries to the first"
        yield Figure(name=name, value=heap, unit="MB", at_most=150)

        worker = Worker(yard, "Live")
        worker.send(asked("Begin"))
        worker.state(worker_status="running")
        page.goto(f"{yard.url}/#/s/{worker.session}")
        page.wait_for_selector(".typed:has-text('Begin')")
        page.evaluate(WATCH)

        def until_seen(word: str, payload: dict[str, Any], *, ephemeral: bool = False) -> float:
            page.evaluate("(w) => { window.wanted = [w]; }", word)
            begin = time.time()
            worker.send(payload, ephemeral=ephemeral)
            page.wait_for_function("(w) => w in window.seen", arg=word)
            return float(page.evaluate("(w) => window.seen[w]", word)) - begin * 1000

        with watched(yard.url, yard.token, worker.session):
            lines = [until_seen(f"line-{n}.", said(f"line-{n}.")) for n in range(LINES)]
        name = f"line at the worker to pixels, {VIEWERS} viewers, p95"
        yield Figure(
            name=name, value=percentile(lines, 0.95), unit="ms", at_most=100,
            note=f"median {median(lines):.0f} ms",
        )  # fmt: skip
        cards = []
        for n in range(20):
            request = {
                "subtype": "can_use_tool",
                "tool_name": "Bash",
                "input": {"command": f"do-{n}."},
            }
            frame = {
                "type": "control_request",
                "uuid": f"u{n}",
                "request_id": f"q{n}",
                "request": request,
            }
            cards.append(until_seen(f"do-{n}.", frame))
            worker.send({"type": "control_cancel_request", "uuid": f"c{n}", "request_id": f"q{n}"})
        yield Figure(
            name="question to card, p95", value=percentile(cards, 0.95), unit="ms", at_most=150,
            note=f"median {median(cards):.0f} ms",
        )  # fmt: skip

        def stream(event: dict[str, Any]) -> dict[str, Any]:
            return {"type": "stream_event", "event": event, "uuid": "s"}

        text = {"type": "text", "text": ""}
        worker.send(stream({"type": "message_start"}), ephemeral=True)
        worker.send(
            stream({"type": "content_block_start", "index": 0, "content_block": text}),
            ephemeral=True,
        )
        page.evaluate(FRAMES)
        page.wait_for_timeout(1000)
        idle: list[float] = json.loads(page.evaluate("JSON.stringify(window.gaps)"))
        page.evaluate("window.counting = false")
        page.evaluate(FRAMES)
        paragraph = TEXT * 2 + "\n\n"
        began_s = time.monotonic()
        for _ in range(100 * 1000 // len(paragraph)):
            delta = {"type": "text_delta", "text": paragraph}
            worker.send(
                stream({"type": "content_block_delta", "index": 0, "delta": delta}), ephemeral=True
            )
        streamed_s = time.monotonic() - began_s
        page.wait_for_timeout(300)
        gaps: list[float] = json.loads(page.evaluate("JSON.stringify(window.gaps)"))
        page.evaluate("window.counting = false")
        fps = 1000 * len(gaps) / sum(gaps)
        yield Figure(
            name="frames a second while 100 KB stream", value=fps, unit="fps", at_least=58,
            note=f"in {streamed_s:.1f} s; p99 gap {percentile(gaps, 0.99):.0f} ms;"
            f" idle {1000 * len(idle) / sum(idle):.0f} fps",
        )  # fmt: skip
        screen.close()
