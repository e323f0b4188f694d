"""Mode auto in the real program: reviewed, denied, failing, turned off; recorded each time."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_rules_hold import settings, trust, write

MAKE = {"content": [{"tool": "Bash", "input": {"command": "touch made"}}]}
DONE = {"text": "Done.", "times": "always"}
SAFE = {"text": '{"verdict": "safe", "why": "makes a file"}'}
UNSAFE = {"text": '{"verdict": "unsafe", "why": "nobody asked for it"}'}
UNCLEAR = {"text": "I think this is safe."}


def auto(home: Path, *answers: dict[str, Any], more: dict[str, Any] | None = None) -> Any:
    settings(home, {"permissions": {"defaultMode": "auto", **(more or {})}})
    with serving({"scenario": 1, "answers": [*answers, DONE]}, strict=True) as server:
        done = clew(home, server.url, "-p", "make it", "--output-format", "json")
        assert done.returncode == 0, done.stderr
        return done, [request.body for request in server.requests]


def review(home: Path) -> Any:
    """Return the log's record of the review."""
    lines = transcripts(home)[0].read_text("utf-8").splitlines()
    return next(json.loads(x)["permissionReview"] for x in lines if "permissionReview" in x)


@pytest.mark.parametrize(
    ("answer", "made", "verdict"),
    [(SAFE, True, "safe"), (UNSAFE, False, "unsafe"), (UNCLEAR, False, "none")],
)
def test_a_call_runs_when_the_reviewer_passed_it_and_not_else(
    tmp_path: Path, answer: dict[str, Any], made: bool, verdict: str
) -> None:
    done, bodies = auto(tmp_path, MAKE, answer)
    assert (tmp_path / "work" / "made").exists() is made
    assert "haiku" in bodies[1]["model"]
    assert "make it" in json.dumps(bodies[1]["messages"])
    assert review(tmp_path)["verdict"] == verdict
    assert f"review: {verdict}" in done.stderr
    said = json.loads(done.stdout)
    assert len(said["permission_denials"]) == (0 if made else 1)
    if answer is UNSAFE:
        assert "nobody asked for it" in json.dumps(bodies[2]["messages"])


def test_a_reviewer_that_cannot_be_reached_permits_nothing(tmp_path: Path) -> None:
    fault = {"type": "invalid_request_error", "message": "no such model"}
    refusal = {"status": 400, "error": fault}
    done, _ = auto(tmp_path, MAKE, refusal)
    assert not (tmp_path / "work" / "made").exists()
    assert review(tmp_path)["verdict"] == "none"
    assert "no such model" in done.stderr


def test_the_settings_name_the_reviewer_or_switch_it_off(tmp_path: Path) -> None:
    _, bodies = auto(tmp_path, MAKE, SAFE, more={"reviewer": "opus"})
    assert "opus" in bodies[1]["model"]
    (tmp_path / "work" / "made").unlink()
    _, bodies = auto(tmp_path, MAKE, more={"reviewer": "off"})
    assert not (tmp_path / "work" / "made").exists()
    assert len(bodies) == 2


def test_what_a_rule_decides_is_not_reviewed(tmp_path: Path) -> None:
    _, bodies = auto(tmp_path, MAKE, more={"deny": ["Bash(touch *)"]})
    assert len(bodies) == 2
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize(
    ("model", "more", "trusted", "made"),
    [
        ("opus", (), False, False),
        ("opus", ("--model", "sonnet"), False, True),
        ("small", (), False, True),
        ("inherit", (), False, True),
        ("opus", (), True, True),
    ],
)
def test_the_agent_of_an_untrusted_project_does_not_choose_its_reviewer(
    tmp_path: Path, model: str, more: tuple[str, ...], trusted: bool, made: bool
) -> None:
    """The reviewer depends on the main model, which the definition of the agent may name."""
    head = f"---\nname: maker\ndescription: makes\nmodel: {model}\n---\nMake.\n"
    write(tmp_path / "work" / ".claude" / "agents" / "maker.md", head)
    settings(tmp_path, {"permissions": {"defaultMode": "auto"}})
    if trusted:
        trust(tmp_path)
    with serving({"scenario": 1, "answers": [MAKE, SAFE, DONE]}) as server:
        done = clew(tmp_path, server.url, "-p", "make it", "--agent", "maker", *more)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "made").exists() is made
    record = review(tmp_path)
    assert record["verdict"] == ("safe" if made else "none"), record
