"""The table of services, names that begin with a service, and services from settings."""

import re
from typing import Any

import pytest

from clew.core.catalog.lookup import ALIASES, CATALOG, MODELS, ModelCatalog
from clew.core.catalog.quirks import QUIRKS
from clew.core.catalog.services import (
    ROWS,
    SERVICES,
    ServiceRow,
    fill_in,
    find_keyed_row,
    find_row_at,
    has_variable,
    host_of,
    is_placed,
    read_services,
    split_name,
)
from clew.core.messages.errors import UserError


def test_every_service_has_an_address_and_a_way_to_authenticate() -> None:
    assert len(ROWS) == len(SERVICES)
    for row in SERVICES:
        assert row.url.startswith("http://127.0.0.1" if row.is_local else "https://")
        assert set(re.findall(r"\{(\w+)\}", row.url)) - {"host"} <= {*row.fills, *row.defaults}
        assert row.is_local or row.model
        assert row.is_local or row.key_variables or row.authentication == "google"
        if row.wire == "chat":
            assert row.name in QUIRKS


@pytest.mark.parametrize("row", [row for row in SERVICES if row.model], ids=lambda row: row.name)
def test_the_default_models_of_a_service_are_known(row: ServiceRow) -> None:
    for model in (row.model, row.small_model):
        entry = CATALOG.find(f"{row.name}/{model}")
        assert entry is not None, f"{row.name}/{model}"
        assert entry.context_window or row.name == "openrouter"
        assert entry.retired == "" or entry.retired > "2027", "choose another default"


def test_a_name_selects_a_service() -> None:
    assert split_name("openai/gpt-6-sol", ROWS) == ("openai", "gpt-6-sol")
    assert split_name("groq/openai/gpt-oss-20b", ROWS) == ("groq", "openai/gpt-oss-20b")
    for name in ("gpt-6-sol", "nobody/model", "openai/"):
        assert split_name(name, ROWS) == ("", name)
    found = CATALOG.entry("openai/gpt-6-sol")
    assert (found.id, found.context_window) == ("openai/gpt-6-sol", 922_000)
    assert CATALOG.entry("openai/gpt-unheard-of").context_window is None
    assert CATALOG.entry("openai/gpt-unheard-of").id == "openai/gpt-unheard-of"
    assert CATALOG.locate("openai/gpt-6-sol") == ("openai", "gpt-6-sol")
    assert CATALOG.locate("opus") == ("", "claude-opus-5-5")


def test_claude_models_have_the_ids_of_each_service() -> None:
    assert CATALOG.entry("anthropic/opus").id == "claude-opus-5-5"
    assert CATALOG.entry("anthropic/claude-opus-5-5").id == "claude-opus-5-5"
    assert CATALOG.find("anthropic/unheard-of") is None
    assert CATALOG.entry("bedrock/opus").id == "bedrock/anthropic.claude-opus-5-5"
    assert CATALOG.entry("bedrock/opus").max_output == 128_000
    assert CATALOG.entry("vertex/opus").id == "vertex/claude-opus-5-5"
    assert CATALOG.entry("vertex-gemini/gemini-4-argon").context_window == 1_048_576
    assert CATALOG.entry("openrouter/opus").id == "openrouter/anthropic/claude-opus-5.5"
    assert CATALOG.entry("openai/opus").id == "openai/opus"


def test_names_without_a_service_belong_to_the_home_of_the_session() -> None:
    at_home = CATALOG.at(ROWS, "openai")
    assert at_home.entry("gpt-6-sol").id == "openai/gpt-6-sol"
    assert at_home.entry("gpt-unheard-of").id == "openai/gpt-unheard-of"
    assert at_home.locate("sonnet") == ("anthropic", "claude-sonnet-5-5")
    assert CATALOG.at(ROWS, "bedrock").locate("sonnet") == (
        "bedrock",
        "anthropic.claude-sonnet-5-5",
    )
    assert at_home.services is ROWS


def test_facts_from_settings_and_from_servers_take_precedence() -> None:
    known = CATALOG.entry("ollama/qwen3")
    catalog = ModelCatalog(MODELS, ALIASES)
    assert known.context_window is None
    catalog.learn(CATALOG.entry("sonnet").__class__(id="ollama/qwen3", name="q", context_window=9))
    assert catalog.entry("ollama/qwen3").context_window == 9
    assert CATALOG.entry("ollama/qwen3").context_window is None


def test_newer_lines_replace_those_of_clew() -> None:
    newer = CATALOG.at(ROWS, "", "openai/gpt-6-sol\t7\nopenai/gpt-9\t8")
    assert newer.entry("openai/gpt-6-sol").context_window == 7
    assert newer.entry("openai/gpt-9").context_window == 8
    assert newer.entry("openai/gpt-6-luna").context_window == 922_000


