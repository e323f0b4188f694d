"""Which key a session uses (environment, helper, `clew login`), and where it is sent."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from clew.providers.credentials import make_endpoint, run_helper
from clew.providers.renewal import RenewedKey
from clew.system.config import paths
from clew.system.process.spawn import Launcher
from clew.testing.server import serving
from tests.fronts.headless.agents_model import Json, agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, command, environment
from tests.requirements import requirement

HELLO = {"scenario": 1, "answers": [{"text": "Hello!", "times": "always"}]}
KEY = "sk-ant-kept-by-login-0001"


def test_a_helper_of_the_settings_says_the_key(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with serving(HELLO, strict=True, api_key="sk-ant-from-helper") as server:
        bare = environment(tmp_path, server.url)
        del bare["ANTHROPIC_API_KEY"]
        done = subprocess.run(
            command("-p", "hi", "--settings", json.dumps({"apiKeyHelper": "echo sk-ant-from-helper"})),
            cwd=tmp_path / "work", env=bare, text=True, encoding="utf-8",
            capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "Hello!\n")


def _run_with_helper(tmp_path: Path, url: str, second: str) -> subprocess.CompletedProcess[str]:
    """Run a prompt whose helper prints an old key first, and `second` afterwards."""
    (tmp_path / "work").mkdir()
    runs = tmp_path / "runs"
    helper = f"test -e {runs} && echo {second} || echo sk-ant-old-helper-0001; echo >>{runs}"
    bare = environment(tmp_path, url)
    del bare["ANTHROPIC_API_KEY"]
    return subprocess.run(
        command("-p", "hi", "--settings", json.dumps({"apiKeyHelper": helper})),
        cwd=tmp_path / "work", env=bare, text=True, encoding="utf-8",
        capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_rejected_key_is_replaced_by_another_from_the_helper(tmp_path: Path) -> None:
    new = "sk-ant-new-helper-0002"
    with serving(HELLO, strict=True, api_key=new) as server:
        done = _run_with_helper(tmp_path, server.url, new)
    assert (done.returncode, done.stdout) == (0, "Hello!\n"), done.stderr
    statuses = [request.status for request in server.requests if request.method == "POST"]
    assert statuses[:2] == [401, 200]
    assert set(statuses[1:]) == {200}
    assert (tmp_path / "runs").read_text("utf-8") == "\n\n"  # One run more, for all requests.
    kept = [path.read_text("utf-8") for path in (tmp_path / "config").rglob("*.jsonl")]
    assert not any("helper-000" in text for text in [*kept, done.stdout, done.stderr])


@requirement("R294")
def test_a_key_that_expires_in_a_session_is_renewed_once_for_all_that_wait(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    runs, old, new = tmp_path / "runs", "sk-ant-expired-0001", "sk-ant-renewed-0002"
    helper = f"test -e {runs} && echo {new} || echo {old}; echo >>{runs}; sleep 0.2"

    def begin(_: Json) -> Json:
        server.api_key = new  # From here on, the old key has expired.
        return uses(*(agent(f"part {number}") for number in range(4)))

    answers = {"go": [begin, {"text": "All done."}], "part": [{"text": "Part done."}]}
    with serving(by_prompt(answers), api_key=old) as server:
        bare = environment(tmp_path, server.url)
        del bare["ANTHROPIC_API_KEY"]
        done = subprocess.run(
            command("-p", "go", "--settings", json.dumps({"apiKeyHelper": helper})),
            cwd=tmp_path / "work", env=bare, text=True, encoding="utf-8",
            capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "All done.\n"), done.stderr
    statuses = [request.status for request in server.requests if request.method == "POST"]
    assert 1 <= statuses.count(401) <= 4
    assert statuses.count(200) >= 6
    assert runs.read_text("utf-8") == "\n\n"  # One run at the start, one for all that waited.


def test_a_helper_without_another_key_ends_the_turn_with_its_reason(tmp_path: Path) -> None:
    with serving(HELLO, strict=True, api_key="sk-ant-new-helper-0002") as server:
        done = _run_with_helper(tmp_path, server.url, "sk-ant-old-helper-0001")
    assert done.returncode == 1
    assert "apiKeyHelper" in done.stdout + done.stderr
    assert "helper-0001" not in done.stdout + done.stderr
    assert {request.status for request in server.requests if request.method == "POST"} == {401}


async def test_requests_that_wait_share_one_run_of_the_helper() -> None:
    runs: list[str] = []

    async def fetch() -> str:
        runs.append("run")
        await asyncio.sleep(0)
        return f"key-{len(runs)}\n"

    key = RenewedKey("key-0", fetch)
    keys = await asyncio.gather(*(key.get(lambda key: key == "key-0") for _ in range(9)))
    assert (set(keys), len(runs)) == ({"key-1"}, 1)
    assert await key.get(lambda key: key == "key-0") == "key-1"  # A late rejection of the old key.
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({}, KEY),
        ({"ANTHROPIC_API_KEY": "sk-ant-named"}, "sk-ant-named"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, None),
    ],
)
async def test_what_login_kept_goes_to_the_service_and_to_nobody_else(
    tmp_path: Path, more: dict[str, str], key: str | None
) -> None:
    clew(tmp_path, "", "login", input=KEY)
    environ = {"CLEW_CONFIG_DIR": str(tmp_path / "config"), "HOME": str(tmp_path)} | more
    places = paths.find_places(environ, tmp_path)
    launcher = Launcher()
    try:
        found = await make_endpoint(environ, {}, places, launcher)
    finally:
        await launcher.aclose()
    assert found.api_key == key


async def test_a_helper_that_fails_is_no_key(tmp_path: Path) -> None:
    launcher = Launcher()
    try:
        assert await run_helper(launcher, "echo half; exit 3", tmp_path, {}) is None
        assert await run_helper(launcher, "echo x", tmp_path / "gone", {}) is None
    finally:
        await launcher.aclose()


def test_a_newcomer_without_any_key_is_told_what_to_do(tmp_path: Path) -> None:
    bare = environment(tmp_path, "")
    del bare["ANTHROPIC_API_KEY"], bare["ANTHROPIC_BASE_URL"]
    done = subprocess.run(
        command("-p", "hi"), cwd=tmp_path, env=bare, text=True, encoding="utf-8",
        capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1
    assert "clew login" in done.stdout + done.stderr
