"""The variables, in both spellings, frozen; and the one function that hides secrets."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.config.environment import BY_FIELD, VARIABLES, for_programs, freeze
from clew.config.mask import HIDDEN, SHAPES, mask
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
    assert freeze({name: "17", own: "18"}).text(field) == "18"


def test_the_defaults_stand_where_nothing_is_said() -> None:
    nothing = freeze({})
    assert nothing.number("bash_timeout_ms") == 120_000
    assert nothing.number("max_output_tokens") is None
    assert nothing.switch("telemetry_disabled")
    assert not nothing.switch("sandboxed")
    assert not nothing.switch("model")
    assert nothing.source("model") is None


def test_numbers_have_spellings_and_faults_are_told() -> None:
    assert freeze({"BASH_DEFAULT_TIMEOUT_MS": "2e3"}).number("bash_timeout_ms") == 2000
    assert freeze({"BASH_DEFAULT_TIMEOUT_MS": "64_000"}).number("bash_timeout_ms") == 64_000
    wrong = freeze({"BASH_DEFAULT_TIMEOUT_MS": "soon", "MAX_THINKING_TOKENS": "x"})
    assert wrong.number("bash_timeout_ms") == 120_000
    assert wrong.faults == (
        "BASH_DEFAULT_TIMEOUT_MS: expected a whole number; using 120000",
        "MAX_THINKING_TOKENS: expected a whole number; using none",
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


SECRETS = [
    "sk-ant-api03-AbCdEf0123456789_-xyz",
    "sk-proj-AbCdEf0123456789AbCd",
    "ghp_0123456789abcdefABCDEF",
    "github_pat_11ABCDEFG0123456789",
    "xoxb-1234567890-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA0123456789abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("frame", ["{}", "key is {} ok", '{{"k": "{}"}}', "curl -H 'x: {}'"])
def test_secrets_of_known_shapes_are_hidden(secret: str, frame: str) -> None:
    shown = mask(frame.format(secret))
    assert HIDDEN in shown
    assert secret[8:] not in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef123456", f"Authorization: Bearer {HIDDEN}"),
        ('"authorization": "Basic dXNlcjpwYXNz"', f'"authorization": "Basic {HIDDEN}"'),
        ("bearer 0123456789abcdef0123", f"bearer {HIDDEN}"),
        ("https://me:hunter2@host/x", f"https://me:{HIDDEN}@host/x"),
        ("password=correcthorse;", f"password={HIDDEN};"),
        ('api_key: "0123456789abcdef"', f'api_key: "{HIDDEN}"'),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7", f"AWS_SECRET_ACCESS_KEY={HIDDEN}"),
        ("max_tokens: 8192", "max_tokens: 8192"),
        ("the token was fine", "the token was fine"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx",
            f"-----BEGIN RSA PRIVATE KEY-----{HIDDEN}\nx",
        ),
        ("-----BEGIN PRIVATE KEY-----\nabc", f"-----BEGIN PRIVATE KEY-----{HIDDEN}"),
        ("nothing here", "nothing here"),
    ],
)
def test_secrets_are_known_by_what_stands_before_them(text: str, expected: str) -> None:
    assert mask(text) == expected


@given(
    secret=st.text(min_size=6, max_size=30), before=st.text(max_size=10), after=st.text(max_size=10)
)
def test_a_secret_that_is_known_never_stays(secret: str, before: str, after: str) -> None:
    shown = mask(before + secret + after, [secret, "x", ""])
    assert secret not in shown or secret in HIDDEN


@given(
    st.lists(
        st.sampled_from(
            [
                *SECRETS,
                "Authorization: Bearer ",
                "PASSWD=",
                "paſſword=",
                "toKen: ",
                "a://b:",
                "@h",
                " ",
            ]
        )
        | st.text(max_size=8),
        max_size=6,
    ).map("".join)
)
def test_looking_for_words_first_hides_no_less(text: str) -> None:
    every = text
    for _, shape in SHAPES:
        every = re.sub(shape, lambda match: match[1] + HIDDEN, every)
    assert mask(text) == every


def test_masking_takes_time_in_proportion_to_the_text() -> None:
    for text in ("a://" * 50_000, "password " * 50_000, "-----BEGIN PRIVATE KEY-----" * 200):
        assert mask(text)


def test_programs_get_no_key_of_the_sessions_unless_somebody_wants_that() -> None:
    environ = {"ANTHROPIC_API_KEY": "k", "PATH": "/bin"}
    assert for_programs(environ) == {"PATH": "/bin"}
    kept = environ | {"CLEW_SUBPROCESS_ENV_SCRUB": "0"}
    assert for_programs(kept) == kept
