"""What settings come to: layers, paths, hosts, and that a folder's own files only tighten."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.config.layers import Layer, Scope
from clew.system.sandbox.policy import (
    FilesystemSettings,
    NetworkSettings,
    SandboxPolicy,
    SandboxSettings,
    is_domain,
    is_written,
    read_settings,
)

Json = dict[str, Any]


def layer(sandbox: Any, scope: Scope = "user", file: str | None = "/s.json") -> Layer:
    return Layer(scope=scope, data={"sandbox": sandbox}, root="/home/me/.claude", file=file)


def read(*layers: Layer) -> tuple[SandboxSettings, tuple[str, ...]]:
    return read_settings(layers, home="/home/me")


def test_nothing_said_is_nothing() -> None:
    assert read() == (SandboxSettings(), ())
    assert read(Layer(scope="user", data={}, root="/")) == (SandboxSettings(), ())


def test_the_published_object_is_read() -> None:
    settings, faults = read(
        layer(
            {
                "enabled": True,
                "failIfUnavailable": False,
                "autoAllowBashIfSandboxed": False,
                "excludedCommands": ["docker"],
                "filesystem": {
                    "allowWrite": ["~/build", "/opt/x", "//opt/y", "out", "./a/../b", "~"],
                    "denyWrite": ["/opt/x/kept"],
                    "denyRead": ["~/private"],
                    "allowRead": ["~/private/open"],
                },
                "network": {
                    "allowedDomains": ["example.com"],
                    "deniedDomains": ["bad.example.com"],
                    "allowAllUnixSockets": True,
                },
                "somethingNewer": 1,
            }
        )
    )
    assert faults == ()
    assert settings == SandboxSettings(
        enabled=True,
        must_work=False,
        spares_questions=False,
        excluded=("docker",),
        files=FilesystemSettings(
            write=(
                "/home/me/build", "/opt/x", "/opt/y", "/home/me/.claude/out",
                "/home/me/.claude/b", "/home/me",
            ),
            no_write=("/opt/x/kept",),
            no_read=("/home/me/private",),
            read=("/home/me/private/open",),
        ),
        network=NetworkSettings(
            domains=("example.com",), no_domains=("bad.example.com",), unix_sockets=True
        ),
    )  # fmt: skip


def test_the_higher_layer_has_the_word_and_lists_add_up() -> None:
    settings, _ = read(
        layer({"enabled": False, "excludedCommands": ["b", "a"], "failIfUnavailable": True,
               "autoAllowBashIfSandboxed": True}),
        layer({"enabled": True, "excludedCommands": ["a"]}, "managed"),
    )  # fmt: skip
    assert settings.enabled is True
    assert (settings.must_work, settings.spares_questions) == (True, True)
    assert settings.excluded == ("a", "b")
    settings, _ = read(layer({"enabled": True}), layer({"autoAllowBashIfSandboxed": False}, "cli"))
    assert (settings.enabled, settings.spares_questions) == (True, False)


@pytest.mark.parametrize("scope", ["project", "local"])
def test_a_folders_own_files_take_away_and_give_nothing(scope: Scope) -> None:
    settings, faults = read(
        layer({"enabled": True, "filesystem": {"denyRead": ["/a"]}}),
        layer(
            {
                "enabled": False,
                "failIfUnavailable": True,
                "excludedCommands": ["*"],
                "filesystem": {"allowWrite": ["/"], "denyWrite": ["/b"], "allowRead": ["/a"]},
                "network": {"allowedDomains": ["*"], "deniedDomains": ["c"]},
            },
            scope,
        ),
    )
    assert settings == SandboxSettings(
        enabled=True,
        must_work=True,
        files=FilesystemSettings(no_read=("/a",), no_write=("/b",)),
        network=NetworkSettings(no_domains=("c",)),
    )
    assert [fault.split(": ")[1] for fault in faults] == [
        "sandbox.enabled", "sandbox.excludedCommands", "sandbox.filesystem.allowWrite",
        "sandbox.filesystem.allowRead", "sandbox.network.allowedDomains",
    ]  # fmt: skip


def test_a_folders_files_may_switch_it_on() -> None:
    assert read(layer({"enabled": True}, "project"))[0].enabled is True


@pytest.mark.parametrize(
    "odd", [{"enabled": "no"}, {"filesystem": {"allowWrite": "/"}}, {"network": []}]
)
def test_what_cannot_be_read_leaves_it_on_and_opens_nothing(odd: Json) -> None:
    settings, faults = read(layer({"enabled": False}), layer(odd, "cli", file=None))
    assert settings == SandboxSettings(enabled=True)
    assert len(faults) == 1
    assert faults[0].startswith("(cli): sandbox: Expected")


def test_a_sandbox_that_is_no_object_says_nothing_here() -> None:
    assert read(layer("yes"))[0] == SandboxSettings()


POLICY = SandboxPolicy(
    write=("/work",),
    no_write=("/work/.git/hooks",),
    no_read=("/home/me/.ssh",),
    read=("/home/me/.ssh/known_hosts",),
    domains=("example.com", "*.example.org", "localhost"),
    no_domains=("evil.example.org",),
)


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/work", True),
        ("/work/a", True),
        ("/workshop", False),
        ("/", False),
        ("/work/.git/hooks/x", False),
    ],
)
def test_what_may_be_written(path: str, may: bool) -> None:
    assert POLICY.may_write(path) is may


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/etc/x", True),
        ("/home/me/.ssh", False),
        ("/home/me/.ssh/id", False),
        ("/home/me/.ssh/known_hosts", True),
    ],
)
def test_what_may_be_read(path: str, may: bool) -> None:
    assert POLICY.may_read(path) is may


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("example.com", True),
        ("EXAMPLE.com.", True),
        ("www.example.com", False),
        ("notexample.com", False),
        ("a.example.org", True),
        ("a.b.example.org", True),
        ("example.org", False),
        (".example.org", False),
        ("xexample.org", False),
        ("evil.example.org", False),
        ("", False),
    ],
)
def test_which_hosts_may_be_reached(host: str, may: bool) -> None:
    assert POLICY.may_reach(host) is may


def test_a_star_is_every_host_and_no_host_is_no_network() -> None:
    assert is_domain("*", "anything")
    assert POLICY.has_network
    assert not SandboxPolicy(write=()).has_network


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["allowWrite", "denyRead", "allowedDomains", "x"]), inner, max_size=3
    ),
    max_leaves=6,
)  # fmt: skip
NAMES = [
    "enabled",
    "failIfUnavailable",
    "autoAllowBashIfSandboxed",
    "excludedCommands",
    "filesystem",
    "network",
]


@given(st.dictionaries(st.sampled_from(NAMES), json_values))
def test_no_words_of_a_folder_open_anything(said: Json) -> None:
    before, _ = read(layer({"enabled": True, "failIfUnavailable": True}))
    after, _ = read(layer({"enabled": True, "failIfUnavailable": True}), layer(said, "project"))
    assert (after.enabled, after.must_work) == (True, True)
    assert after.spares_questions in (None, False)
    assert (after.excluded, after.files.write, after.files.read) == ((), (), ())
    assert after.network.domains == before.network.domains
    assert not after.network.unix_sockets


def test_the_deepest_place_says_whether_a_path_is_written() -> None:
    places = {"/": False, "/a": True, "/a/b": False}
    assert [is_written(places, path) for path in ("/a/c", "/a/b/c", "/x", "/")] == [
        True, False, False, False,
    ]  # fmt: skip
    assert not is_written({"/a": True}, "/")
    assert not is_written({"/a": True}, "relative")
