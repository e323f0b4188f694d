"""The endpoint and its credentials: both spellings of the variables, and no secret in any text."""

import pytest

from clew.providers.endpoint import Endpoint, read_endpoint, request_headers
from clew.system.config.environment import freeze


def test_the_variables_have_two_spellings_and_clews_own_stands_above() -> None:
    shared = {
        "ANTHROPIC_BASE_URL": "https://gateway.example/",
        "ANTHROPIC_API_KEY": "key-one",
        "ANTHROPIC_AUTH_TOKEN": "token-one",
        "ANTHROPIC_CUSTOM_HEADERS": "A: 1\\nB: two: three\n\nnot a header\n: nameless",
        "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
    }
    endpoint = read_endpoint(freeze(shared))
    assert endpoint.url("/v1/messages") == "https://gateway.example/v1/messages"
    assert (endpoint.api_key, endpoint.auth_token) == ("key-one", "token-one")
    assert endpoint.headers == (("A", "1"), ("B", "two: three"))
    assert not endpoint.betas_allowed
    assert endpoint.credentials == "API key and bearer token"
    own = {
        "CLEW_BASE_URL": "http://127.0.0.1:9/v1",
        "CLEW_API_KEY": "key-two",
        "CLEW_AUTH_TOKEN": "token-two",
        "CLEW_CUSTOM_HEADERS": "C: 3",
        "CLEW_DISABLE_BETAS": "no",
    }
    endpoint = read_endpoint(freeze(shared | own))
    assert endpoint.url("/v1/messages") == "http://127.0.0.1:9/v1/messages"
    assert (endpoint.api_key, endpoint.auth_token) == ("key-two", "token-two")
    assert endpoint.headers == (("C", "3"),)
    assert endpoint.betas_allowed


def test_the_address_is_shown_without_its_user_and_password() -> None:
    assert Endpoint(base_url="https://me:pw@gateway.example/x").shown == "https://gateway.example/x"
    assert Endpoint().shown == "https://api.anthropic.com"


def test_an_empty_environment_is_the_service_itself_without_credentials() -> None:
    endpoint = read_endpoint(freeze({"ANTHROPIC_API_KEY": "  "}))
    assert endpoint == Endpoint()
    assert endpoint.wants_credentials
    assert endpoint.credentials == "none"


def test_a_users_headers_stand_in_place_of_clews() -> None:
    endpoint = Endpoint(api_key="key-one", headers=(("X-API-KEY", "theirs"), ("Accept", "x/y")))
    headers = request_headers(endpoint, betas=(), stream=True)
    names = [name.lower() for name, _ in headers]
    assert len(names) == len(set(names))
    assert dict(headers)["X-API-KEY"] == "theirs"
    assert "anthropic-beta" not in names
    assert not endpoint.wants_credentials


def test_a_credential_cut_off_by_an_excerpt_is_hidden_too() -> None:
    endpoint = Endpoint(api_key="sk-ant-secret", base_url="https://me:password@gateway.example")
    assert endpoint.hide("no sk-ant-sec...") == "no [masked]"
    assert endpoint.hide("keys begin with sk-ant-, this one not") == (
        "keys begin with sk-ant-, this one not"
    )
    # Of a shape that is known, though nobody said so: a server may quote from a request.
    other = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    assert endpoint.hide(f"messages.0: {other} is refused") == "messages.0: ghp_[masked] is refused"
    assert endpoint.hide("req_011CSHoEeqs5C35K2UUqR7Fy") == "req_011CSHoEeqs5C35K2UUqR7Fy"
    assert endpoint.hide_all({"me:password": [1, "sk-ant-secret"]}) == {"[masked]": [1, "[masked]"]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("req_011CSHoEeqs5C35K2UUqR7Fy", "req_011CSHoEeqs5C35K2UUqR7Fy"),
        ("req_ghp_0123456789abcdefghijABCDEFGHIJ012345", "req_ghp_[masked]"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "ghp_[masked]"),
        ("req_secretofmine", "req_[masked]"),
        ("secretofmine", "[masked]"),
    ],
)
def test_the_id_of_a_request_shows_no_credential(text: str, shown: str) -> None:
    assert Endpoint(api_key="secretofmine").hide_in_id(text) == shown


def test_credentials_are_hidden_in_any_text() -> None:
    endpoint = Endpoint(
        api_key="key-one", auth_token="token-one", headers=(("A", "header-one"), ("B", "x"))
    )
    hidden = endpoint.hide("key-one token-one header-one x")
    assert hidden == "[masked] [masked] [masked] x"
