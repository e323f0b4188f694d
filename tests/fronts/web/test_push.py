"""Pushes to a browser: subscribed in the page, decrypted as a browser does, shown by its worker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clew.serve.push.encryption import encode
from clew.testing.server import serving
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.yard import Yard
from tests.fronts.web.browsing import Screen, browsing
from tests.serve.push_service import PushBrowser, PushService, check_vapid

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e
# Stands in for the push service of the browser, which no test can reach.
SUBSCRIBE = """(subscription) => {
  let now = null;
  const made = (options) => ({
    toJSON: () => subscription, unsubscribe: async () => { now = null; return true; },
    key: [...new Uint8Array(options.applicationServerKey)],
  });
  PushManager.prototype.subscribe = async (options) => {
    if (!options.userVisibleOnly) throw new Error('hidden');
    return (now = globalThis.subscribed = made(options));
  };
  PushManager.prototype.getSubscription = async () => now;
}"""
SHOWN = """navigator.serviceWorker.getRegistration().then((r) => r.getNotifications())
  .then((all) => all.map((n) => [n.title, n.body, n.tag, n.data]))"""
CLICK = """async () => {
  const [notification] = await registration.getNotifications();
  dispatchEvent(new NotificationEvent('notificationclick', { notification }));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with browsing() as found:
        yield found


def deliver(screen: Screen, origin: str, data: Any) -> None:
    """Give a push to the page's worker, as the browser does when its push service has one."""
    session = screen.context.new_cdp_session(screen.page)
    found: list[str] = []
    session.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: found.extend(r["registrationId"] for r in event["registrations"]),
    )
    session.send("ServiceWorker.enable")
    screen.page.wait_for_function("() => navigator.serviceWorker.controller")
    assert found
    push = {"origin": origin, "registrationId": found[0], "data": json.dumps(data)}
    session.send("ServiceWorker.deliverPushMessage", push)


def test_a_question_reaches_a_browser_whose_page_is_closed(
    browser: "Browser", tmp_path: Path
) -> None:
    service, keys = PushService(tmp_path), PushBrowser()
    plan = calls(("Bash", {"command": "touch made", "description": "Make it"}))
    with service.running(), serving(plan) as model:
        options = ("--push-host", service.place)
        environ = {"SSL_CERT_FILE": str(service.authority.file)}
        with Yard(tmp_path, model.url, serve=options, environ=environ) as yard:
            yard.worker("--name", "Deploy")
            phone = Screen(browser, "phone")
            phone.context.grant_permissions(["notifications"], origin=yard.url)
            subscription = {"endpoint": f"{service.origin}/phone", "keys": keys.keys}
            phone.context.add_init_script(f"({SUBSCRIBE})({json.dumps(subscription)})")
            phone.use_token(yard.url, yard.token)
            phone.page.click("button[aria-label='This browser']")
            phone.page.select_option("#pushes", "question")
            phone.page.wait_for_selector("#said:has-text('Notifications are on')", state="attached")
            # The page is closed while the session begins to wait.
            phone.page.goto("about:blank")
            viewer = yard.viewer()
            viewer.type("go")
            viewer.question()
            _, headers, body = service.take()
            data = keys.open(body)
            assert data == {"session": yard.session, "title": "Deploy", "body": "touch made"}
            phone.open(yard.url)
            phone.wait(".list")
            deliver(phone, yard.url, data)
            phone.page.wait_for_function(f"() => {SHOWN}.then((all) => all.length === 1)")
            shown = ["Deploy", "touch made", yard.session, yard.session]
            assert phone.page.evaluate(SHOWN) == [shown]
            # A click opens the session that waits.
            phone.context.service_workers[0].evaluate(CLICK)
            phone.wait_text(".card pre.call", "touch made")
            assert phone.page.evaluate(SHOWN) == []
            # The page subscribes again when it opens, under the key that signs.
            phone.page.wait_for_function("() => globalThis.subscribed")
            key = bytes(phone.page.evaluate("globalThis.subscribed.key"))
            check_vapid(headers["authorization"], service.origin, encode(key))
            phone.press("Allow once")
            phone.wait(".turn")
            phone.page.click("button[aria-label='All sessions']")
            phone.page.click("button[aria-label='This browser']")
            phone.page.wait_for_function(
                "() => document.querySelector('#pushes')?.value === 'question'"
            )
            phone.page.select_option("#pushes", "")
            phone.page.wait_for_selector(
                "#said:has-text('Notifications are off')", state="attached"
            )
            viewer.type("again")
            viewer.result()
            assert service.requests.empty()
            phone.close()
