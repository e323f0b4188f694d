"""Names, states, versions, entries and rules of servers: everything decided without IO."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.parts.mcp import config, protocol
from clew.parts.mcp import protocol as states
from clew.parts.mcp.config import (
    HttpServer,
    InProcessServer,
    OAuthSettings,
    ServerConfig,
    StdioServer,
    find_variables,
    read_server,
    why_forbidden,
)
from clew.parts.mcp.protocol import EVENTS, STATES, Agreement, Event, State
from clew.system.jsonrpc.peer import PeerFailure
from tests.requirements import requirement

ENVIRON = {"TOKEN": "t0p", "EMPTY": ""}


def server(entry: Any, name: str = "one") -> ServerConfig | str:
    return read_server(name, entry, scope="user", environ=ENVIRON)


def good(entry: Any) -> ServerConfig:
    found = server(entry)
    assert isinstance(found, ServerConfig), found
    return found


# -- names


@pytest.mark.no_cover
@given(name=st.text(max_size=40), tool=st.text(max_size=300))
def test_a_tools_name_is_one_the_service_takes_and_names_its_server(name: str, tool: str) -> None:
    made = config.tool_name(name, tool)
    assert len(made) <= config.LONGEST
    assert all(c.isascii() and (c.isalnum() or c in "_-") for c in made)
    assert made.removeprefix("mcp__").partition("__")[0] == config.server_part(name)


def test_no_server_takes_a_tool_into_anothers_name() -> None:
    assert config.server_part("git__push") == "git_push"
    assert config.server_part("git_") == "git"
    assert config.tool_name("a", "b__c") == "mcp__a__b__c"
    assert config.server_part("__") == "server"


def test_tools_that_read_alike_stay_two() -> None:
    named = config.make_distinct_names("s", ["a.b", "a b", "a.b", "x" * 200])
    assert sorted(named.values()) == ["a b", "a.b", "x" * 200]
    assert "mcp__s__a_b" in named


# -- states


@requirement("R151")
def test_a_server_goes_through_its_life_and_begins_again() -> None:
    state: State = "disconnected"
    seen = []
    life: list[Event] = ["connect", "opened", "agreed", "changed", "lost", "connect", "opened"]
    for event in [*life, "agreed", "close", "closed"]:
        state = states.next_state(state, event)
        seen.append(state)
    assert seen == [
        "connecting",
        "initializing",
        "ready",
        "ready",
        "waiting",
        "connecting",
        "initializing",
        "ready",
        "closing",
        "disconnected",
    ]


@requirement("R151", "W26")
def test_every_state_has_a_way_out_and_every_way_leads_to_a_state() -> None:
    for state in STATES:
        assert any(states.next_state(state, event) != state for event in EVENTS), state
        assert state in states.PATIENCE_S
        assert states.name_state(state) in (
            "connected",
            "pending",
            "failed",
            "needs-auth",
            "disabled",
        )
    reached = set(states.TRANSITIONS.values())
    assert reached == set(STATES)
    assert states.next_state("ready", "lost") == "waiting"
    assert states.next_state("failed", "reset") == "disconnected"
    assert states.next_state("failed", "lost") == "failed"


@requirement("W26")
def test_attempts_come_later_each_time_and_end() -> None:
    delays = [states.compute_delay_s(n, random=0) for n in range(1, states.MOST_ATTEMPTS + 2)]
    assert delays[:3] == [0.5, 1.0, 2.0]
    assert delays[-1] is None
    assert states.compute_delay_s(1, random=1) == 0.625


# -- versions


@requirement("R149", "W26")
def test_capabilities_are_objects_and_only_what_there_is_is_offered() -> None:
    assert protocol.capabilities(elicits=False, samples=False) == {"roots": {"listChanged": True}}
    offered = protocol.capabilities(elicits=True, samples=True)
    assert set(offered) == {"roots", "elicitation", "sampling"}
    assert protocol.initialize(offered)["protocolVersion"] == "2025-11-25"


@requirement("R149")
def test_the_handshake_settles_version_and_what_the_server_offers() -> None:
    found = protocol.read_agreement(
        {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}, "prompts": 3},
            "serverInfo": {"name": "x"},
            "instructions": "hello",
        }
    )
    assert isinstance(found, Agreement)
    assert found.era == "handshake"
    assert found.offers("tools")
    assert not found.offers("prompts")
    assert found.feature("tools", "listChanged")
    assert not found.feature("resources", "subscribe")
    assert isinstance(protocol.read_agreement({"protocolVersion": "2026-07-28"}), str)
    assert isinstance(protocol.read_agreement([]), str)


def test_the_stateless_era_is_settled_by_a_list_of_versions() -> None:
    found = protocol.read_discovery(
        {
            "supportedVersions": ["2026-07-28", "2030-01-01"],
            "capabilities": {},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "n"}},
        }
    )
    assert isinstance(found, Agreement)
    assert (found.era, found.version, found.server) == ("stateless", "2026-07-28", {"name": "n"})
    assert isinstance(protocol.read_discovery({"supportedVersions": ["2030-01-01"]}), str)
    assert isinstance(protocol.read_discovery("no"), str)


def test_a_refused_handshake_may_ask_for_the_later_era() -> None:
    def refusal(code: int, data: Any) -> PeerFailure:
        return PeerFailure(kind="refused", message="", code=code, data=data)

    named = {"supported": ["2026-07-28"]}
    assert protocol.wants_stateless(refusal(-32022, named)) == "2026-07-28"
    assert protocol.wants_stateless(refusal(-32022, {"supported": ["2030"]})) is None
    assert protocol.wants_stateless(refusal(-32022, None)) is None
    assert protocol.wants_stateless(refusal(-32601, named)) is None


def test_a_request_that_stands_alone_says_who_asks_and_what_they_can() -> None:
    meta = protocol.make_meta("2026-07-28", {"roots": {}}, None)
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}
    assert protocol.make_meta("v", {}, "info")["io.modelcontextprotocol/logLevel"] == "info"
    assert protocol.with_meta({"a": 1, "_meta": {"t": 2}}, {"x": 3}) == {
        "a": 1,
        "_meta": {"t": 2, "x": 3},
    }
    assert protocol.with_meta(None, {}) == {"_meta": {}}
    assert protocol.needs_input({"resultType": "input_required"})
    assert not protocol.needs_input({})


# -- entries


def test_an_entry_is_a_program_a_url_or_a_place_in_the_host() -> None:
    program = good(
        {
            "command": "${TOKEN}",
            "args": ["-x", "${NONE:-dflt}"],
            "env": {"A": "${EMPTY:-b}", "E": "${EMPTY}"},
            "timeout": 1500,
            "alwaysLoad": True,
        }
    )
    assert program.reach == StdioServer(command="t0p", args=("-x", "dflt"), env={"A": "b", "E": ""})
    assert (program.kind, program.timeout_s, program.always_load) == ("stdio", 1.5, True)
    url = good(
        {
            "url": "https://x/mcp",
            "headers": {"Authorization": "Bearer ${TOKEN}"},
            "headersHelper": "echo ${NOT_SET}",
            "oauth": {"clientId": "c", "callbackPort": 8080, "scopes": ["a", "b"]},
            "protocol": "2026-07-28",
        }
    )
    assert url.reach == HttpServer(
        url="https://x/mcp",
        headers={"Authorization": "Bearer t0p"},
        headers_helper="echo ${NOT_SET}",
        oauth=OAuthSettings(client_id="c", callback_port=8080, scopes="a b"),
    )
    assert url.stateless
    assert url.kind == "http"
    assert good({"type": "sse", "url": "http://x"}).kind == "sse"
    host = good({"type": "sdk"})
    assert (host.reach, host.kind) == (InProcessServer(name="one"), "sdk")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ([], "an object"),
        ({"type": "ftp"}, "type"),
        ({"type": 3}, "type"),
        ({"comand": "x"}, 'did you mean "command"'),
        ({"type": "http", "ur": "x"}, 'did you mean "url"'),
        ({"command": 3}, "command"),
        ({}, "command: missing"),
        ({"command": "x", "args": [1]}, "args"),
        ({"command": "x", "args": "no"}, "args"),
        ({"command": "x", "env": {"A": 1}}, "env"),
        ({"command": "x", "env": []}, "env"),
        ({"command": "x", "timeout": -1}, "timeout"),
        ({"command": "x", "timeout": True}, "timeout"),
        ({"command": "${UNSET}"}, "UNSET"),
        ({"url": "file:///etc/passwd"}, "http"),
        ({"url": "http://x", "oauth": []}, "oauth"),
        ({"url": "http://x", "oauth": {"clientId": 1}}, "clientId"),
        ({"url": "http://x", "oauth": {"callbackPort": 0}}, "callbackPort"),
        ({"url": "http://x", "oauth": {"scopes": 1}}, "scopes"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(entry: Any, why: str) -> None:
    found = server(entry)
    assert isinstance(found, str)
    assert why in found


def test_the_variables_of_an_entry_are_those_without_a_default() -> None:
    assert find_variables({"a": "${X}", "b": ["${Y:-z}", 3], "c": {"d": "${Z}"}}) == ["X", "Z"]


def test_fields_that_others_need_are_left_to_them() -> None:
    assert good({"command": "x", "zzz": 1, "icons": []}).raw["zzz"] == 1


# -- rules of an administrator


def test_a_denied_server_is_denied_and_an_allow_list_allows_nothing_else() -> None:
    program, url = good({"command": "npx", "args": ["a"]}), good({"url": "https://a.ok.com/mcp"})
    assert why_forbidden(program, None, None) == ""
    assert "denied" in why_forbidden(program, None, [{"serverName": "one"}])
    assert "denied" in why_forbidden(program, None, [{"serverCommand": ["npx", "a"]}])
    assert why_forbidden(url, None, [{"serverCommand": ["npx", "a"]}, "odd"]) == ""
    assert "allowed" in why_forbidden(program, [], None)
    assert why_forbidden(program, [{"serverName": "one"}], None) == ""
    # By name alone, any command could call itself so.
    listed = [{"serverName": "one"}, {"serverCommand": ["npx", "b"]}]
    assert "allowed" in why_forbidden(program, listed, None)
    assert why_forbidden(good({"type": "sdk"}), [{"serverName": "one"}], None) == ""


@pytest.mark.parametrize(
    ("pattern", "url", "fits"),
    [
        ("https://*.ok.com/*", "https://a.ok.com/mcp", True),
        ("https://*.ok.com/*", "https://a.ok.com.evil.com/mcp", False),
        ("https://*.ok.com/*", "https://evil.com/a.ok.com/", False),
        ("https://*.ok.com/*", "https://a.ok.com@evil.com/", False),
        ("*://localhost:*/*", "http://localhost:80/x", True),
        (3, "http://x", False),
    ],
)
def test_a_star_does_not_leave_its_host(pattern: Any, url: str, fits: bool) -> None:
    why = why_forbidden(good({"url": url}), [{"serverUrl": pattern}], None)
    assert (why == "") is fits


def test_without_an_environment_an_entry_is_taken_as_it_is_written() -> None:
    value = {"command": "program", "args": ["${NOT_SET_ANYWHERE}"]}
    found = read_server("x", value, scope="cli", environ=None)
    assert isinstance(found, ServerConfig)
    assert isinstance(found.reach, StdioServer)
    assert found.reach.args == ("${NOT_SET_ANYWHERE}",)
    assert "NOT_SET_ANYWHERE" in str(read_server("x", value, scope="cli", environ={}))
