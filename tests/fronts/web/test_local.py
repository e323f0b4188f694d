"""`clew web`: the sessions of this machine in its browser, without any set-up."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clew.record.transcript.running import list_running
from clew.testing.server import serving
from tests.fronts.headless.clew_process import environment
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.yard import Running
from tests.fronts.web.browsing import Screen, browsing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e
ANSWERS = [{"text": f"Answer {number}."} for number in range(20)]


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with browsing() as found:
        yield found


class Desk:
    """The machine of a test: its folder, and its runs of clew."""

    def __init__(self, home: Path, model_url: str) -> None:
        self.home = home
        self.work = home / "work"
        self.work.mkdir()
        self._environ = environment(home, model_url)
        self._running: list[Running] = []

    def run(self, *args: str, folder: Path | None = None) -> Running:
        running = Running(folder or self.work, self._environ, *args)
        self._running.append(running)
        return running

    def __enter__(self) -> "Desk":
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running:
            running.process.terminate()
            running.process.wait(30)
            for pipe in (running.process.stdin, running.process.stdout):
                assert pipe is not None
                pipe.close()


def find_address(web: Running) -> str:
    return web.until(lambda line: "#pair=" in line).split()[-1]


def test_any_session_of_the_machine_is_read_and_continued(
    browser: "Browser", tmp_path: Path
) -> None:
    plan = {"scenario": 1, "answers": ANSWERS}
    with serving(plan) as model, Desk(tmp_path, model.url) as desk:
        assert desk.run("-p", "the first question").end() == 0
        web = desk.run("web", "--no-open", "--port", "0")
        address = find_address(web)
        screen = Screen(browser, "desk")
        screen.open(address)
        screen.wait(".entry")
        assert "pair" not in screen.page.url
        screen.open_session("the first question")
        screen.wait_text(".said", "Answer 0.")
        screen.wait(".link-state .dot.away")
        # A prompt opens the session on this machine; nothing had to be started.
        screen.prompt("and a second one")
        screen.wait_text(".said", "Answer 1.")
        screen.wait_text(".link-state", "Live")
        assert screen.texts(".typed") == ["the first question", "and a second one"]
        # It is the same session that the terminal continues.
        files = list((tmp_path / "config" / "projects").rglob("*.jsonl"))
        assert len(files) == 1
        lines = [json.loads(line) for line in files[0].read_text("utf-8").splitlines()]
        assert "and a second one" in str(lines)
        # A second `clew web` opens the page of the first. Its address works once.
        other = desk.run("web", "--no-open")
        again = find_address(other)
        assert other.end() == 0
        assert again.split("#")[0] == address.split("#")[0]
        late = Screen(browser, "phone")
        late.open(address)
        late.wait("#problem:has-text('older than two minutes')")
        late.open("about:blank")
        late.open(again)
        late.wait(".entry")
        # The workers end with the server.
        assert list(list_running(tmp_path / "config"))
        web.process.terminate()
        web.process.wait(30)
        assert not list(list_running(tmp_path / "config"))
        for shown in (screen, late):
            shown.close()


def test_a_denied_call_is_told_to_people_and_not_in_the_words_for_the_model(
    browser: "Browser", tmp_path: Path
) -> None:
    plan = calls(("Bash", {"command": "touch made"}), ("Read", {"file_path": "no.txt"}))
    with serving(plan) as model, Desk(tmp_path, model.url) as desk:
        assert desk.run("-p", "make it").end() == 0
        web = desk.run("web", "--no-open", "--port", "0")
        screen = Screen(browser, "desk")
        screen.open(find_address(web))
        screen.wait(".entry")
        screen.open_session("make it")
        screen.wait_text(".tool.denied", "Not run, because it needed approval: touch made")
        screen.wait(".tool.failed")
        shown = screen.page.inner_text("main")
        # Without a repository, there is no branch to show.
        assert "HEAD" not in screen.page.inner_text(".titles .sub")
        for words in ("Continue with calls", "no user can be asked", "tool_use_error"):
            assert words not in shown
        screen.close()
    assert "Continue with calls" in str(model.requests[1].body)


def test_a_session_is_forked_before_a_prompt(browser: "Browser", tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": ANSWERS}
    with serving(plan) as model, Desk(tmp_path, model.url) as desk:
        assert desk.run("-p", "one").end() == 0
        assert desk.run("-p", "--continue", "two").end() == 0
        web = desk.run("web", "--no-open", "--port", "0")
        screen = Screen(browser, "desk")
        screen.open(find_address(web))
        screen.wait(".entry")
        screen.open_session("one")
        screen.wait_text(".said", "Answer 1.")
        screen.page.hover(".prompt:has-text('two')")
        screen.page.click(".prompt:has-text('two') button[aria-label='More']")
        screen.page.click("dialog button.primary")
        screen.wait_text("h1", "(fork)")
        assert screen.texts(".typed") == ["one"]
        assert screen.page.input_value(".composer textarea") == "two"
        screen.page.fill(".composer textarea", "two, but better")
        screen.page.click("button[aria-label=Send]")
        screen.wait_text(".said", "Answer 2.")
        # The other branch is as it was, and found by its words.
        screen.page.fill("input[type=search]", "two")
        screen.wait(".hit")
        assert len(screen.texts(".hit")) >= 2
        screen.close()


def test_a_new_user_starts_a_session_where_clew_web_was_started(
    browser: "Browser", tmp_path: Path
) -> None:
    plan = {"scenario": 1, "answers": ANSWERS}
    with serving(plan) as model, Desk(tmp_path, model.url) as desk:
        web = desk.run("web", "--no-open", "--port", "0")
        screen = Screen(browser, "desk")
        screen.open(find_address(web))
        screen.wait_text(".nothing", "Start one with +")
        # From another folder, the command offers that folder too, in the page that runs already.
        other = tmp_path / "other"
        other.mkdir()
        assert desk.run("web", "--no-open", folder=other).end() == 0
        screen.page.click("button[aria-label='New session']")
        screen.wait("dialog select")
        offered = screen.page.locator("dialog option").all_text_contents()
        assert offered == [str(other), str(desk.work)]
        screen.page.select_option("dialog select", str(desk.work))
        screen.page.click("dialog button:has-text('Start')")
        # What is typed at once is the prompt, not a shortcut of the page.
        screen.wait(".composer textarea:focus")
        screen.page.keyboard.type("find a bug")
        screen.page.keyboard.press("Enter")
        screen.wait_text(".said", "Answer 0.")
        assert screen.texts(".typed") == ["find a bug"]
        # The session is named by its prompt, and each turn has its own cost.
        screen.wait_text(".titles h1", "find a bug")
        screen.wait_text(".entry-title", "find a bug")
        screen.prompt("and another")
        screen.wait_text(".said", "Answer 1.")
        screen.page.wait_for_function("document.querySelectorAll('.turn').length === 2")
        first, second = (text.split(" · ")[-1] for text in screen.texts(".turn"))
        assert first.startswith("$")
        assert first == second
        screen.close()
