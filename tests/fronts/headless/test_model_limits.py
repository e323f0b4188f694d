"""An administrator's lists of models hold, however a model is chosen."""

import json
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted

Json: TypeAlias = dict[str, Any]
FINE = {"scenario": 1, "answers": [{"text": "Done.", "times": "always"}]}
SONNET, OPUS, HAIKU = "claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"


def managed(**settings: Any) -> tuple[str, str]:
    return "--managed-settings", json.dumps(settings)


def run(
    home: Path, *words: str, plan: Any = FINE, environ: dict[str, str] | None = None
) -> tuple[Any, list[str]]:
    """Return the finished run and the models that were asked."""
    with serving(plan) as server:
        done = clew(home, server.url, "-p", "hi", *words, environ=environ)
        return done, [request.body["model"] for request in server.requests]


@pytest.mark.parametrize(
    "settings", [{"deniedModels": ["opus"]}, {"availableModels": ["sonnet", "haiku"]}]
)
def test_a_model_of_the_command_line_must_be_allowed(tmp_path: Path, settings: Json) -> None:
    done, models = run(tmp_path, "--model", "opus", *managed(**settings))
    assert (done.returncode, models) == (1, [])
    assert f"--model: {OPUS}: this model is " in done.stderr
    assert next(iter(settings)) in done.stderr
    done, models = run(tmp_path, "--model", "sonnet", *managed(**settings))
    assert (done.returncode, models) == (0, [SONNET])


def test_the_default_replaces_a_model_of_the_settings_that_is_not_allowed(tmp_path: Path) -> None:
    forbids = managed(deniedModels=["opus"])
    done, models = run(tmp_path, "--settings", '{"model": "opus"}', *forbids)
    assert (done.returncode, models) == (0, [SONNET])
    _, models = run(tmp_path, *forbids, environ={"ANTHROPIC_MODEL": "opus"})
    assert models == [SONNET]


def test_a_resumed_session_continues_with_an_allowed_model(tmp_path: Path) -> None:
    _, models = run(tmp_path, "--model", "opus")
    assert set(models) == {OPUS}
    done, models = run(tmp_path, "-c", *managed(deniedModels=["opus"]))
    assert (done.returncode, models) == (0, [SONNET])


@pytest.mark.parametrize(
    ("settings", "model"),
    [
        ({"availableModels": ["opus"]}, SONNET),
        ({"availableModels": ["opus"], "enforceAvailableModels": True}, OPUS),
        ({"availableModels": ["claude-opus-5-5"], "availableModelsMatch": "exact"}, OPUS),
        ({"availableModels": "opus"}, SONNET),
        ({"deniedModels": ["sonnet"], "availableModels": ["opus"]}, OPUS),
    ],
)
def test_the_default_model_is_one_that_the_lists_leave(
    tmp_path: Path, settings: Json, model: str
) -> None:
    done, models = run(tmp_path, *managed(**settings))
    assert (done.returncode, models) == (0, [model]), done.stderr


@pytest.mark.parametrize("settings", [{"availableModels": "opus"}, {"deniedModels": "opus"}])
def test_a_list_that_is_none_allows_the_default_only(tmp_path: Path, settings: Json) -> None:
    done, models = run(tmp_path, "--model", "opus", *managed(**settings))
    assert (done.returncode, models) == (1, [])
    assert "availableModels (allowed: only the default model)" in done.stderr


def test_lists_that_leave_no_model_are_told_at_the_start(tmp_path: Path) -> None:
    done, models = run(tmp_path, *managed(deniedModels=["claude"]))
    assert (done.returncode, models) == (1, [])
    assert "the settings allow no model" in done.stderr


