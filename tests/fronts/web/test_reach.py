"""The page for everybody: by keyboard, by screen reader, at 320 px, from right to left, and long."""

import json
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.yard import Yard
from tests.fronts.web.browsing import Screen, browsing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e
ARABIC = "مرحبا، هذا **نص** طويل مع `code` داخله."


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with browsing() as found:
        yield found


class Worker:
    """A worker that uploads what a test wants a session to contain."""

    def __init__(self, yard: Yard, title: str) -> None:
        self._yard = yard
        self.session = str(uuid.uuid4())
        about = {"session_id": self.session, "title": title, "config": {"cwd": "/work"}}
        self._ask("POST", "/v1/code/sessions", about, yard.token)
        self._base = f"/v1/code/sessions/{self.session}"
        given = self._ask("POST", f"{self._base}/bridge", {}, yard.token)
        self._token, self._epoch = given["worker_jwt"], given["worker_epoch"]

    def _ask(self, method: str, path: str, body: Any, token: str) -> Any:
        request = urllib.request.Request(
            self._yard.url + path,
            data=json.dumps(body).encode(),
            method=method,
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())

    def send(self, *payloads: dict[str, Any], ephemeral: bool = False) -> None:
        events = [{"payload": payload, "ephemeral": ephemeral} for payload in payloads]
        for start in range(0, len(events), 500):
            body = {"worker_epoch": self._epoch, "events": events[start : start + 500]}
            self._ask("POST", f"{self._base}/worker/events", body, self._token)

    def state(self, **state: Any) -> None:
        body = {"worker_epoch": self._epoch, **state}
        self._ask("PUT", f"{self._base}/worker", body, self._token)