def test_a_service_from_settings_inherits_but_for_the_key_of_another_host() -> None:
    rows, problems = read_services({
        "work": {"like": "azure", "resource": "mine", "key": "env:WORK_KEY", "model": "m"},
        "proxy": {"like": "openai", "url": "https://proxy.example/v1", "keyHeader": "X-Key"},
        "same": {"like": "openai", "url": "https://api.openai.com/v2"},
        "mine": {"like": "openai", "wire": "chat", "headers": {"a": "b"}},
        "again": {"like": "work"},
    })  # fmt: skip
    assert problems == ()
    assert fill_in(rows["work"], {})["resource"] == "mine"
    assert rows["work"].key_variables == ("WORK_KEY",)
    assert (rows["work"].model, rows["work"].small_model) == ("m", "m")
    assert rows["proxy"].key_variables == ()
    assert rows["proxy"].key_header == "x-key"
    assert rows["same"].key_variables == ("OPENAI_API_KEY",)
    assert rows["same"].url_variables == ()
    assert (rows["mine"].wire, rows["mine"].headers) == ("chat", {"a": "b"})
    assert rows["again"].kind == "azure"
    assert rows["work"].serves_claude is False
    assert CATALOG.at(rows, "").entry("mine/gpt-6-sol").context_window == 922_000


@pytest.mark.parametrize(
    ("name", "facts", "problem"),
    [
        ("a", {"like": "nobody"}, 'like: unknown service "nobody"'),
        ("a", {}, "missing required field"),
        ("a", {"like": "openai", "port": 1}, "unknown field"),
        ("a", {"like": "openai", "key": "sk-1"}, 'key: must be "env:NAME"'),
        ("a", {"like": "openai", "key": "env:"}, 'key: must be "env:NAME"'),
        ("a/b", {"like": "openai"}, "invalid service name"),
        ("custom", {"like": "openai"}, "invalid service name"),
    ],
)
def test_an_invalid_service_is_reported(name: str, facts: Any, problem: str) -> None:
    rows, problems = read_services({name: facts})
    assert rows == ROWS
    assert len(problems) == 1
    assert problem in problems[0]
    assert "sk-1" not in problems[0]


def test_places_come_from_variables_or_defaults() -> None:
    with pytest.raises(UserError, match="AWS_REGION or AWS_DEFAULT_REGION"):
        fill_in(ROWS["bedrock"], {"AWS_REGION": " "})
    assert fill_in(ROWS["bedrock"], {"AWS_DEFAULT_REGION": "eu-west-1"}) == {"region": "eu-west-1"}
    for region, host in (
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("us-east5", "us-east5-aiplatform.googleapis.com"),
    ):
        environ = {"GOOGLE_CLOUD_PROJECT": "p", "CLOUD_ML_REGION": region}
        assert fill_in(ROWS["vertex"], environ)["host"] == host
    assert fill_in(ROWS["vertex"], {"GOOGLE_CLOUD_PROJECT": "p"})["region"] == "global"
    assert not is_placed(ROWS["azure"], {})
    assert is_placed(ROWS["azure"], {"AZURE_OPENAI_RESOURCE": "x"})
    assert ROWS["groq"].described_key == "run `clew login groq` or set GROQ_API_KEY"
    assert ROWS["ollama"].described_key == "run `clew login ollama`"


def test_the_first_service_with_a_key_is_the_default() -> None:
    environ = {"GROQ_API_KEY": "k", "AZURE_OPENAI_API_KEY": "k"}
    row = find_keyed_row(ROWS, environ, lambda row: has_variable(row, environ))
    assert row is not None
    assert row.name == "groq"
    assert find_keyed_row(ROWS, {}, lambda row: has_variable(row, {})) is None
    only_azure = {"AZURE_OPENAI_API_KEY": "k"}
    assert find_keyed_row(ROWS, only_azure, lambda row: has_variable(row, only_azure)) is None


def test_a_url_is_of_the_service_whose_host_it_has() -> None:
    assert host_of("https://user:secret@API.openai.com:1/v1?x") == "api.openai.com:1"
    assert find_row_at("https://api.openai.com/anything") is ROWS["openai"]
    assert find_row_at("https://api.openai.com.evil.example") is None


def test_the_page_for_a_login_belongs_to_a_host() -> None:
    page = ROWS["openrouter"].login_url
    rows, problems = read_services(
        {
            "same": {"like": "openrouter", "model": "m"},
            "near": {"like": "openrouter", "url": "https://openrouter.ai/api/v2"},
            "far": {"like": "openrouter", "url": "https://proxy.example/v1"},
            "own": {
                "like": "openrouter",
                "url": "https://proxy.example/v1",
                "loginUrl": "https://x/",
            },
        }
    )
    assert not problems
    assert [rows[name].login_url for name in ("same", "near", "far", "own")] == [
        page,
        page,
        "",
        "https://x/",
    ]