def test_a_project_denies_nothing_and_widens_no_list(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".claude"
    folder.mkdir(parents=True)
    widening = {"deniedModels": ["sonnet"], "availableModels": ["opus"]}
    (folder / "settings.json").write_text(json.dumps(widening), "utf-8")
    done, models = run(tmp_path, "--model", "opus", *managed(availableModels=["haiku"]))
    assert (done.returncode, models) == (1, [])
    done, models = run(tmp_path, "--model", "sonnet")
    assert (done.returncode, models) == (0, [SONNET])
    done, models = run(tmp_path, "--model", "haiku")
    assert (done.returncode, models) == (1, [])


def test_a_host_neither_sees_nor_gets_a_denied_model(tmp_path: Path) -> None:
    with (
        serving(FINE) as server,
        Hosted(tmp_path, server.url, *managed(deniedModels=["opus"])) as host,
    ):
        models = host.ask("initialize")["response"]["models"]
        assert not [model for model in models if "opus" in model["value"]]
        assert [model for model in models if model["value"] == SONNET]
        refused = host.ask("set_model", model="opus")
        assert (refused["subtype"], "deniedModels" in refused["error"]) == ("error", True)
        host.say("hi")
        assert host.result()["result"] == "Done."
        assert host.end() == 0
        assert OPUS not in [request.body["model"] for request in server.requests]


def test_agents_and_skills_get_no_denied_model(tmp_path: Path) -> None:
    commands = tmp_path / "config" / "commands"
    commands.mkdir(parents=True)
    (commands / "deep.md").write_text("---\nmodel: opus\n---\nThink.", "utf-8")
    agent = {"tool": "Agent", "input": {"description": "d", "prompt": "p", "model": "opus"}}
    forbids = managed(deniedModels=["opus"])
    plan = {
        "scenario": 1,
        "answers": [{"content": [agent]}, {"text": "Done.", "times": "always"}],
    }
    done, models = run(tmp_path, *forbids, plan=plan)
    assert (done.returncode, len(models), set(models)) == (0, 3, {SONNET})
    with serving(FINE) as server:
        assert clew(tmp_path, server.url, "-p", "/deep", *forbids).returncode == 0
        assert {request.body["model"] for request in server.requests} == {SONNET}


def test_no_denied_model_takes_over_from_a_busy_one(tmp_path: Path) -> None:
    def answer(body: Json) -> Json:
        error = {"type": "overloaded_error", "message": "Overloaded"}
        return {"text": "Done."} if body["model"] == HAIKU else {"status": 529, "error": error}

    chain = ("--fallback-model", "opus,haiku", *managed(deniedModels=["opus"]))
    done, models = run(tmp_path, *chain, plan=answer, environ={"CLAUDE_CODE_MAX_RETRIES": "0"})
    assert (done.returncode, set(models)) == (0, {SONNET, HAIKU})


def test_a_helper_of_a_denied_model_asks_nothing(tmp_path: Path) -> None:
    """The model for small tasks is not limited by the list of allowed ones, but may be denied."""
    for settings, small in (
        ({"availableModels": ["sonnet"]}, HAIKU),
        ({"deniedModels": ["haiku"]}, SONNET),
    ):
        hook = {"type": "prompt", "prompt": "Is it fine?"}
        hooks = {"Stop": [{"hooks": [hook]}]}
        _, models = run(
            tmp_path, "--settings", json.dumps({"hooks": hooks}), *managed(**settings),
            plan={"scenario": 1, "answers": [{"text": '{"ok": true}', "times": "always"}]},
        )  # fmt: skip
        assert set(models) == {SONNET, small}


def test_the_last_gate_refuses_a_model_that_nothing_else_checks(tmp_path: Path) -> None:
    """A hook's own model."""
    hook = {"type": "prompt", "prompt": "Is it fine?", "model": "opus"}
    settings = json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}})
    answers = {"scenario": 1, "answers": [{"text": '{"ok": true}', "times": "always"}]}
    _, models = run(tmp_path, "--settings", settings, plan=answers)
    assert OPUS in models
    done, models = run(
        tmp_path, "--settings", settings, *managed(deniedModels=["opus"]), plan=answers
    )
    assert set(models) == {SONNET}
    assert done.returncode == 0


def test_the_list_of_models_names_allowed_ones_only(tmp_path: Path) -> None:
    user = tmp_path / "config" / "settings.json"
    user.parent.mkdir()
    user.write_text('{"availableModels": ["haiku"]}', "utf-8")
    with serving(FINE) as server:
        listed = clew(tmp_path, server.url, "models").stdout
    assert "haiku" in listed
    assert "opus" not in listed
