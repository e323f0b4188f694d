"""Take pictures of the page for the docs, light and dark, from a real run: `make screenshots`.

A server, a session with a scripted model and Chromium run on this machine, as a user's would.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fronts.remote.yard import Yard
from tests.fronts.web.browsing import Screen, browsing

from clew.testing.server import serving
from scripts.screenshots import FIXED, FOLDER, PROJECT, call, says

TASKS = ("Find the bug", "Fix it", "Run the check")
DOING = ("Finding the bug", "Fixing it", "Running the check")
# The folder whose path is in the pictures.
LOOKED_AT = Path(__file__).parents[1] / ".build" / "pictures"
HOME = Path(tempfile.gettempdir()) / "ada"


def tasks(done: int) -> dict[str, Any]:
    """Return a call that reports so many tasks as done, and the next one as begun."""
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(TASKS)
    todos = [
        {"content": text, "activeForm": doing, "status": status}
        for text, doing, status in zip(TASKS, DOING, states, strict=False)
    ]
    return call("TodoWrite", todos=todos)


def edit() -> dict[str, Any]:
    return call(
        "Edit",
        file_path="purse.py",
        old_string="    return sum(coins[1:])",
        new_string="    # Include the first coin.\n    return sum(coins)",
    )


SCENARIO = {
    "scenario": 1,
    "answers": [
        says(
            "I’ll look at the code first.",
            tasks(0),
            call("Read", file_path="purse.py"),
            call("Read", file_path="check.py"),
            call("Grep", pattern="total"),
        ),
        says(call("Bash", command="python3 check.py", description="Run the check")),
        says("The check fails: the sum leaves out the first coin.", tasks(1), edit()),
        says(tasks(2), call("Bash", command="python3 check.py && rm -rf build && ls")),
        says(tasks(3)),
        {"text": FIXED, "usage": {"input_tokens": 61_000}},
        {"text": "Done.", "times": "always"},
    ],
}
OTHERS = ("Translate the error messages", "Why is the build slow?", "Rename Purse to Wallet")


@contextmanager
def playing() -> Iterator[Yard]:
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    with serving(SCENARIO) as model, Yard(HOME, model.url) as yard:
        for name, text in PROJECT.items():
            (yard.work / name).write_text(text, "utf-8")
        for title in OTHERS:
            other = yard.worker("--name", title)
            if title != OTHERS[0]:
                other.process.terminate()
                other.process.wait(30)
        yard.worker("--name", "Count every coin", "--settings", '{"remoteAnswers":"session"}')
        yield yard
    shutil.rmtree(HOME)


# The pictures that the docs show; the others are only looked at.
SHOWN = ("pair-light", "list-light", "edit-dark", "compound-light", "answer-dark", "phone-dark")


def take(screen: Screen, name: str) -> None:
    """Save what is on the screen as a picture."""
    screen.page.wait_for_timeout(500)
    folder = FOLDER if name in SHOWN else LOOKED_AT
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"page-{name}.png"
    screen.page.screenshot(path=path)
    sys.stdout.write(f"{path.name}\n")


def main() -> int:
    with browsing() as browser:
        for scheme in ("light", "dark"):
            with playing() as yard:
                desk = Screen(browser, "desk", scheme=scheme)
                phone = Screen(browser, "phone", scheme=scheme, device_scale_factor=2)
                phone.open(yard.url)
                phone.wait("#code")
                take(phone, f"pair-{scheme}")
                for screen in (desk, phone):
                    screen.use_token(yard.url, yard.token)
                desk.open_session("Count every coin")
                desk.prompt("The total is too small. Please fix it, and run the check.")
                desk.wait(".card")
                desk.press("Allow once")
                desk.wait(".card .diff")
                phone.wait(".entry.asks")
                take(phone, f"list-{scheme}")
                phone.open_session("Count every coin")
                phone.wait(".card .diff")
                take(phone, f"edit-{scheme}")
                phone.press("Allow once")
                desk.wait(".card .parts")
                take(desk, f"compound-{scheme}")
                phone.wait(".card .parts")
                phone.press("Allow once")
                desk.wait(".turn")
                take(desk, f"answer-{scheme}")
                take(phone, f"phone-{scheme}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
