"""The sources of the key, in order, and that no message reveals it."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew.system.config.environment import freeze
from clew.system.config.keys import (
    ApiKey,
    abbreviate_key,
    find_key,
    find_keyring,
    in_environment,
    read_login,
    write_secrets,
)
from clew.system.config.mask import remove_all_secrets
from clew.system.config.paths import Places, find_places

SECRET = "sk-ant-api03-AbCdEf0123456789"


class KeyringError(Exception):
    """What the package of that name says when nobody opens it."""


class Keyring:
    """The call of the package of that name, and its error."""

    errors = SimpleNamespace(KeyringError=KeyringError)

    def __init__(self, secret: str | None) -> None:
        self.secret = secret

    def get_password(self, service: str, account: str) -> str | None:
        return self.secret if (service, account) == ("clew", "api-key") else None


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return find_places({"HOME": str(tmp_path)}, tmp_path)


def find(
    places: Places,
    environ: dict[str, str],
    settings: dict[str, Any],
    helper: str | None,
    ring: Any = None,
) -> Any:
    async def helped(_: str) -> str | None:
        return helper

    return asyncio.run(find_key(freeze(environ), settings, places, run_helper=helped, keyring=ring))


def test_the_order_is_environment_helper_keyring_file(places: Places) -> None:
    write_secrets(places.credentials, {"apiKey": "from-login"})
    helper = {"apiKeyHelper": "print-key"}
    ring = Keyring("from-ring")
    assert find(places, {"ANTHROPIC_API_KEY": "e"}, helper, "h", ring) == ApiKey(
        source="environment", secret="e"
    )
    assert find(places, {}, helper, " h\n", ring) == ApiKey(source="apiKeyHelper", secret="h")
    assert find(places, {}, helper, None, ring) == ApiKey(source="keyring", secret="from-ring")
    assert find(places, {}, {}, None, Keyring(None)) == ApiKey(source="login", secret="from-login")


class LockedKeyring(Keyring):
    def get_password(self, service: str, account: str) -> str | None:
        raise KeyringError


def test_a_locked_keyring_is_one_without_the_key(places: Places) -> None:
    write_secrets(places.credentials, {"apiKey": "from-login"})
    assert find(places, {}, {}, None, LockedKeyring("x")) == ApiKey(
        source="login", secret="from-login"
    )


def test_there_may_be_no_key(places: Places) -> None:
    assert find(places, {}, {"apiKeyHelper": "x"}, "  ", Keyring(None)) is None
    assert find(places, {}, {"apiKeyHelper": 3}, "x") is None


def test_a_key_is_not_in_its_representation() -> None:
    assert SECRET not in repr(ApiKey(source="login", secret=SECRET))
    assert SECRET not in f"{[ApiKey(source='login', secret=SECRET)]}"
    assert abbreviate_key(SECRET) == "...6789"
    assert abbreviate_key("short") == "(a short key)"


def test_a_file_that_others_can_read_is_not_used(places: Places) -> None:
    write_secrets(places.credentials, {"apiKey": SECRET})
    assert read_login(places.credentials) == SECRET
    places.credentials.chmod(0o644)
    assert read_login(places.credentials) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"apiKey": 3}', '{"apiKey": ""}'])
def test_a_broken_file_holds_no_key(places: Places, text: str) -> None:
    write_secrets(places.credentials, {"apiKey": SECRET})
    places.credentials.write_text(text, "utf-8")
    assert read_login(places.credentials) is None


def test_without_the_extra_there_is_no_keyring() -> None:
    assert find_keyring() is None


def test_known_secrets_leave_texts_of_any_shape_otherwise_as_they_are() -> None:
    value = {"a": [f"x{SECRET}y", 3, None], SECRET: {"token": "abcdefgh"}}
    assert remove_all_secrets(value, (SECRET, "abc")) == {
        "a": ["x[masked]y", 3, None],
        "[masked]": {"token": "abcdefgh"},
    }


def test_keys_of_the_environment_are_known_in_every_spelling() -> None:
    environ = {"CLEW_API_KEY": "one", "ANTHROPIC_API_KEY": "two", "ANTHROPIC_AUTH_TOKEN": ""}
    assert in_environment(environ) == ("one", "two")