def said(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": str(uuid.uuid4()), "message": message}


def asked(text: str) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": str(uuid.uuid4()), "message": message}


def used(name: str, result: str, **given: Any) -> list[dict[str, Any]]:
    name_id = f"toolu_{uuid.uuid4().hex[:20]}"
    use = {"type": "tool_use", "id": name_id, "name": name, "input": given}
    back = {"type": "tool_result", "tool_use_id": name_id, "content": result}
    return [
        said("") | {"message": {"role": "assistant", "content": [use]}},
        asked("") | {"message": {"role": "user", "content": [back]}},
    ]


def fill(count: int) -> list[dict[str, Any]]:
    """Return the events of a long session: prompts, prose and calls."""
    events: list[dict[str, Any]] = []
    number = 0
    while len(events) < count:
        number += 1
        events.append(asked(f"Prompt {number}"))
        events += used("Read", "line\n" * 30, file_path=f"/work/file_{number}.py")
        events += used("Bash", f"result {number}\n" * 5, command=f"make check-{number}")
        events.append(said(f"Answer **{number}**.\n\n- one\n- two\n\n```python\nx = {number}\n```"))
    return events[:count]


def test_ten_thousand_entries_open_at_the_end_and_scroll_to_the_first(
    browser: "Browser", tmp_path: Path
) -> None:
    with Yard(tmp_path, "http://127.0.0.1:9") as yard:
        worker = Worker(yard, "Long")
        worker.send(*fill(10_000))
        phone = Screen(browser, "phone")
        phone.use_token(yard.url, yard.token)
        phone.open_session("Long")
        phone.wait_text(".prompt", "Prompt 1666")
        assert phone.page.locator(".row").count() < 400
        # Up to the first prompt, page by page, as a thumb would.
        top = "document.querySelector('.scroller').scrollTop = 0"
        for _ in range(200):
            phone.page.evaluate(top)
            if phone.page.locator(".typed:text-is('Prompt 1')").count():
                break
            phone.page.wait_for_timeout(60)
        assert phone.page.locator(".typed:text-is('Prompt 1')").count() == 1
        # Only what is near the window is in the document.
        phone.page.wait_for_function("document.querySelectorAll('.row').length < 900")
        # What is read stays where it is while the end grows.
        anchor = "document.querySelector('.prompt').getBoundingClientRect().top"
        before = phone.page.evaluate(anchor)
        worker.send(said("The newest."))
        phone.wait(".below")
        assert phone.page.evaluate(anchor) == before
        phone.page.click(".below")
        phone.wait_text(".said", "The newest.")
        session = phone.context.new_cdp_session(phone.page)
        session.send("HeapProfiler.collectGarbage")
        heap = phone.page.evaluate("performance.memory.usedJSHeapSize")
        assert heap < 150 << 20
        phone.close()


def test_messages_that_a_rewind_removed_are_shown_on_no_page(
    browser: "Browser", tmp_path: Path
) -> None:
    with Yard(tmp_path, "http://127.0.0.1:9") as yard:
        worker = Worker(yard, "Rewound")
        kept, gone, back = [asked("Kept"), *fill(30)], fill(400), [asked("Back"), said("Restored")]
        worker.send(*kept, *back, *gone)

        def rewind(removed: list[dict[str, Any]], restored: list[dict[str, Any]]) -> None:
            lists = {"removed": removed, "restored": restored}
            uuids = {name: [e["uuid"] for e in events] for name, events in lists.items()}
            worker.send(
                {"type": "system", "subtype": "rewound", "uuid": str(uuid.uuid4()), **uuids}
            )

        rewind([*back, *gone], [])
        rewind([], back)
        screen = Screen(browser, "desk")
        screen.use_token(yard.url, yard.token)
        screen.open_session("Rewound")
        # The last pages contain nothing that is still part of the conversation.
        screen.wait_text(".said", "Restored")
        screen.page.evaluate("document.querySelector('.scroller').scrollTop = 0")
        screen.wait_text(".typed", "Kept")
        prompts = [e for e in kept if isinstance(e["message"]["content"], str)]
        shown = [*(e["message"]["content"] for e in prompts if e["type"] == "user"), "Back"]
        assert screen.texts(".typed") == shown
        screen.close()


def test_text_for_the_model_is_labeled_and_what_viewers_send_is_shown(
    browser: "Browser", tmp_path: Path
) -> None:
    reminder = "<system-reminder>be brief</system-reminder>"
    news = "<task-notification><summary>make &lt;all&gt; failed</summary></task-notification>"
    with Yard(tmp_path, "http://127.0.0.1:9") as yard:
        worker = Worker(yard, "Labels")
        worker.send(
            asked(f"{reminder}\nTyped"),
            asked(news) | {"origin": {"kind": "task-notification"}},
            asked("caveat") | {"isSynthetic": True},
        )
        screen = Screen(browser, "desk")
        screen.use_token(yard.url, yard.token)
        screen.open_session("Labels")
        screen.wait_text(".notice", "Background task: make <all> failed")
        assert screen.texts(".typed") == ["Typed"]
        assert screen.texts(".aside summary") == ["For the model, not written by the user"] * 2
        screen.page.click(".aside summary >> nth=0")
        screen.wait_text(".aside pre", "be brief")
        screen.prompt(f"{reminder} hidden?")
        screen.wait_text(".typed", f"{reminder} hidden?")
        screen.close()


def test_everything_can_be_done_with_keys(browser: "Browser", tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": "touch made"}), ("Bash", {"command": "touch other"}))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker("--name", "By keys")
        desk = Screen(browser, "desk")
        keys = desk.page.keyboard
        desk.open(yard.url)
        desk.wait("#code")
        keys.type(yard.token)
        keys.press("Enter")
        desk.wait(".entry")
        keys.press("j")
        desk.wait(".composer")
        keys.press("i")
        keys.type("make them a s d")
        keys.press("Enter")
        desk.wait(".card")
        # What is typed into the prompt answers no question.
        keys.type("a")
        assert not (yard.work / "made").exists()
        keys.press("Backspace")
        keys.press("Escape")
        desk.page.wait_for_timeout(600)
        keys.press("a")
        desk.wait_text(".card pre.call", "touch other")
        assert (yard.work / "made").exists()
        desk.page.wait_for_timeout(600)
        keys.press("d")
        keys.type("not that")
        keys.press("Enter")
        desk.wait(".turn")
        assert not (yard.work / "other").exists()
        keys.press("Escape")
        # Every control is reached with Tab, and says what it is.
        names = set()
        for _ in range(40):
            keys.press("Tab")
            names.add(
                desk.page.evaluate(
                    "(e => e.getAttribute('aria-label') || e.textContent.trim() || e.tagName)"
                    "(document.activeElement)"
                )
            )
        assert {"Search all sessions", "Transcript", "Prompt", "Permission mode"} <= names
        desk.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["phone", "desk"])
def test_axe_finds_nothing(browser: "Browser", tmp_path: Path, size: str, scheme: str) -> None:
    edit = {"file_path": "a.py", "old_string": "one = 1", "new_string": "one = 2"}
    plan = calls(
        ("Read", {"file_path": "a.py"}),
        (
            "TodoWrite",
            {"todos": [{"content": "Do", "status": "in_progress", "activeForm": "Doing"}]},
        ),
        ("Edit", edit),
        ("Bash", {"command": "touch x && rm -f y"}),
    )
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        (yard.work / "a.py").write_text("one = 1\n", "utf-8")
        yard.worker("--name", "Axe")
        screen = Screen(browser, size, scheme=scheme, bypass_csp=True)
        screen.open(yard.url)
        screen.wait("#code")
        assert screen.violations() == []
        screen.use_token(yard.url, yard.token)
        screen.wait(".entry")
        assert screen.violations() == []
        screen.page.click("button[aria-label='This browser']")
        screen.wait("#pushes")
        screen.page.wait_for_timeout(400)
        assert screen.violations() == []
        screen.page.keyboard.press("Escape")
        screen.open_session("Axe")
        screen.prompt("go: " + "# Title\n")
        screen.wait(".card .diff")
        screen.page.wait_for_timeout(400)
        assert screen.violations() == []
        screen.press("Allow once")
        screen.wait(".card .parts")
        screen.page.wait_for_timeout(400)
        assert screen.violations() == []
        screen.press("Deny")
        screen.wait(".turn")
        screen.page.wait_for_timeout(400)
        assert screen.violations() == []
        screen.close()


def test_narrow_windows_and_texts_from_right_to_left_fit(
    browser: "Browser", tmp_path: Path
) -> None:
    with Yard(tmp_path, "http://127.0.0.1:9") as yard:
        worker = Worker(yard, "مشروع")
        wide = "| a | b | c |\n|---|---|---|\n| " + "x" * 80 + " | 2 | 3 |\n\n" + "y" * 200
        worker.send(
            asked(ARABIC), said(ARABIC), said(wide), *used("Bash", "z" * 300, command="w" * 200)
        )
        screen = Screen(browser, "narrow", reduced_motion="reduce")
        screen.use_token(yard.url, yard.token)
        screen.wait(".entry")
        screen.open_session("مشروع")
        screen.wait(".said")
        fits = "document.documentElement.scrollWidth <= innerWidth"
        assert screen.page.evaluate(fits)
        spills = (
            "[...document.querySelectorAll('.row')].filter(r => r.getBoundingClientRect().right"
            " > innerWidth + 1).length"
        )
        assert screen.page.evaluate(spills) == 0
        side = "getComputedStyle(document.querySelector('.said p')).direction"
        assert screen.page.evaluate(side) == "rtl"
        moving = "document.getAnimations().filter(a => a.playState === 'running').length"
        assert screen.page.evaluate(moving) == 0
        screen.close()


def test_the_page_opens_without_a_network_and_says_so(browser: "Browser", tmp_path: Path) -> None:
    with Yard(tmp_path, "http://127.0.0.1:9") as yard:
        screen = Screen(browser, "phone")
        screen.use_token(yard.url, yard.token)
        ready = "navigator.serviceWorker.ready.then(() => caches.open('clew-page'))"
        screen.page.evaluate(f"{ready}.then(c => c.keys()).then(keys => keys.length)")
        screen.page.wait_for_function(
            "caches.open('clew-page').then(c => c.keys()).then(k => k.length > 10)"
        )
        screen.page.reload()
        screen.wait(".list")
        yard.server.kill()
        screen.page.reload()
        screen.wait_text(".note", "reconnecting")
        # Nothing that sessions say is kept by the worker.
        kept = screen.page.evaluate(
            "caches.open('clew-page').then(c => c.keys()).then(k => k.map(r => new URL(r.url).pathname))"
        )
        assert all(path == "/" or path.startswith("/web/") for path in kept)
        screen.close()
