"""`clew auth status`, which programs run before they start a session."""

import json
from pathlib import Path

import pytest

from tests.fronts.headless.clew_process import clew

KEY = "ANTHROPIC_API_KEY"
GATEWAY = "http://127.0.0.1:9"


def test_the_source_of_the_key_is_named_and_not_the_key(tmp_path: Path) -> None:
    done = clew(tmp_path, GATEWAY, "auth", "status", "--json")
    status = json.loads(done.stdout)
    assert done.returncode == 0
    assert (status["loggedIn"], status["apiKeySource"]) == (True, KEY)
    assert status["configDirectory"] == str(tmp_path / "config")
    assert "sk-ant" not in done.stdout
    assert clew(tmp_path, GATEWAY, "auth", "status", "--text").stdout == f"API key: {KEY}\n"


@pytest.mark.parametrize(
    ("environ", "provider", "source"),
    [
        ({"OPENAI_API_KEY": "sk-x"}, "openai", "openai"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, "bedrock", "bedrock"),
        ({}, "firstParty", None),
    ],
)
def test_other_providers(
    tmp_path: Path, environ: dict[str, str], provider: str, source: str | None
) -> None:
    environ = environ | {"ANTHROPIC_BASE_URL": ""}
    done = clew(tmp_path, "", "auth", "status", without=KEY, environ=environ)
    status = json.loads(done.stdout)
    assert done.returncode == (source is None)
    assert (status["apiProvider"], status.get("apiKeySource")) == (provider, source)


def test_a_saved_key_and_a_gateway_without_one(tmp_path: Path) -> None:
    none = clew(tmp_path, GATEWAY, "auth", "status", without=KEY)
    assert json.loads(none.stdout)["loggedIn"] is True
    at_home = {"ANTHROPIC_BASE_URL": ""}
    words = ("auth", "login", "--no-check")
    assert (
        clew(tmp_path, "", *words, without=KEY, environ=at_home, input="sk-ant-1").returncode == 0
    )
    saved = clew(tmp_path, "", "auth", "status", without=KEY, environ=at_home)
    assert json.loads(saved.stdout)["apiKeySource"] == "clew login"
