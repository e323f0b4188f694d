"""A Chromium that is installed on this machine, and pages in it that a test drives as a person would."""

import contextlib
import shutil
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SWITCHES = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "the tests of the page need Chromium: apt-get install chromium"
SIZES = {"phone": (390, 844), "desk": (1280, 860), "narrow": (320, 640)}


def find_chromium() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found is not None, MISSING
    return found


@contextlib.contextmanager
def browsing() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=list(SWITCHES))
        try:
            yield browser
        finally:
            browser.close()


class Screen:
    """One browser on one device. `faults` are errors of the page, of which there must be none."""

    def __init__(
        self, browser: "Browser", size: str, *, scheme: str = "light", **more: Any
    ) -> None:
        width, height = SIZES[size]
        is_phone = size != "desk"
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            has_touch=is_phone,
            is_mobile=is_phone,
            **more,
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.faults: list[str] = []
        self.asked: set[str] = set()
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(dialog.message))
        self.page.on("request", lambda request: self.asked.add(request.url.split("/")[2]))
        self.page.on("console", self._hear)

    def _hear(self, message: Any) -> None:
        # A refused or lost request is an error for the browser, and part of what is tested.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def open(self, url: str) -> None:
        self.page.goto(url)

    def use_token(self, url: str, token: str) -> None:
        """Open the page and use a device's token."""
        self.open(url)
        self.page.fill("#code", token)
        self.page.click("form button.primary")
        self.page.wait_for_selector(".list")

    def open_session(self, title: str) -> None:
        self.page.click(f".entry:has-text({title!r})")
        self.page.wait_for_selector(".session .link-state")

    def prompt(self, text: str) -> None:
        self.page.fill(".composer textarea", text)
        self.page.click("button[aria-label=Send]")

    def wait(self, selector: str) -> None:
        self.page.wait_for_selector(selector)

    def wait_text(self, selector: str, text: str) -> None:
        self.page.wait_for_selector(f"{selector}:has-text({text!r})")

    def press(self, label: str) -> None:
        """Press a button of a question, once it takes keys and clicks for answers."""
        self.page.click(f".card button:has-text({label!r})")

    def texts(self, selector: str) -> list[str]:
        return [str(text) for text in self.page.locator(selector).all_inner_texts()]

    def violations(self) -> list[str]:
        """Return what axe finds wrong on the page, by the rules of WCAG 2.2 AA."""
        self.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = self.page.evaluate(
            "(tags) => axe.run(document, {runOnly: {type: 'tag', values: tags}})", tags
        )
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    def close(self) -> None:
        self.context.close()
        assert self.faults == []
        # Nothing was loaded from anywhere but the server, and the page's own data.
        assert {host.split(":")[0] for host in self.asked} <= {"127.0.0.1", ""}
