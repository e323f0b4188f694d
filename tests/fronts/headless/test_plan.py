"""Plan mode in the real program: it reads, writes only its plan, and says so."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.agent.context.facts import OVER_WORDS, WORDS
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_rules_hold import calls, settings, trust
from tests.wording import head

ID = "11111111-1111-4111-8111-111111111111"


def planned(home: Path, plan_file: Path, *args: str, **lists: Any) -> list[dict[str, Any]]:
    """Return the results of a plan and of calls that plan mode denies, and the unchanged folder."""
    plan = calls(
        ("Write", {"file_path": str(plan_file), "content": "1. Look.\n"}),
        ("Bash", {"command": f"echo '2. Mend.' >> {plan_file}"}),
        ("Write", {"file_path": "a.py", "content": "x\n"}),
        ("Bash", {"command": "touch b.py"}),
        ("Bash", {"command": "ls"}),
    )
    settings(home, {"permissions": {"allow": ["Bash", "Write"]}, **lists})
    with serving(plan, strict=True) as server:
        done = clew(
            home,
            server.url,
            "-p",
            "plan it",
            "--permission-mode",
            "plan",
            "--session-id",
            ID,
            *args,
        )
        assert done.returncode == 0, done.stderr
        bodies = [request.body for request in server.requests]
    assert str(plan_file) in json.dumps(bodies[0]["messages"])
    return [
        m["content"][0] for m in bodies[-1]["messages"] if m["content"][0]["type"] == "tool_result"
    ]


def test_plan_mode_writes_the_plan_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config" / "plans" / f"{ID}.md"
    kept, more, edit, touch, look = planned(tmp_path, path)
    assert not kept.get("is_error"), kept
    assert not more.get("is_error"), more
    assert edit["is_error"] is True
    assert touch["is_error"] is True
    assert "plan mode" in touch["content"]
    assert not look.get("is_error")
    assert path.read_text("utf-8") == "1. Look.\n2. Mend.\n"
    assert not list((tmp_path / "work").iterdir())


def test_a_folder_of_the_project_may_hold_the_plans(tmp_path: Path) -> None:
    path = tmp_path / "work" / "docs" / "plans" / f"{ID}.md"
    kept, *_ = planned(tmp_path, path, plansDirectory="docs/plans")
    assert not kept.get("is_error"), kept
    assert path.exists()


@pytest.mark.parametrize(
    "folder", ["/etc", "../elsewhere", ".git/hooks", "link", ".claude/commands", "plans"]
)
def test_settings_make_no_plan_of_what_is_protected_or_elsewhere(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    (tmp_path / "work" / "plans").mkdir()
    (tmp_path / "work" / "plans" / f"{ID}.md").symlink_to("../main.py")
    hostile = tmp_path / "work" / ".claude" / "settings.json"
    hostile.parent.mkdir()
    hostile.write_text(json.dumps({"plansDirectory": folder}), "utf-8")
    trust(tmp_path)
    named = Path(folder) if folder == "/etc" else tmp_path / "work" / folder
    plan = calls(("Write", {"file_path": str(named / f"{ID}.md"), "content": "x"}))
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--permission-mode", "plan", "--session-id", ID)
        body = server.requests[-1].body
    assert body["messages"][-1]["content"][0]["is_error"] is True
    assert str(tmp_path / "config" / "plans" / f"{ID}.md") in json.dumps(body["messages"])


def test_the_model_hears_once_that_plan_mode_is_on_and_once_that_it_is_over(tmp_path: Path) -> None:
    said = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}
    with serving(said, strict=True) as server:
        for mode in ("plan", "plan", "default", "default"):
            clew(
                tmp_path, server.url, "-p", "go", "--permission-mode", mode,
                *(["--continue"] if transcripts(tmp_path) else []),
            )  # fmt: skip
        told = json.dumps(server.requests[-1].body["messages"])
    assert told.count(head(WORDS)) == 1
    assert told.count(head(OVER_WORDS)) == 1
