"""Manifests of plugins and marketplaces, parsed strictly and without guessing."""

from typing import Any

import pytest

from clew.parts.plugins.manifest import (
    PluginSource,
    last_of,
    parse_manifest,
    parse_market,
    parse_source,
    source,
    with_root,
)

COMMIT = "a" * 40


def test_a_manifest_is_read_for_what_counts() -> None:
    said = parse_manifest({"name": "x", "author": {"name": "Ada"}, "skills": "./s", "other": 1})
    assert not isinstance(said, str)
    assert (said.author, said.declared, said.version) == ("Ada", {"skills": "./s"}, "")
    plain = parse_manifest({"name": "x", "author": "Ada"})
    assert not isinstance(plain, str)
    assert plain.author == "Ada"


@pytest.mark.parametrize("data", [[], {}, {"name": "a b"}, {"name": "../x"}, {"name": 1}])
def test_a_plugin_without_a_proper_name_is_none(data: Any) -> None:
    assert isinstance(parse_manifest(data), str)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("./x", PluginSource(path="./x")),
        ({"source": "github", "repo": "a/b", "ref": "v1"}, PluginSource(url="https://github.com/a/b.git", ref="v1")),
        ({"source": "url", "url": "https://h/x.git", "sha": COMMIT}, PluginSource(url="https://h/x.git", commit=COMMIT)),
        ({"source": "git-subdir", "url": "git@h:x.git", "path": "p"}, PluginSource(url="git@h:x.git", path="p")),
        ({"source": "directory", "path": "/x"}, PluginSource(path="/x")),
        ("", "source:"),
        (3, "source:"),
        ({"source": "github", "repo": "a/b/c"}, "source.repo:"),
        ({"source": "url", "url": "ext::sh -c id"}, "source.url:"),
        ({"source": "url", "url": "https://h", "sha": "abc"}, "source.sha:"),
        ({"source": "directory"}, "source.path:"),
        ({"source": "npm", "package": "@a/far", "version": "1.2.0"}, PluginSource(url="npm:@a/far", ref="1.2.0")),
        ({"source": "npm", "package": "far", "registry": "https://h"}, PluginSource(url="npm:far", registry="https://h")),
        ({"source": "npm"}, "source.package:"),
        ({"source": "npm", "package": "--x"}, "source.package:"),
        ({"source": "npm", "package": "git+ssh://h/x"}, "source.package:"),
        ({"source": "npm", "package": "far", "version": "file:../x"}, "source.version:"),
        ({"source": "npm", "package": "far", "registry": "file:///x"}, "source.registry:"),
        ({"source": "zip"}, "source:"),
        ({}, "source:"),
    ],
)  # fmt: skip
def test_a_source_is_a_folder_or_a_repository(value: Any, found: PluginSource | str) -> None:
    made = source(value)
    assert (
        made.startswith(found)
        if isinstance(made, str) and isinstance(found, str)
        else made == found
    )


def test_what_a_user_types_is_a_source() -> None:
    assert parse_source("a/b#v1") == PluginSource(url="https://github.com/a/b.git", ref="v1")
    assert parse_source(f"https://h/x.git#{COMMIT}").commit == COMMIT
    assert parse_source("./a/b") == PluginSource(path="./a/b")
    assert [str(parse_source(words)) for words in ("./x", "https://h/x", "a/b#v")] == [
        "./x",
        "https://h/x",
        "https://github.com/a/b.git#v",
    ]


def test_a_package_is_named_as_npm_names_it() -> None:
    assert parse_source("npm:far") == PluginSource(url="npm:far")
    assert parse_source("npm:@a/far@1.2.0") == PluginSource(url="npm:@a/far", ref="1.2.0")
    assert str(parse_source("npm:@a/far@1.2.0")) == "npm:@a/far@1.2.0"
    assert str(parse_source("npm:@a/far")) == "npm:@a/far"
    assert not parse_source("https://h/x.git").is_package
    with pytest.raises(ValueError, match="expected a package name"):
        parse_source("npm:../x")


def test_a_marketplace_keeps_what_can_be_read() -> None:
    said = parse_market(
        {
            "name": "m",
            "metadata": {"pluginRoot": "./plugins/"},
            "plugins": [
                {"name": "a", "source": "./a"},
                {"name": "b", "source": {"source": "github", "repo": "x/y"}, "version": "2"},
                {"name": "c", "source": 1},
                {},
            ],
        }
    )
    assert not isinstance(said, str)
    assert [str(one.source) for one in said.offers] == ["./plugins/a", "https://github.com/x/y.git"]
    assert len(said.faults) == 2
    assert isinstance(parse_market([]), str)
    assert isinstance(parse_market({"name": ""}), str)
    assert isinstance(parse_market({"name": "m", "plugins": {}}), str)
    assert not isinstance(parse_market({"name": "m", "plugins": []}), str)


def test_only_named_places_are_put_in() -> None:
    said = with_root({"a": ["${R}/x", "${HOME}", 1]}, {"R": "/p"})
    assert said == {"a": ["/p/x", "${HOME}", 1]}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("./pl/n1", "n1"),
        ("owner/tool", "tool"),
        ("https://h/x/tool.git/#v1", "tool"),
        ("git@h:tool.git", "tool"),
        ("npm:@scope/tool@1.0.0", "tool"),
        ("npm:tool", "tool"),
    ],
)
def test_a_source_has_a_name(words: str, name: str) -> None:
    assert last_of(parse_source(words)) == name


def test_a_folder_of_a_repository_is_called_like_the_folder() -> None:
    assert last_of(PluginSource(url="https://h/x.git", path="plugins/tool/")) == "tool"
