"""The page in a real browser: pairing, following, answering, and what happens when links break."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clew.testing.server import serving
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.test_host import begin_host
from tests.fronts.remote.yard import Yard
from tests.fronts.web.browsing import Screen, browsing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e
LASTING = ("--settings", json.dumps({"remoteAnswers": "session"}))


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with browsing() as found:
        yield found


def bash(command: str) -> tuple[str, dict[str, str]]:
    return ("Bash", {"command": command, "description": f"Do {command.split()[0]}"})


def test_a_phone_is_paired_by_its_code_and_finishes_a_task(
    browser: "Browser", tmp_path: Path
) -> None:
    plan = calls(
        bash("touch made && rm -f gone"),
        ("Write", {"file_path": "notes.txt", "content": "one\ntwo\n"}),
        bash("touch never"),
    )
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker("--name", "Make files")
        offer = yard.run("pair")
        address = offer.until(lambda line: "#pair=" in line).strip()
        phone = Screen(browser, "phone", scheme="dark")
        phone.open(address)
        asked = offer.until(lambda line: "y or n" in line)
        assert "Chrome on" in asked
        assert "view,answer,prompt" in asked
        offer.type("y")
        phone.wait(".entry")
        assert offer.end() == 0
        # The code is not in the address any more.
        assert "pair" not in phone.page.url
        # From now on the machine takes only signed messages, and this browser signs.
        phone.open_session("Make files")
        phone.prompt('make the files – ünïcode, "quotes", 1 & 2 🙂 \\ / \t tab')
        phone.wait(".card")
        assert phone.texts(".card h2") == ["Run this command?"]
        assert phone.texts(".card pre.call") == ["touch made && rm -f gone"]
        assert len(phone.texts(".card .parts li")) == 2
        assert not (yard.work / "made").exists()
        phone.press("Allow once")
        phone.wait_text(".card h2", "Write this file?")
        assert (yard.work / "made").exists()
        phone.press("Allow once")
        phone.wait_text(".card pre.call", "touch never")
        phone.page.fill(".card .reason", "use the other folder")
        phone.press("Deny")
        phone.wait(".turn")
        assert (yard.work / "notes.txt").read_text("utf-8") == "one\ntwo\n"
        assert not (yard.work / "never").exists()
        entries = yard.entries()
        assert "use the other folder" in str(entries)
        prompts = [e for e in entries if e["type"] == "user" and e.get("origin")]
        assert prompts[0]["message"]["content"].endswith("🙂 \\ / \t tab")
        phone.close()


def test_an_approval_lasts_for_the_session_only_where_the_machine_allows_it(
    browser: "Browser", tmp_path: Path
) -> None:
    plan = calls(bash("touch one"), bash("touch two"))
    for number, options in enumerate(((), LASTING)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with serving(plan) as model, Yard(folder, model.url) as yard:
            yard.worker("--name", "Touch", *options)
            desk = Screen(browser, "desk")
            desk.use_token(yard.url, yard.token)
            desk.open_session("Touch")
            desk.prompt("go")
            desk.wait(".card")
            offered = desk.texts(".card .actions button")
            assert any("session" in label for label in offered) is bool(options)
            if options:
                desk.press("Allow for this session")
                desk.wait(".turn")
                assert (yard.work / "two").exists()
            desk.close()


def test_an_edit_is_shown_once_and_keys_are_named_only_where_they_work(
    browser: "Browser", tmp_path: Path
) -> None:
    change = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
    plan = calls(("Read", {"file_path": "a.txt"}), ("Edit", change))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        (yard.work / "a.txt").write_text("one\n", "utf-8")
        yard.worker("--name", "Edit")
        desk = Screen(browser, "desk")
        desk.use_token(yard.url, yard.token)
        desk.open_session("Edit")
        desk.prompt("go")
        desk.wait(".card .diff")
        desk.wait(".tool.waiting:has-text('a.txt')")
        assert desk.page.locator(".diff").count() == 1
        # With the focus in the prompt box, letters are text.
        desk.page.focus(".composer textarea")
        assert not desk.page.locator(".card kbd").first.is_visible()
        desk.page.keyboard.type("add")
        assert desk.page.input_value(".composer textarea") == "add"
        assert (yard.work / "a.txt").read_text("utf-8") == "one\n"
        desk.page.keyboard.press("Escape")
        desk.page.wait_for_selector(".card kbd", state="visible")
        desk.page.wait_for_timeout(600)
        desk.page.keyboard.press("a")
        desk.wait(".tool.done .diff")
        desk.wait(".turn")
        assert (yard.work / "a.txt").read_text("utf-8") == "two\n"
        assert desk.page.locator(".diff").count() == 1
        desk.close()


def test_two_devices_answer_at_once_and_one_answer_counts(
    browser: "Browser", tmp_path: Path
) -> None:
    plan = calls(bash("touch made"))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker("--name", "Race")
        yard.run("serve", "add", "phone", "--db", f"sqlite:{tmp_path / 'serve.db'}").end()
        screens = [Screen(browser, "desk"), Screen(browser, "phone")]
        for screen in screens:
            screen.use_token(yard.url, yard.token)
            screen.open_session("Race")
        screens[0].prompt("go")
        for screen in screens:
            screen.wait(".card")
        # One sends first, but the other can't know it yet.
        screens[1].context.set_offline(True)
        screens[0].press("Allow once")
        screens[1].page.fill(".card .reason", "no")
        screens[1].press("Deny")
        screens[0].wait(".turn")
        screens[1].context.set_offline(False)
        screens[1].wait_text(".toast", "answered")
        for screen in screens:
            screen.wait(".turn")
            screen.page.wait_for_selector(".card", state="detached")
            screen.wait_text(".tool .by", "Allowed by owner")
        assert (yard.work / "made").exists()
        for screen in screens:
            screen.close()


def test_an_answer_is_seen_growing_and_can_be_interrupted(
    browser: "Browser", tmp_path: Path
) -> None:
    text = "\n\n".join(f"Paragraph **{number}** of a long answer." for number in range(400))
    slow = {"text": text, "send": {"events_per_s": 60}}
    plan = {"scenario": 1, "answers": [slow, {"text": "Again.", "times": "always"}]}
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker("--name", "Grow")
        desk = Screen(browser, "desk")
        desk.use_token(yard.url, yard.token)
        desk.open_session("Grow")
        desk.prompt("tell me")
        desk.wait_text(".live", "Paragraph 3 ")
        assert not desk.texts(".turn")
        first = len("".join(desk.texts(".live")))
        desk.wait_text(".live", "Paragraph 60 ")
        assert len("".join(desk.texts(".live"))) > first
        desk.page.click("button[aria-label=Interrupt]")
        desk.wait(".turn")
        assert not desk.texts(".live .row")
        desk.prompt("and now?")
        desk.wait_text(".said", "Again.")
        desk.close()


def test_nothing_is_lost_or_doubled_while_a_browser_is_offline(
    browser: "Browser", tmp_path: Path
) -> None:
    answers = [{"text": f"Answer {number}."} for number in range(4)]
    with serving({"scenario": 1, "answers": answers}) as model, Yard(tmp_path, model.url) as yard:
        yard.worker("--name", "Away")
        away, here = Screen(browser, "phone"), Screen(browser, "desk")
        for screen in (away, here):
            screen.use_token(yard.url, yard.token)
            screen.open_session("Away")
        away.prompt("one")
        for screen in (away, here):
            screen.wait_text(".said", "Answer 0.")
        away.context.set_offline(True)
        away.wait_text(".link-state", "offline")
        assert "ago" in away.texts(".link-state")[0]
        # What is typed without a link is kept, and sent once.
        away.prompt("from the tunnel")
        away.wait_text(".prompt", "Not sent yet")
        here.prompt("two")
        here.wait_text(".said", "Answer 1.")
        assert not any("Answer 1." in text for text in away.texts(".said"))
        away.context.set_offline(False)
        away.wait_text(".said", "Answer 2.")
        here.wait_text(".said", "Answer 2.")
        assert away.texts(".said") == here.texts(".said") == [f"Answer {n}." for n in range(3)]
        assert sorted(away.texts(".typed")) == sorted(here.texts(".typed"))
        assert away.texts(".link-state") == ["Live"]
        for screen in (away, here):
            screen.close()


def test_the_page_lives_through_a_killed_server_and_a_killed_machine(
    browser: "Browser", tmp_path: Path
) -> None:
    with (
        serving({"scenario": 1, "answers": [{"text": "Here.", "times": "always"}]}) as model,
        Yard(tmp_path, model.url) as yard,
    ):
        worker = yard.worker("--name", "Kill")
        desk = Screen(browser, "desk")
        desk.use_token(yard.url, yard.token)
        desk.open_session("Kill")
        desk.prompt("one")
        desk.wait_text(".said", "Here.")
        yard.server.kill()
        desk.wait_text(".link-state", "reconnecting")
        desk.prompt("two")
        desk.wait_text(".prompt", "Not sent yet")
        # Even closing the page loses nothing that was typed.
        desk.page.reload()
        yard.serve()
        desk.wait_text(".prompt", "two")
        desk.wait(".said >> nth=1")
        desk.wait_text(".link-state", "Live")
        assert desk.texts(".typed") == ["one", "two"]
        worker.process.terminate()
        worker.process.wait(30)
        desk.wait(".link-state .dot.away")
        desk.close()


def test_a_session_on_a_server_is_rewound_for_everyone(browser: "Browser", tmp_path: Path) -> None:
    slow = {"text": "One. " * 200, "send": {"events_per_s": 20}}
    answers = [{"text": f"Answer {number}."} for number in range(3)]
    plan = {"scenario": 1, "answers": [*answers, slow]}
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker("--name", "Back")
        desk, phone = Screen(browser, "desk"), Screen(browser, "phone")
        for screen in (desk, phone):
            screen.use_token(yard.url, yard.token)
            screen.open_session("Back")
        for number, prompt in enumerate(("keep", "drop")):
            desk.prompt(prompt)
            desk.wait_text(".said", f"Answer {number}.")
            phone.wait_text(".said", f"Answer {number}.")
        desk.page.click(".prompt:has-text('drop') button[aria-label=More]")
        desk.wait_text("dialog", "files do not change")
        desk.page.click("dialog button:has-text('Rewind')")
        for screen in (desk, phone):
            screen.wait_text(".notice", "Rewound by owner")
            assert screen.texts(".typed") == ["keep"]
            assert screen.texts(".said") == ["Answer 0."]
        # Who rewound can edit the prompt; others keep what they are typing.
        assert desk.page.input_value(".composer textarea") == "drop"
        assert phone.page.input_value(".composer textarea") == ""
        phone.prompt("instead")
        desk.wait_text(".said", "Answer 2.")
        assert "drop" not in str(model.requests[-1].body["messages"])
        assert "keep" in str(model.requests[-1].body["messages"])
        phone.page.reload()
        phone.wait_text(".said", "Answer 2.")
        assert phone.texts(".typed") == ["keep", "instead"]
        assert "drop" in str(yard.entries())
        # While a turn runs, the machine refuses, and the conversation stays.
        desk.page.fill(".composer textarea", "")
        desk.prompt("more")
        desk.wait_text(".live", "One. One.")
        desk.page.click(".prompt:has-text('instead') button[aria-label=More]")
        desk.page.click("dialog button:has-text('Rewind')")
        desk.wait_text(".toast", "a turn is running")
        assert desk.texts(".typed") == ["keep", "instead", "more"]
        for screen in (desk, phone):
            screen.close()


def test_a_host_forks_a_session_on_a_server(browser: "Browser", tmp_path: Path) -> None:
    answers = [{"text": f"Answer {number}."} for number in range(4)]
    project = tmp_path / "project"
    project.mkdir()
    with serving({"scenario": 1, "answers": answers}) as model, Yard(tmp_path, model.url) as yard:
        desk = Screen(browser, "desk")
        desk.use_token(yard.url, yard.token)
        begin_host(yard, project)
        desk.wait_text(".nothing", "No sessions yet.")
        started = yard.run("remote", "start", str(project), "first")
        assert started.end() == 0, started.lines
        yard.session = started.lines[-1]
        desk.page.click(".entry")
        desk.wait_text(".said", "Answer 0.")
        desk.prompt("second")
        desk.wait_text(".said", "Answer 1.")
        more = ".prompt:has-text('{}') button[aria-label=More]"
        desk.page.click(more.format("second"))
        desk.page.click("dialog button:has-text('Edit and resend')")
        desk.page.wait_for_url(lambda url: "/#/s/" in url and yard.session not in url)
        fork = desk.page.url.rpartition("/")[2]
        desk.wait_text(".said", "Answer 0.")
        assert desk.texts(".typed") == ["first"]
        assert desk.page.input_value(".composer textarea") == "second"
        desk.prompt("other")
        desk.wait_text(".said", "Answer 2.")
        told = str(model.requests[-1].body["messages"])
        assert "first" in told
        assert "second" not in told
        # The original goes on as it was, and its first prompt has nothing before it.
        desk.page.goto(f"{yard.url}/#/s/{yard.session}")
        desk.wait_text(".said", "Answer 1.")
        assert desk.texts(".typed") == ["first", "second"]
        desk.page.click(more.format("first"))
        desk.page.click("dialog button:has-text('Edit and resend')")
        desk.wait_text(".toast", "before the first prompt")
        for session in (yard.session, fork):
            assert yard.run("remote", "end", session).end() == 0
        desk.close()


HOSTILE = (
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>\n\n"
    "[link](javascript:window.hit=3) ![image](https://evil.example/i.png) "
    "<a href='javascript:1'>raw</a>\n\n```html\n<iframe src=//evil.example></iframe>\n```\n"
)
ESCAPES = "printf '\\033[31mred\\033[0m \\033]0;title\\007 \\033[2J<script>window.hit = 4</script>'"


def test_text_is_never_markup_and_escapes_are_never_obeyed(
    browser: "Browser", tmp_path: Path
) -> None:
    hidden = "echo ok \u202e cod.exe \u200b"
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [HOSTILE, {"tool": "Bash", "input": {"command": ESCAPES}}]},
            {"content": [{"tool": "Bash", "input": {"command": hidden}}]},
            {"text": "Done.", "times": "always"},
        ],
    }
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker("--name", "<b>Hostile</b>", "--allowedTools", "Bash(printf:*)")
        desk = Screen(browser, "desk")
        desk.use_token(yard.url, yard.token)
        desk.open_session("<b>Hostile</b>")
        desk.prompt("<script>window.hit = 5</script>")
        desk.wait(".card")
        # What would be invisible in a command is shown by its code.
        while "cod.exe" not in desk.texts(".card pre.call")[0]:
            desk.press("Allow once")
            desk.wait_text(".card pre.call", "cod.exe")
        assert "U+202E" in desk.texts(".card pre.call")[0]
        assert "U+200B" in desk.texts(".card pre.call")[0]
        desk.press("Deny")
        desk.wait(".turn")
        assert desk.page.evaluate("window.hit") is None
        inside = ".rows :is(script, iframe, img, b, a[href^=javascript])"
        assert desk.page.locator(inside).count() == 0
        said = "".join(desk.texts(".said"))
        assert "<script>window.hit = 1</script>" in said
        [output] = [text for text in desk.texts("pre.out") if "red" in text]
        assert output == "red  <script>window.hit = 4</script>"
        assert desk.texts(".a-red") == ["red"]
        desk.close()


def test_a_session_is_shared_by_a_link_that_signs_and_is_taken_back(
    browser: "Browser", tmp_path: Path
) -> None:
    plan = calls(bash("touch one"), bash("touch two"))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker("--name", "Shared")
        offer = yard.run("pair")
        address = offer.until(lambda line: "#pair=" in line).strip()
        desk, guest = Screen(browser, "desk"), Screen(browser, "phone")
        desk.open(address)
        offer.until(lambda line: "y or n" in line)
        offer.type("y")
        desk.wait(".entry")
        desk.open_session("Shared")
        desk.page.click("section:has(.shares) > button")
        desk.page.fill("dialog input >> nth=0", "Ben")
        desk.page.select_option("dialog select >> nth=0", "view,answer")
        desk.page.fill("dialog textarea", "The tests are next.")
        desk.page.click("dialog button.primary")
        link = desk.page.input_value("dialog input[readonly]")
        desk.page.click("dialog button[aria-label=Close]")
        guest.open(link)
        guest.wait_text(".notice", "The tests are next.")
        assert "share" not in guest.page.url
        guest.wait_text(".barred", "not send prompts")
        desk.wait_text(".people", "Ben")
        desk.prompt("go")
        # The machine takes only signed answers, and the link's key signs.
        guest.wait(".card")
        guest.press("Allow once")
        desk.wait_text(".card pre.call", "touch two")
        desk.wait_text(".tool .by", "Allowed by Ben")
        assert (yard.work / "one").exists()
        desk.page.click(".shares button")
        guest.wait_text("#problem", "no longer has access")
        desk.press("Deny")
        desk.wait(".turn")
        for screen in (desk, guest):
            screen.close()


def test_a_sealed_session_is_opened_by_a_paired_browser_and_by_no_other(
    browser: "Browser", tmp_path: Path
) -> None:
    plan = calls(bash("touch plugh"), bash("touch never"))
    settings = tmp_path / "config" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"remoteSealed": True}), "utf-8")
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker()
        offer = yard.run("pair")
        address = offer.until(lambda line: "#pair=" in line).strip()
        phone = Screen(browser, "phone")
        phone.open(address)
        offer.until(lambda line: "y or n" in line)
        offer.type("y")
        phone.wait(".entry")
        assert offer.end() == 0
        phone.open_session("Sealed session")
        phone.prompt('xyzzy – ünïcode "quotes"')
        phone.wait(".card")
        assert phone.texts(".card pre.call") == ["touch plugh"]
        phone.press("Allow once")
        phone.wait_text(".card pre.call", "touch never")
        phone.page.fill(".card .reason", "not that one")
        phone.press("Deny")
        phone.wait(".turn")
        assert (yard.work / "plugh").exists()
        assert not (yard.work / "never").exists()
        # Read again from the server, all of it opens.
        phone.page.reload()
        phone.wait(".turn")
        assert "xyzzy" in phone.page.inner_text("#main")
        assert "xyzzy" in phone.page.title()
        # A browser with a token alone says what it lacks, and can send nothing readable.
        desk = Screen(browser, "desk")
        desk.use_token(yard.url, yard.token)
        desk.open_session("Sealed session")
        desk.wait_text(".bars", "This session is sealed")
        assert "plugh" not in desk.page.content()
        for screen in (phone, desk):
            screen.close()
        yard.server.kill()
        data = b"".join(path.read_bytes() for path in tmp_path.glob("serve.db*"))
        assert not [word for word in (b"xyzzy", b"plugh", b"never") if word in data]
