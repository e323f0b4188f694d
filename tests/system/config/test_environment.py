"""The variables, in both spellings, frozen."""

import pytest

from clew.system.config.environment import BY_FIELD, VARIABLES, for_programs, freeze
from tests.requirements import requirement


@requirement("R115")
def test_what_the_environment_said_at_the_start_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("CLEW_MODEL", "first")
    environment = freeze(os.environ)
    monkeypatch.setenv("CLEW_MODEL", "second")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "later")
    assert environment.text("model") == "first"
    assert environment.source("model") == "CLEW_MODEL"
    with pytest.raises(AttributeError):
        del environment.values


@requirement("R244", "C12")
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("ANTHROPIC_API_KEY", "api_key"),
        ("CLAUDE_MODEL", "model"),
        ("ANTHROPIC_MODEL", "model"),
        ("BASH_MAX_OUTPUT_LENGTH", "bash_max_output"),
        ("BASH_DEFAULT_TIMEOUT_MS", "bash_timeout_ms"),
        ("CLAUDE_TELEMETRY_DISABLED", "telemetry_disabled"),
        ("DISABLE_TELEMETRY", "telemetry_disabled"),
    ],
)
def test_both_spellings_are_read_and_our_own_wins(name: str, field: str) -> None:
    assert freeze({name: "17"}).text(field) == "17"
    own = BY_FIELD[field].names[0]
    assert own.startswith("CLEW_")
    assert freeze({name: "17", own: "1"}).text(field) == "1"


def test_the_defaults_stand_where_nothing_is_said() -> None:
    nothing = freeze({})
    assert nothing.number("bash_timeout_ms") == 120_000
    assert nothing.number("max_output_tokens") is None
    assert not nothing.switch("telemetry")
    assert not nothing.switch("telemetry_disabled")
    assert not nothing.switch("sandboxed")
    assert not nothing.switch("model")
    assert nothing.source("model") is None


def test_numbers_have_spellings_and_faults_are_reported() -> None:
    assert freeze({"BASH_DEFAULT_TIMEOUT_MS": "2e3"}).number("bash_timeout_ms") == 2000
    assert freeze({"BASH_DEFAULT_TIMEOUT_MS": "64_000"}).number("bash_timeout_ms") == 64_000
    wrong = freeze({"BASH_DEFAULT_TIMEOUT_MS": "soon", "MAX_THINKING_TOKENS": "x"})
    assert wrong.number("bash_timeout_ms") == 120_000
    assert wrong.faults == (
        "MAX_THINKING_TOKENS: expected a whole number, got 'x'; ignored",
        "BASH_DEFAULT_TIMEOUT_MS: expected a whole number, got 'soon'; using 120000",
    )


@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("true", True), ("0", False), ("No", False)]
)
def test_switches_read_words(value: str, on: bool) -> None:
    assert freeze({"IS_SANDBOX": value}).switch("sandboxed") is on


def test_the_settings_env_wins_over_the_shell_by_name() -> None:
    both = freeze({"CLAUDE_MODEL": "shell"}, {"CLAUDE_MODEL": "settings"})
    assert both.text("model") == "settings"


def test_no_variable_means_two_things() -> None:
    names = [name for v in VARIABLES for name in v.names]
    assert len(set(names)) == len(names)


def test_programs_get_no_key_of_the_sessions_unless_someone_wants_that() -> None:
    environ = {"ANTHROPIC_API_KEY": "k", "PATH": "/bin"}
    assert for_programs(environ) == {"PATH": "/bin"}
    kept = environ | {"CLEW_SUBPROCESS_ENV_SCRUB": "0"}
    assert for_programs(kept) == kept


def test_what_is_set_is_reported_without_secrets() -> None:
    environ = {"CLEW_MODEL": "opus", "ANTHROPIC_MODEL": "haiku", "HTTPS_PROXY": "http://u:p@h"}
    assert list(freeze(environ).told()) == ["CLEW_MODEL=opus", "HTTPS_PROXY=(hidden)"]


def test_a_switch_of_clew_that_is_neither_on_nor_off_is_reported_and_ignored() -> None:
    environment = freeze({"CLEW_MESSAGE_THREADS": "maybe", "IS_SANDBOX": "gvisor"})
    assert environment.faults == ("CLEW_MESSAGE_THREADS: expected 1 or 0, got 'maybe'; ignored",)
    assert environment.source("message_threads") is None
    assert environment.switch("sandboxed")
